"""Turns what was learned in a night into drafts for the playbooks: a signature of the lines that nobody knew, a rule of
the values that nothing watched, a case of the questions that led to the cause.

Drafts are files of a playbooks tree for people to look over. Nothing here touches playbooks that are in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from stethoscope.errors import DataError
from stethoscope.model.incident import Status
from stethoscope.session.learn_case import case_draft
from stethoscope.session.learn_rule import rule_draft
from stethoscope.session.learn_signature import signature_drafts
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.playbook import load_playbooks
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_book
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stethoscope.model.incident import Incident

KINDS = ("signature", "rule", "case")
_WIDTH = 150


@dataclass(frozen=True, slots=True)
class Draft:
    """One file of a playbooks tree."""

    kind: str
    """One of KINDS."""
    id: str
    """Of the signature or rule; of a case, the flow."""
    path: str
    """Below the tree: `signatures/inc-2026-03-14-k7qmx.yaml`."""
    text: str


@dataclass(frozen=True, slots=True)
class Learned:
    """What an incident teaches."""

    drafts: tuple[Draft, ...]
    notes: tuple[str, ...]
    """Why there is no draft of a kind, in words."""


def learn(incident: Incident, kinds: Iterable[str] = (), *directories: Path) -> Learned:
    """Return the drafts of an incident; of `kinds` where they are said, else of what the playbooks do not know yet.

    DataError when the playbooks cannot be read.
    """
    wanted = tuple(kinds) or KINDS
    drafts: list[Draft] = []
    notes: list[str] = []
    stem = incident.id.lower()
    head = f"# Learned from {incident.id}: look it over before it is used.\n"
    if "signature" in wanted:
        made, note = signature_drafts(incident, load_signatures(*directories), _causes(incident, directories))
        if made:
            text = head + _yaml({"schema": "stethoscope.signatures/1", "signatures": made})
            # What merely stood beside it is no sign of it.
            ids = ", ".join(one["id"] for one in made if one["role"] != "context")
            drafts.append(Draft("signature", ids, f"signatures/{stem}.yaml", text))
        notes += note
    if "rule" in wanted:
        catalogue, causes = load_catalogue(*directories), load_root_causes(*directories)
        book = load_book(catalogue, causes, *directories)
        rule, note = rule_draft(incident, catalogue, book.rules, causes, is_forced=bool(kinds))
        if rule is not None:
            drafts.append(Draft("rule", rule["rule_id"], f"rules/{stem}.yaml", head + _yaml(rule)))
        notes += note
    if "case" in wanted:
        found, note = case_draft(incident, load_playbooks(*directories))
        if found is not None:
            flow, file, text = found
            drafts.append(Draft("case", flow, f"triage/{file}", head + text))
        notes += note
    if drafts and incident.status in (Status.OPEN, Status.MITIGATED):
        notes.append(f"{incident.id} is not resolved yet: what it teaches may change")
    return Learned(tuple(drafts), tuple(notes))


def write_drafts(drafts: Iterable[Draft], directory: Path) -> list[Path]:
    """Write drafts below a directory and return their files; DataError for one that is there already, or where nothing
    can be written. Nothing is written over."""
    written = []
    for draft in drafts:
        path = directory / draft.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(draft.text)
        except FileExistsError:
            raise DataError("is there already, and stays as it is", where=str(path)) from None
        except OSError as error:
            raise DataError(error.strerror or "cannot be written", where=str(path)) from error
        written.append(path)
    return written


def _causes(incident: Incident, directories: tuple[Path, ...]) -> str:
    """Return the root cause of an incident, empty for one that playbooks do not have."""
    return incident.root_cause if incident.root_cause in load_root_causes(*directories) else ""


def _yaml(data: object) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=_WIDTH)
