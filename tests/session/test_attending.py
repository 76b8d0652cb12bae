"""Who watches for the guided triage: hears the logs of a recording, and follows the files of playbooks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.errors import DataError
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.metric import Missing, Reason
from stethoscope.model.night import Entry
from stethoscope.model.report import Item, Report
from stethoscope.session.aims import Aim
from stethoscope.session.attending import Attending
from stethoscope.session.books_kept import KeptBooks
from stethoscope.session.open import session_maker
from stethoscope.session.probe_result import Result, Section, Status, measured_note, measured_of, result_json
from stethoscope.session.recorder import Recorder
from stethoscope.session.replay import ReplaySession
from stethoscope.session.triage import scene_of_recording
from stethoscope.store.outlets import FileOutlet
from stethoscope.store.tape import open_tape
from tests.builders import fleet
from tests.store.made import BOOTED, STARTED, TICK_S, Fleet

if TYPE_CHECKING:
    from pathlib import Path

FATAL = "[rank7]: torch.distributed.DistBackendError: NCCL error, password=\x1b[31m"

LIGHT = Result(
    "mlxlink", Aim("gpu-001", ("mlx5_3", "1"), "gpu-001/ib/mlx5_3"), STARTED, 2.0, Status.OK, "", (
        Section("mlxlink", "Rx Power : -9.5", report=Report("mlxlink", (
            Item("", "rx_power", -9.5, "dBm", "warning"), Item("", "fec", "RS"),
            Item("", "tx", Missing(Reason.PERMISSION)),
        ))),
    ),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def recorded(path: Path) -> None:
    """Record 20 s; after 10 s a job prints something."""
    clock = FixedClock(STARTED - BOOTED)
    clock.advance(BOOTED)
    source = Fleet()
    recorder = Recorder(source, clock, FileOutlet(path))
    recorder.open()
    for tick in range(10):
        source.tell(recorder, tick * TICK_S, clock.wall(), clock.monotonic())
        if tick == 5:
            note = {"id": "4242", "nodes": ["gpu-001"], "path": "/logs/4242.out", "at": clock.wall(), "lines": [FATAL]}
            recorder.on_note("job-log", note)
            recorder.on_note("ondemand", result_json(LIGHT))
        recorder._drain()
        clock.advance(TICK_S)
    assert recorder._writer is not None
    recorder._writer.close()


def test_what_jobs_printed_is_heard_in_a_replay_and_once_more_when_it_goes_back(tmp_path: Path) -> None:
    recorded(tmp_path / "a.sthr")
    replay = ReplaySession(open_tape(tmp_path / "a.sthr"), session_maker(remember=False))
    attending = Attending()
    replay.taps = (attending,)
    for _ in range(2):
        replay._player.begin(0.0)
        replay._player.play(18.0)
        moment = attending.moment(replay.snapshot(), {}, {}, "")
        assert [note.id for note in moment.notes] == ["4242"]
        assert "\x1b" not in moment.notes[0].lines[0]
        assert moment.measured == (measured_of(LIGHT),)
        scene, _ = attending.answer(moment, {})
        assert [heard.job for heard in scene.logs] == ["4242", ""]
    assert replay.take_notices() == []
    scene = scene_of_recording(open_tape(tmp_path / "a.sthr"), session_maker(remember=False), 18.0)
    assert scene.measured == (measured_of(LIGHT),)
    assert [heard.job for heard in scene.logs] == ["4242", ""]


def test_another_answer_is_expected_where_a_finding_comes_or_goes_and_not_where_values_change() -> None:
    port = "gpu-001/ib/mlx5_3"
    found = Finding("x@gpu-001", "x", Severity.P1, (port,), "gpu-001", "", "symbol errors +40/s")
    entry = Entry(found, 200.0, ((100.0, None),), worst=Severity.P1)
    attending, snapshot = Attending(), fleet()
    before = attending.news(snapshot, {entry.id: entry}, {})
    later = replace(entry, seen=205.0, finding=replace(found, summary="symbol errors +41/s"))
    assert attending.news(replace(snapshot, wall=5.0), {entry.id: later}, {}) == before
    assert attending.news(snapshot, {entry.id: replace(entry, spans=((100.0, 210.0),))}, {}) != before
    assert attending.news(snapshot, {entry.id: entry}, {"mlxlink": LIGHT}) != before
    assert attending.news(snapshot, {}, {}) != before


def test_what_is_no_result_is_none() -> None:
    said = result_json(LIGHT)
    assert measured_note(said) == measured_of(LIGHT)
    assert measured_note({**said, "status": "refused"}) is None, "it did not run"
    assert measured_note({**said, "at": "yesterday"}) is None
    assert measured_note({**said, "items": 7}) is None
    assert measured_note(None) is None


def test_playbooks_follow_their_files_and_broken_ones_change_nothing(tmp_path: Path) -> None:
    triage = tmp_path / "own" / "triage"
    triage.mkdir(parents=True)
    sign = "id: pump, probe: [ipmi_sensor], find: 'PUMP', shows: [cooling_fault], part: node, says: stands"
    file = triage / "a.yaml"
    file.write_text(f"schema: stethoscope.triage/1\nsigns:\n- {{{sign}}}\n")
    books = KeptBooks([tmp_path / "own"])
    assert "pump" in books.now().patterns
    assert books.now() is books.now()
    file.write_text("schema: stethoscope.triage/1\nsigns: [{id: broken}]\n")
    assert "pump" in books.now().patterns
    (notice,) = books.take_notices()
    assert "a.yaml" in notice
    assert notice.endswith("· the triage playbooks of before stand")
    assert books.now() is not None
    assert books.take_notices() == [], "it is told once"
    file.write_text(f"schema: stethoscope.triage/1\nsigns:\n- {{{sign.replace('id: pump', 'id: pump_2')}}}\n")
    assert "pump_2" in books.now().patterns
    assert books.take_notices() == ["triage playbooks read again"]
    file.write_text("nothing: [")
    with pytest.raises(DataError):
        KeptBooks([tmp_path / "own"]).now()
