"""The night's list on disk: two consoles, a crash, hostile lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.night import Night
from stethoscope.errors import DataError
from stethoscope.model.finding import Fact, Finding, Severity
from stethoscope.model.night import Acknowledged, Found, Records
from stethoscope.store.night import MOST_PLACES, NightFile, kept_fleets

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1_773_454_447.0


def found(id_: str = "hot@n1", summary: str = "88 °C", where: tuple[str, ...] = ("n1/gpu/4",)) -> Found:
    """Return a record."""
    fact = Fact("gpu_temp", 88.0, "below 83 °C", "n1/gpu/4", "2026-03-14T02:14:07Z", "nvml")
    return Found(
        at=T0,
        since=T0,
        finding=Finding(id_, "hot", Severity.P1, where, "n1", "2026-03-14T02:14:07Z", summary, evidence=(fact,)),
    )


def everything(path: Path, fleet: str = "prod-a") -> list[Records]:
    """Return what is in the file."""
    return NightFile(fleet, path).exchange()[0]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = NightFile("prod-a", tmp_path / "nights")
    assert file.exchange() == ([], False)
    records: list[Records] = [found(), Acknowledged(at=T0 + 1, id="hot@n1", by="kim", severity=Severity.P1, nodes=1)]
    assert file.exchange(records) == ([], True)
    assert everything(tmp_path / "nights") == records
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    assert kept_fleets(tmp_path / "nights") == {"prod-a": file.path}


def test_two_consoles_see_what_the_other_wrote(tmp_path: Path) -> None:
    one, two = NightFile("f", tmp_path), NightFile("f", tmp_path)
    one.exchange([found("a@n1")])
    assert [r.finding.id for r in two.exchange([found("b@n1")])[0] if isinstance(r, Found)] == ["a@n1"]
    assert one.exchange()[0] == [found("b@n1")]
    assert (one.exchange(), two.exchange()) == (([], False), ([], False))
    assert everything(tmp_path, "f") == [found("a@n1"), found("b@n1")]


def test_a_file_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    one, two = NightFile("f", tmp_path), NightFile("f", tmp_path)
    one.exchange([found("a@n1")])
    two.exchange([found("b@n1")])

    def merge(records: list[Records]) -> list[Records]:
        night = Night()
        night.apply_all(records)
        return night.whole(T0)

    one.compact(merge)
    assert one.exchange([found("c@n1")]) == ([], False)
    records, anew = two.exchange([found("d@n1")])
    assert anew
    night = Night()
    night.apply_all(records)
    assert set(night.entries) == {"a@n1", "b@n1", "c@n1"}
    assert one.exchange()[0] == [found("d@n1")]


def test_a_line_that_was_cut_off_costs_only_itself(tmp_path: Path) -> None:
    file = NightFile("f", tmp_path)
    file.exchange([found("a@n1")])
    with file.path.open("ab") as raw:
        raw.write(b'\n{"do": "found", "at": 17')
    NightFile("f", tmp_path).exchange([found("b@n1")])
    other = NightFile("f", tmp_path)
    assert other.exchange()[0] == [found("a@n1"), found("b@n1")]
    assert other.bad_lines == 1


def test_lines_of_others_obey_nobody(tmp_path: Path) -> None:
    file = NightFile("f", tmp_path)
    file.exchange([found(summary="\x1b]52;c;aGk=\x07red\u202e\x1b[31m \ud800")])
    with file.path.open("ab") as raw:
        for line in (b"[]", b'{"do":"rm"}', b"\xff\xfe", b"[" * 100_000, b'{"do":"noted","at":"x"}', b"nul\x00"):
            raw.write(line + b"\n")
    other = NightFile("f", tmp_path)
    [record] = other.exchange()[0]
    assert isinstance(record, Found)
    assert record.finding.summary.isprintable()
    assert other.bad_lines == 6


def test_a_finding_of_very_many_places_is_shortened(tmp_path: Path) -> None:
    NightFile("f", tmp_path).exchange([found(where=tuple(f"n{i}/gpu/0" for i in range(MOST_PLACES + 7)))])
    [record] = everything(tmp_path, "f")
    assert isinstance(record, Found)
    assert len(record.finding.where) == MOST_PLACES


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "nights").write_text("a file")
    with pytest.raises(DataError, match="nights"):
        NightFile("f", tmp_path / "nights").exchange([found()])


WRITER = """
import sys
from pathlib import Path
from tests.store.test_night import NightFile, found
file = NightFile("f", Path(sys.argv[1]))
number = 0
while True:
    file.exchange([found(f"{sys.argv[2]}{number}@n1", "x" * 3000)])
    number += 1
    if number == 1:
        print("going", flush=True)
"""


def test_two_writers_and_one_that_is_killed_lose_nothing(tmp_path: Path) -> None:
    root = str(__file__).rsplit("/tests/", 1)[0]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name],
            stdout=subprocess.PIPE,
            cwd=root,
            env=os.environ | {"PYTHONPATH": root},
        )
        for name in "ab"
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"going\n"
        file, seen = NightFile("f", tmp_path), set[str]()
        until = time.monotonic() + 20
        while time.monotonic() < until and len(seen) < 60:
            seen |= {record.finding.id for record in file.exchange()[0] if isinstance(record, Found)}
        writers[0].send_signal(signal.SIGKILL)
        writers[0].wait()
        after = NightFile("f", tmp_path)
        after.exchange([found("mine@n1")])
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    last = NightFile("f", tmp_path)
    ids = [record.finding.id for record in last.exchange()[0] if isinstance(record, Found)]
    assert last.bad_lines <= 2, "at most the line that each of them was writing"
    assert seen <= set(ids)
    assert "mine@n1" in ids
    assert len(ids) == len(set(ids))
    for name in "ab":
        numbers = [int(id_[1:].partition("@")[0]) for id_ in ids if id_[0] == name]
        assert numbers == list(range(len(numbers)))
    lines = [line for line in last.path.read_bytes().split(b"\n") if line]
    assert json.loads(lines[0]) == {"schema": "stethoscope.night/1", "fleet": "f"}
