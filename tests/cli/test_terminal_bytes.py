"""What hostile nodes, files and schedulers say reaches no terminal as it came: the bytes of verbs, seen in a pty."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from stethoscope.model import wire
from stethoscope.model.frame import Link, LinkState
from stethoscope.store.format import BlockData, FleetEntry, NodeEntry, RecordType
from stethoscope.store.writer import Writer, create
from tests.cli.terminals import in_terminal
from tests.store.made import BOOTED, STARTED

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "x\x1b]52;c;QUFB\x07\x1b[31m\x9b31m\x1b]0;title\x1b\\\u202e[/x][@click=app.quit]\x00\x08y"
"""A clipboard write, colours in two spellings, a title, a reversal of the line, markup, NUL and backspace."""
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def hostile_recording(path: Path) -> None:
    """Write two frames of a node whose every string is hostile, beside one that is refused for a hostile reason."""
    writer = Writer(create(path), FleetEntry(f"f{EVIL}", (NodeEntry("a", rack=EVIL), NodeEntry("b"))))
    block = BlockData()
    gpus = [wire.GpuIdentity(0, name=EVIL, uuid=EVIL, pci="0000:4f:00.0")]
    ports = [wire.PortIdentity("mlx5_0", layer=EVIL, netdev=EVIL)]
    xid = f"NVRM: Xid (PCI:0000:4f:00): 79, {EVIL}"
    for number, t in enumerate((0.0, 5.0)):
        lines: list[wire.Message] = [
            wire.Full(
                seq=3 * number + 1, mono=100 + t, wall=STARTED + t, gpus=gpus, ports=ports,
                gpu={"gpu_temp": [61], "gpu_handle_error": [15]}, port={"ib_port_state": [4]},
                node={"cpu_util": 5.0}, notes={"kernel_log": EVIL, EVIL: EVIL},
            ),
            wire.Event(seq=3 * number + 2, mono=100 + t, wall=STARTED + t, source=EVIL, text=xid, at=STARTED + t),
        ]  # fmt: skip
        if not number:
            hello = wire.Hello(seq=0, mono=100, wall=STARTED, host=EVIL, kernel=EVIL, python=EVIL, boot_id=EVIL)
            lines.insert(0, hello)
            for node, state in ((0, LinkState.LIVE), (1, LinkState.REFUSED)):
                link = msgspec.json.encode(Link(state, since=STARTED, detail=EVIL))
                block.add(RecordType.LINK, node, STARTED, BOOTED, link)
            reason = {"words": ["idle", "drain"], "reason": EVIL, "owner": EVIL}
            note = {"kind": "scheduler", "value": {"nodes": {"b": reason}, "note": EVIL}}
            block.add(RecordType.NOTE, 0, STARTED, BOOTED, json.dumps(note).encode())
        for line in lines:
            block.add(RecordType.FRAME, 0, STARTED + t, BOOTED + t, wire.encode(line))
    writer.write(block)
    writer.close()


def assert_harmless(written: bytes) -> None:
    text = _COLOUR.sub(b"", written).decode()
    bad = {hex(ord(character)) for character in text if not character.isprintable() and character not in "\r\n"}
    assert bad == set(), text
    assert b"\x1b[31m" not in written


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("check", "--replay", "night.sthr"), 2, "fell off the bus"),
        (("check", "--replay", "night.sthr", "--json"), 2, "stethoscope.check/1"),
        (("check", "--replay", "night.sthr", "--ascii"), 2, "fell off the bus"),
        (("replay", "--info", "night.sthr"), 0, "2 nodes"),
        (("replay", "--info", "--json", "night.sthr"), 0, "night.sthr"),
    ],
)
def test_a_hostile_recording(arguments: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "night.sthr"
    hostile_recording(path)
    given = [str(path) if argument == path.name else argument for argument in arguments]
    ended, written = in_terminal(tmp_path, *given)
    assert_harmless(written)
    assert (ended, words in written.decode()) == (code, True), written


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_hostile_journal(form: tuple[str, ...], tmp_path: Path) -> None:
    directory = tmp_path / "stethoscope" / "journal"
    directory.mkdir(parents=True)
    entry = {"at": "2026-03-14T02:14:07Z", "node": EVIL, "who": EVIL, "kind": EVIL, "command": EVIL, "result": EVIL}
    (directory / "2026-03.jsonl").write_text(json.dumps({**entry, "seconds": 0.2}) + "\n" + EVIL + "\n{}\n")
    ended, written = in_terminal(tmp_path, "journal", *form)
    assert_harmless(written)
    assert (ended, "2026-03-14T02:14:07Z" in written.decode()) == (0, True), written


@pytest.mark.parametrize(
    ("file", "verb"),
    [
        ("fleet.yaml", ("fleet", "show", "--fleet")),
        ("rules/a.yaml", ("lint", "--playbooks")),
        ("s.yaml", ("sim", "--scenario")),
    ],
)
def test_a_hostile_data_file(file: str, verb: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({EVIL: EVIL, "schema": EVIL, "rules": [{EVIL: EVIL}], "hosts": {EVIL: {EVIL: EVIL}}}))
    ended, written = in_terminal(tmp_path, *verb, str(tmp_path if verb[0] == "lint" else path))
    assert_harmless(written)
    assert (ended, path.name in written.decode()) == (65, True), written
