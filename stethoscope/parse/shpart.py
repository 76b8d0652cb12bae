"""A block `@part` of the probe in sh (probes/watch.sh) to the part that the probe in Python would have sent.

It consists of sections, whose heads begin with `@`; no other line does, because each has the path of its file or its
number before it, but for what counts contents. Paths have no slash at their beginning.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model import wire
from stethoscope.parse import smi
from stethoscope.parse.greplines import Files

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_TASKS = 500
_PATTERN = re.compile(r"[*?\[]")
_TASK = re.compile(r"(\d{1,10}) \((.*)\) ([A-Za-z]) (\d{1,10}) ?", re.ASCII | re.DOTALL)
_OWNER = re.compile(r"(\d{1,10}) proc/(\d{1,10})/?", re.ASCII)
_EXIT = re.compile(r"(\d{1,3})(?:\n(.*))?", re.ASCII | re.DOTALL)


class _Section(NamedTuple):
    kind: str
    said: str
    """What stands beside the kind."""
    lines: list[str]


def read(seq: int, mono: float, wall: float, body: list[str]) -> wire.Part:
    """Return the part in the lines of a block; raises ValueError when they are none."""
    sections = list(_sections(body))
    said = {section.kind: section.said for section in sections}
    if not re.fullmatch(r"\d{1,6}", said.get("s", ""), re.ASCII):
        raise ValueError("a part without a pace")
    part = wire.Part(seq=seq, mono=mono, wall=wall, name=said.get("name", ""), s=float(said["s"]))
    if "same" in said:
        part.same = True
        return part
    part.ran = _ran(sections)
    owners = _owners(sections, part.ran.pop("users", None))
    among: list[str] = []
    for section in sections:
        if section.kind == "among":
            among = section.lines
        elif section.kind == "files":
            _take_files(part, section.lines, among)
            among = []
        elif section.kind == "links":
            _take_links(part, section.lines)
        elif section.kind == "count":
            _count(part, section)
        elif section.kind == "tasks":
            part.files["tasks"] = _tasks(section.lines, _lines(sections, "waits"), owners)
    if ethtool := part.ran.pop("ethtool", None):
        _take_statistics(part, ethtool.out)
    if part.name == "gpu":
        rare = smi.rare(
            said.get("fields", ""), said.get("known", ""), part.ran.pop("gpu", None), part.ran.pop("apps", None)
        )
        part.gpu, part.apps, part.words = rare.gpu, rare.apps, rare.words
        part.files.update((f"/proc/{pid}/user", owner) for pid, owner in owners.items())
    return part


def _sections(body: list[str]) -> Iterator[_Section]:
    lines: list[str] = []
    for line in body:
        if line.startswith("@"):
            kind, _, said = line[1:].partition(" ")
            lines = []
            yield _Section(kind, said, lines)
        elif line:
            lines.append(line)


def _lines(sections: list[_Section], kind: str) -> list[str]:
    return [line for section in sections if section.kind == kind for line in section.lines]


def _take_files(part: wire.Part, lines: list[str], among: list[str]) -> None:
    """Add the texts of files; one of `among` without a line has an empty text."""
    found = Files(lines)
    for name in among:
        if name not in found.texts and name not in found.words and not _PATTERN.search(name):
            part.files[f"/{name}"] = ""
    for name, text in found.texts.items():
        part.files[f"/{name}"] = "\n".join(text) + "\n"
    for name, word in found.words.items():
        # A pattern that finds nothing stays as it is.
        if word != "unsupported" or not _PATTERN.search(name):
            part.failed[f"/{name}"] = word


def _take_links(part: wire.Part, lines: list[str]) -> None:
    for line in lines:
        name, _, real = line.partition(" ")
        if real:
            part.files[f"/{name}"] = real
        elif not _PATTERN.search(name):
            part.failed[f"/{name}"] = "unsupported"


def _count(part: wire.Part, section: _Section) -> None:
    """Add how many files have each content."""
    contents = Counter(" ".join(line.split()) for line in section.lines)
    if contents:
        part.files[section.said] = "".join(f"{contents[text]} {text}\n" for text in sorted(contents))


def _ran(sections: list[_Section]) -> dict[str, wire.Ran]:
    """Return what commands gave: their numbered lines, the last of which are the exit status and the errors."""
    found: dict[str, wire.Ran] = {}
    for kind, said, lines in sections:
        if kind == "ran":
            text = "\n".join(line.partition(":")[2] for line in lines)
            out, _, rest = f"\n{text}".rpartition("\n@exit ")
            match = _EXIT.fullmatch(rest)
            code, err = (int(match[1]), match[2] or "") if match else (0, "")
            found[said] = wire.Ran("ok", code, (out if match else f"\n{text}")[1:], err)
        elif kind == "absent":
            found[said] = wire.Ran("absent")
        elif kind in ("timeout", "hung"):
            name = said if kind == "timeout" else said.rpartition(" ")[0]
            before = found.get(name, wire.Ran())
            found[name] = wire.Ran(kind, 0, before.out, before.err)
    return found


def _owners(sections: list[_Section], users: wire.Ran | None) -> dict[str, str]:
    """Return the user of each process by its id, the number of one who has no name here."""
    rows = [line.split(":") for line in users.out.split("\n")] if users else []
    names = {row[2]: row[0] for row in rows if len(row) > 2 and row[0]}
    matches = [_OWNER.fullmatch(line) for line in _lines(sections, "owners")]
    return {match[2]: names.get(match[1], match[1]) for match in matches if match}


def _tasks(lines: list[str], waits: list[str], owners: dict[str, str]) -> str:
    """Return the processes as id, state, parent, user, name, and the function that it waits in, with tabs between."""
    functions = Files(waits)
    text = ""
    for line in lines[:MOST_TASKS]:
        match = _TASK.fullmatch(line)
        # What the kernel itself started is nobody's.
        if match and match[4] != "2" and match[1] != "2":
            wait = " ".join(functions.lines(f"proc/{match[1]}/wchan")).strip()
            name = " ".join(match[2].split())
            text += "\t".join((match[1], match[3], match[4], owners.get(match[1], ""), name, wait)) + "\n"
    return text


def _take_statistics(part: wire.Part, text: str) -> None:
    """Add what `ethtool -S` counts for each interface, whose path stands above it."""
    place = ""
    for line in text.split("\n"):
        if line.startswith("@ "):
            place = f"/{line[2:]}"
            part.files[place] = ""
        elif place:
            name, mark, value = line.strip().rpartition(": ")
            part.files[place] += f"{name} {value}\n" if mark else ""
