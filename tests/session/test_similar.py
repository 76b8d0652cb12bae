"""What of the past looks like an answer, for verbs that answer and end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stethoscope.model.incident import Clues, Incident, Status, Times
from stethoscope.session.incidents import Library
from stethoscope.session.similar import looks_like
from stethoscope.specs.incident_kinds import load_few, load_kinds

if TYPE_CHECKING:
    from pathlib import Path

CLUES = Clues(symptoms=("xid.79",), root_causes=("gpu_fallen_off_bus",), places=("gpu-014/gpu/3",), text="off the bus")


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def test_the_kinds_come_compiled_and_are_references() -> None:
    kinds = load_kinds()
    assert len(kinds) >= 20
    assert {one.status for one in kinds} == {Status.REFERENCE}
    assert load_kinds() == kinds


def test_where_nothing_was_written_down_the_kinds_alone_are_asked() -> None:
    (match,) = looks_like(CLUES)[:1]
    assert match.incident.id == "REF-xid79-riser"


def test_a_night_on_the_same_part_is_before_the_kinds(tmp_path: Path) -> None:
    night = Incident(
        "",
        "GPU 3 of gpu-014 fell off the bus",
        root_cause="gpu_fallen_off_bus",
        places=("gpu-014/gpu/3",),
        symptoms=("xid.79",),
        times=Times(began=1000.0),
        resolution="riser",
    )
    library = Library(tmp_path / "nights")
    written = library.create(night)
    found = looks_like(CLUES, str(tmp_path / "nights"))
    assert [match.incident.id for match in found][:2] == [written.id, "REF-xid79-riser"]
    assert found[0].reasons[0] == "same Xid 79 on the same GPU"
    assert found[0].as_json()["fixed_by"] == "riser"


def test_a_small_library_says_without_its_index_what_it_says_with_it(tmp_path: Path) -> None:
    library = Library(tmp_path)
    for number, (cause, sign) in enumerate([("gpu_fallen_off_bus", "xid.79"), ("gpu_memory_fault", "xid.48")] * 3):
        library.create(
            Incident(
                f"INC-2026-03-0{number + 1}-aaaaa",
                f"night {number}",
                root_cause=cause,
                places=(f"gpu-{number:03}/gpu/3",),
                symptoms=(sign, "gpu_lost"),
                around=("rack/r3",),
                times=Times(began=1000.0 + number),
            )
        )
    (tmp_path / "INC-broken.md").write_text("---\nid: [\n---\n")
    (tmp_path / "INC-gbk.md").write_bytes(b"---\nid: \xb5\n---\n")
    (tmp_path / "README.md").write_text("nights")
    few = load_few(tmp_path)
    assert few is not None
    assert len(few) == 6
    for clues in (CLUES, Clues(symptoms=("xid.48",), places=("gpu-009/gpu/1",), around=("rack/r3",))):
        by_index = library.similar(clues, words=False)
        assert [one.as_json() for one in looks_like(clues, str(tmp_path))] == [one.as_json() for one in by_index]


def test_a_library_that_is_large_or_holds_more_than_files_has_its_index(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "INC-x.md")
    assert load_few(tmp_path) is None
    (tmp_path / "INC-x.md").unlink()
    (tmp_path / "2026").mkdir()
    assert load_few(tmp_path) is None
    (tmp_path / "2026").rmdir()
    (tmp_path / "INC-x.md").write_bytes(b"x" * 2**21)
    assert load_few(tmp_path) is None


def test_what_is_wrong_with_the_incidents_is_said_and_the_kinds_still_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    said: list[str] = []
    assert looks_like(CLUES, str(tmp_path / "file"), said.append)[0].incident.is_reference
    assert said[0].startswith("the incidents of the past are not looked at: ")


def test_without_incidents_no_database_is_loaded() -> None:
    code = (
        "import sys; from stethoscope.model.incident import Clues; from stethoscope.session.similar import looks_like;"
        "looks_like(Clues(symptoms=('xid.79',))); looks_like(Clues(symptoms=('xid.79',)));"
        "print([name for name in ('apsw', 'yaml', 'stethoscope.session.incidents') if name in sys.modules])"
    )
    for expected in (None, "[]"):
        # The first start compiles the kinds.
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert expected is None or done.stdout.strip() == expected
