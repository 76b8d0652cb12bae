"""Freezes what a verdict rests on into a bundle, and asks the diagnosis from one again.

A bundle holds the recording that leads to the moment, and what the diagnosis read beside it: the night's list, what the
logs said, what ranks did together, what was measured. Words that look like secrets are taken out of all of it.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stethoscope import __version__
from stethoscope.clock import iso
from stethoscope.errors import DataError
from stethoscope.model.night import Entry  # noqa: TC001  read back by its types
from stethoscope.model.scheduler import Job  # noqa: TC001  as above
from stethoscope.model.verdict import Heard, Measured, Scene, Seen
from stethoscope.redact import REMOVED, redact, secret_values
from stethoscope.session.player import Player
from stethoscope.store.bundle import Member, write_bundle
from stethoscope.store.excerpt import copy_stretch
from stethoscope.text import clean, clean_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.verdict import Diagnosis
    from stethoscope.session.player import MakeSession
    from stethoscope.session.recorder import Recorder
    from stethoscope.session.taps import Tap
    from stethoscope.store.bundle import Bundle
    from stethoscope.store.tape import Tape

RECORDING, SCENE, TRIAGE, CARD = "recording.sthr", "scene.json", "triage.json", "verdict.md"
_ANCHORS = (
    "pass", "pwd", "secret", "token", "key", "credential", "authorization", "cookie", "bearer", "basic", "://",
    "akia", "asia", "ghp", "gho", "ghs", "glpat", "xox", "eyj",
)  # fmt: skip
"""No secret is taken out of words without one of these, in small letters: most need not be read closely."""
_ANCHOR_BYTES = tuple(anchor.encode() for anchor in _ANCHORS)


class Frozen(msgspec.Struct, frozen=True):
    """What the diagnosis read beside the state of the nodes."""

    at: float
    """Wall seconds of the moment."""
    focus: str
    entries: tuple[Entry, ...]
    logs: tuple[Heard, ...]
    jobs: tuple[Job, ...]
    measured: tuple[Measured, ...]
    seen: tuple[Seen, ...]
    watched_since: float | None = None


class Written(NamedTuple):
    """A bundle that was written."""

    path: Path
    size: int
    """Bytes."""
    records: int
    """Records of its recording."""


def freeze(path: Path, tape: Tape | None, moment: float, scene: Scene, found: Diagnosis, card: str) -> Written:
    """Write a bundle of what was known at second `moment` of `tape`, None where nothing was recorded: the scene, what
    was found, and the card of it as Markdown. Reads and compresses up to some megabytes: not for an event loop.

    FileExistsError when there is something at `path`, OSError when it cannot be written.
    """
    beside = Frozen(
        scene.now_s, scene.focus, scene.entries, scene.logs, scene.jobs, scene.measured, scene.seen, scene.watched_since
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="stethoscope-freeze-") as directory:
        recording = Path(directory) / RECORDING
        values = secret_values()
        records = (
            copy_stretch(tape, moment, scene.now_s, recording, lambda line: redacted_line(line, values)) if tape else 0
        )
        members = [
            Member(CARD, "the verdict, to read", redact(card).encode()),
            Member(TRIAGE, "the diagnosis (stethoscope.triage/1)", _json(found.as_json())),
            Member("findings.json", "what was found, active and cleared", _json(_findings(scene))),
            Member("logs.json", "what the logs said, decoded", _json(_logs(scene))),
            Member("measurements.json", "what was measured, as it was printed", _json(_measurements(scene))),
            Member(SCENE, "all that the diagnosis read beside the recording", _json(msgspec.to_builtins(beside))),
        ]
        if tape is not None:
            members.append(Member(RECORDING, "what the nodes sent until then", recording))
        verdict = found.verdict
        head = {
            "fleet": clean(scene.snapshot.fleet, 200),
            "at": iso(scene.now_s),
            "writer": f"stethoscope {__version__}",
            "about": scene.focus,
            "root_cause": verdict.root_cause,
            "severity": verdict.severity.value,
            "summary": redact(verdict.summary),
        }
        return Written(path, write_bundle(path, head, members), records)


def recorder_among(taps: Sequence[Tap]) -> Recorder | None:
    """Return what records a session, None when nothing does."""
    from stethoscope.session.recorder import Recorder

    return next((tap for tap in taps if isinstance(tap, Recorder) and tap.failure is None), None)


def tape_of(recorder: Recorder) -> Tape:
    """Return all that was recorded until now; not on an event loop. DataError when it cannot be read."""
    from stethoscope.store.tape import open_tape

    recorder.settle()
    return open_tape(recorder.outlet.path)


def thaw(bundle: Bundle, tape: Tape, make: MakeSession) -> Scene:
    """Return the scene that was frozen; `tape` is that of its recording. DataError when it is damaged."""
    try:
        beside = msgspec.convert(clean_json(json.loads(bundle.read(SCENE))), Frozen, strict=False)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise DataError(f"{SCENE} cannot be read: {clean(str(error), 200)}", where=str(bundle.path)) from None
    player = Player(tape, make)
    player.play(tape.end)
    snapshot = player.session.evaluate()
    active = tuple(entry.finding for entry in beside.entries if entry.is_active)
    return Scene(
        now_s=beside.at, snapshot=replace(snapshot, findings=active), entries=beside.entries, logs=beside.logs,
        jobs=beside.jobs, measured=beside.measured, focus=beside.focus, seen=beside.seen,
        watched_since=beside.watched_since,
    )  # fmt: skip


def _findings(scene: Scene) -> list[dict[str, Any]]:
    return [entry.as_json(scene.now_s) for entry in scene.entries]


def _logs(scene: Scene) -> list[dict[str, Any]]:
    return [
        {
            "job": heard.job or None,
            "files": [file.name for file in heard.log.files],
            "verdict": msgspec.to_builtins(heard.verdict),
            "events": [
                {
                    "at": None if event.at is None else iso(event.at),
                    "signature": event.signature,
                    "role": event.role,
                    "host": event.origin.host,
                    "rank": event.origin.rank,
                    "device": event.device,
                    "count": event.count,
                    "text": event.text,
                }
                for event in heard.log.events
            ],
        }
        for heard in scene.logs
    ]


def _measurements(scene: Scene) -> list[dict[str, Any]]:
    return [
        {"place": one.place, "probe": one.probe, "at": iso(one.at), "status": one.status, "text": one.text}
        for one in scene.measured
    ]


# ---- secrets


def redacted_line(line: bytes, values: Sequence[str]) -> bytes:
    """Return a line of a recording, JSON, with what looks like a secret, or is one of `values`, taken out of its
    words."""
    small = line.lower()
    if not (
        any(anchor in small for anchor in _ANCHOR_BYTES)
        or any(value.encode("utf-8", "surrogateescape") in line for value in values)
    ):
        return line
    try:
        said = msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # No line that a probe writes: nobody reads it, and nobody needs it.
        return redact(line.decode("utf-8", "replace")).encode("utf-8", "replace")
    removed = _redacted(said, values)
    return line if removed == said else msgspec.json.encode(removed)


def redacted(said: Any) -> Any:
    """Return what JSON holds with what looks like a secret taken out of its words."""
    return _redacted(said, secret_values())


def _redacted(said: Any, values: Sequence[str]) -> Any:
    if isinstance(said, str):
        small = said.lower()
        may = any(anchor in small for anchor in _ANCHORS) or any(value in said for value in values)
        return redact(said) if may else said
    if isinstance(said, list):
        return [_redacted(one, values) for one in said]
    if isinstance(said, dict):
        return {key: REMOVED if _is_secret(key, one) else _redacted(one, values) for key, one in said.items()}
    return said


def _is_secret(name: str, value: Any) -> bool:
    """Tell whether the name of a value says that it is one."""
    if not (isinstance(value, str) and value):
        return False
    small = name.lower()
    return any(anchor in small for anchor in _ANCHORS) and redact(f"{name}=value") == f"{name}={REMOVED}"


def _json(said: Any) -> bytes:
    return json.dumps(redacted(json.loads(json.dumps(said, default=str))), ensure_ascii=False, indent=1).encode(
        "utf-8", "replace"
    )  # fmt: skip
