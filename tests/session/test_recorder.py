"""The recorder: everything that came is in the file, nothing waits for the disk, and failing is a notice."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stethoscope.clock import FixedClock, SystemClock
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.scheduler import SchedulerReading, SchedulerState
from stethoscope.session import recorder as recorder_module
from stethoscope.session.recorder import LONGEST, Recorder
from stethoscope.store.format import KEYFRAME, RecordType
from stethoscope.store.outlets import FileOutlet, RingOutlet
from stethoscope.store.recordings import Recording
from stethoscope.store.ring import RingLimits
from stethoscope.store.tape import open_tape
from tests.store.made import Fleet

if TYPE_CHECKING:
    import pytest

    from stethoscope.store.writer import Output


class Pipe:
    """An outlet whose file does what a test wants."""

    name, path = "pipe", Path("/dev/null/pipe")

    def __init__(self, write) -> None:  # type: ignore[no-untyped-def]
        self.write = write

    def next(self, wall: float) -> Output:
        """Return itself."""
        return self

    def is_due(self, age_s: float, size: int) -> bool:
        """Go on."""
        return False

    def close(self) -> None:
        """Nothing is open."""


def frame(raw: bytes, node: str = "gpu-001", mono: float = 1.0) -> Frame:
    return Frame(node, 1000.0 + mono, mono, raw)


def wait_for(true) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_what_is_kept_for_later_goes_with_the_recorder(tmp_path: Path) -> None:
    fleet = Fleet()
    recorder = Recorder(fleet, SystemClock(), FileOutlet(tmp_path / "a.sthr"), flush_s=0.01)
    recorder.start()
    recorder.on_frame(Frame(fleet.nodes[0].name, 1.0, 2.0, b'{"t":"full","seq":1}'))
    recorder.settle()
    file = recorder._standing._aside._file
    recorder.stop()
    assert file is not None
    assert file.closed
    assert [path.name for path in tmp_path.iterdir()] == ["a.sthr"]


def test_all_that_came_is_recorded_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.sthr"
    source = Fleet(name="prod")
    recorder = Recorder(source, SystemClock(), FileOutlet(path), flush_s=0.02)
    recorder.start()
    recorder.on_link("gpu-001", Link(LinkState.LIVE, 5.0, detail="x"))
    for number in range(500):
        recorder.on_frame(frame(b"%d" % number * 50, mono=float(number)))
    recorder.on_frame(frame(b"who?", node="stranger"))
    recorder.on_link("gpu-001", Link(LinkState.STOPPED, 6.0))
    recorder.stop()
    recording = Recording(path)
    records = [record for block in recording.blocks() for record in block]
    assert [record.payload for record in records[1:]] == [b"%d" % number * 50 for number in range(500)]
    assert [(record.wall, record.mono) for record in records[1:]] == [(1000.0 + n, float(n)) for n in range(500)]
    assert records[0].type == RecordType.LINK
    assert b'"live"' in records[0].payload
    assert (recording.fleet.fleet, recording.fleet.simulated, recording.closed) == ("prod", True, True)
    assert recording.fleet.nodes[0].expected_gpus == 8
    assert recorder.counts.lines == 500
    assert recorder.counts.written == path.stat().st_size
    assert recorder.take_notices() == []


def test_every_minute_tells_what_stands(tmp_path: Path) -> None:
    clock = FixedClock()
    path = tmp_path / "a.sthr"
    recorder = Recorder(Fleet(), clock, FileOutlet(path))
    recorder.open()
    recorder.on_link("gpu-002", Link(LinkState.REFUSED, 5.0))
    recorder.on_frame(frame(b'{"t":"hello","seq":0}', mono=0.0))
    for second in range(0, 130, 2):
        recorder.on_frame(frame(b"x", mono=float(second)))
        recorder._drain()
    assert recorder._writer is not None
    recorder._writer.close()
    recording = Recording(path)
    flagged = [number for number, entry in enumerate(recording.entries) if entry["flags"] & KEYFRAME]
    assert [float(recording.entries[number]["first_mono"]) for number in flagged] == [0.0, 60.0, 120.0]
    standing = [(record.type, record.node, record.mono) for record in next(recording.blocks(flagged[1]))]
    assert standing[:2] == [(RecordType.STANDING_HELLO, 0, 60.0), (RecordType.STANDING_LINK, 1, 60.0)]


def test_what_the_scheduler_said_last_is_told_again_in_a_new_file_and_while_it_is_silent(tmp_path: Path) -> None:
    clock = FixedClock(1000.0)
    recorder = Recorder(Fleet(), clock, FileOutlet(tmp_path / "a.sthr"))
    recorder.open()

    def tell(mono: float, *notes: object) -> None:
        clock.advance(mono - clock.monotonic())
        recorder.on_frame(frame(b"x", mono=mono))
        for note in notes:
            recorder.on_note("scheduler", note)
        recorder._drain()

    good = SchedulerReading({"gpu-001": SchedulerState(("idle", "drain"), "maint", "root")})
    other = SchedulerReading({"gpu-001": SchedulerState(("idle",))})
    tell(1.0, good, SchedulerReading({}, note="first"))
    tell(30.0, other)
    tell(62.0)
    tell(63.0, SchedulerReading({}, note="gone"), SchedulerReading({}, note="away"))
    tell(100.0)
    tell(125.0)
    recorder.reopen()
    tell(126.0)
    tell(127.0)
    recorder.on_note("odd", True)
    recorder.on_note("huge", "x" * LONGEST)
    recorder._drain()
    assert recorder._writer is not None
    recorder._writer.close()
    told = [
        [(record.mono, record.payload) for block in Recording(path).blocks() for record in block if record.type == 6]
        for path in (tmp_path / "a.sthr", tmp_path / "a.2.sthr")
    ]
    said = {
        name: msgspec.json.encode({"kind": "scheduler", "value": value})
        for name, value in (
            ("good", good),
            ("other", other),
            ("first", SchedulerReading({}, note="first")),
            ("gone", SchedulerReading({}, note="gone")),
            ("away", SchedulerReading({}, note="away")),
        )
    }
    assert told[0] == [
        (1.0, said["good"]),
        (1.0, said["first"]),
        (30.0, said["other"]),
        (63.0, said["gone"]),
        (63.0, said["away"]),
        (125.0, said["other"]),
        (125.0, said["away"]),
    ]
    assert told[1] == [(127.0, said["other"]), (127.0, said["away"]), (127.0, b'{"kind":"odd","value":true}')]
    assert recorder.counts.dropped == 1


def test_a_ring_turns_to_the_next_segment(tmp_path: Path) -> None:
    clock = FixedClock()
    recorder = Recorder(Fleet(), clock, RingOutlet(tmp_path, RingLimits(segment_s=600)))
    recorder.open()
    for second in range(0, 1500, 60):
        recorder.on_frame(frame(b"x", mono=float(second)))
        recorder._drain()
        clock.advance(60)
    recorder.reopen()
    recorder.on_frame(frame(b"x", mono=1500.0))
    recorder._drain()
    recorder.on_frame(frame(b"x", mono=1560.0))
    recorder._drain()
    assert recorder._writer is not None
    recorder._writer.close()
    assert len(list(tmp_path.iterdir())) == 4
    tape = open_tape(tmp_path)
    assert [t for t, record, _ in tape.play(0) if record.type == RecordType.FRAME] == list(range(0, 1561, 60))
    assert {reel.take for reel in tape.reels} == {0}


def test_opened_again_it_goes_on_beside_the_old_file(tmp_path: Path) -> None:
    outlet = FileOutlet(tmp_path / "a.sthr")
    outlet.next(0).close()
    outlet.next(0).close()
    (tmp_path / "a.sthr").rename(tmp_path / "moved")
    outlet.next(0).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.2.sthr", "a.sthr", "moved"]


def test_a_full_disk_ends_recording_with_a_notice() -> None:
    taken = 0

    def write(data: bytes) -> int:
        nonlocal taken
        if taken > 2000:
            raise OSError(28, "No space left on device")
        taken += len(data)
        return len(data)

    recorder = Recorder(Fleet(), SystemClock(), Pipe(write), flush_s=0.01)
    recorder.start()
    for number in range(1000):
        recorder.on_frame(frame(bytes(str(number), "ascii") * 300))
        if recorder.failure:
            break
        time.sleep(0.002)
    wait_for(lambda: recorder.failure)
    assert recorder.take_notices() == ["recording stopped: No space left on device (pipe)"]
    assert recorder.take_notices() == []
    recorder.on_frame(frame(b"x"))
    began = time.monotonic()
    recorder.settle()
    assert time.monotonic() - began < 4, "nothing is waited for that nobody will write"
    recorder.stop()


def test_a_real_limit_of_the_file_size(tmp_path: Path) -> None:
    code = f"""
import os, resource, signal, time
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, {resource.RLIM_INFINITY}))
from pathlib import Path
from tests.session.test_recorder import *
outlet = FileOutlet(Path({str(tmp_path / "a.sthr")!r}))
recorder = Recorder(Fleet(), SystemClock(), outlet, flush_s=0.01)
recorder.start()
while recorder.failure is None:
    recorder.on_frame(frame(os.urandom(1000)))
    time.sleep(0.001)
print(recorder.take_notices()[0])
recorder.stop()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert "recording stopped: File too large" in done.stdout, done.stderr
    recording = Recording(tmp_path / "a.sthr")
    assert [damage.what for damage in recording.damage] == ["cut off"]
    assert sum(len(records) for records in recording.blocks()) > 5


def test_a_directory_that_cannot_be_written_is_a_notice() -> None:
    recorder = Recorder(Fleet(), SystemClock(), RingOutlet(Path("/proc/none")))
    recorder.start()
    recorder.on_frame(frame(b"x"))
    recorder.stop()
    (notice,) = recorder.take_notices()
    assert notice.startswith("recording stopped: ")
    assert notice.endswith("(/proc/none)")


def test_a_disk_that_stands_still_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "BACKLOG", 100_000)
    going, got = threading.Event(), []

    def write(data: bytes) -> int:
        if got:
            going.wait(10)
        got.append(data)
        return len(data)

    recorder = Recorder(Fleet(), SystemClock(), Pipe(write), flush_s=0.01)
    recorder.start()
    recorder.on_frame(frame(b"first"))
    wait_for(lambda: not recorder._waiting)
    started = time.monotonic()
    for number in range(1000):
        recorder.on_frame(frame(b"%04d" % number * 250))
    assert time.monotonic() - started < 1
    assert 880 <= recorder.counts.dropped <= 920
    going.set()
    wait_for(lambda: recorder._notices)
    recorder.stop()
    (notice,) = recorder.take_notices()
    assert notice == f"the disk is too slow for the recording: {recorder.counts.dropped:,} lines were not recorded"
    path = tmp_path / "a.sthr"
    path.write_bytes(b"".join(got))
    records = [record for block in Recording(path).blocks() for record in block]
    lost = [record.payload for record in records if record.type == RecordType.LOST]
    assert lost == [b'{"records":%d}' % recorder.counts.dropped]
    assert sum(record.type == RecordType.FRAME for record in records) == 1001 - recorder.counts.dropped


def test_what_a_probe_on_demand_said_stands_once(tmp_path: Path) -> None:
    clock = FixedClock(1000.0)
    recorder = Recorder(Fleet(), clock, FileOutlet(tmp_path / "a.sthr"))
    recorder.open()
    recorder.on_note("ondemand", {"node": "gpu-001", "probe": "mlxlink"})
    for mono in (1.0, 62.0, 130.0):
        clock.advance(mono - clock.monotonic())
        recorder.on_frame(frame(b"x", mono=mono))
        recorder._drain()
    assert recorder._writer is not None
    recorder._writer.close()
    recording = Recording(tmp_path / "a.sthr")
    notes = [record.payload for block in recording.blocks() for record in block if record.type == RecordType.NOTE]
    assert notes == [msgspec.json.encode({"kind": "ondemand", "value": {"node": "gpu-001", "probe": "mlxlink"}})]
