"""The state machine of one link, with a clock that is moved by hand."""

from __future__ import annotations

from stethoscope.clock import FixedClock
from stethoscope.collect.link import Ending, LinkFailure, NodeLink
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.specs.fleet import FleetNode

FULL = wire.encode(wire.Full(seq=0, mono=0.0, wall=0.0))


class Sink:
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.links: list[Link] = []

    def on_frame(self, frame: Frame) -> None:
        self.frames.append(frame)

    def on_link(self, node: str, link: Link) -> None:
        assert node == "n1"
        self.links.append(link)


class Probe:
    verified = True
    remark = ""

    def __init__(self) -> None:
        self.aborted = 0
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def ended(self) -> Ending:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        self.aborted += 1


def started() -> tuple[NodeLink, Sink, FixedClock, Probe]:
    clock, sink, probe = FixedClock(1000.0), Sink(), Probe()
    link = NodeLink(FleetNode("n1", tick_s=2.0), clock, sink)
    link.connecting("n")
    link.started(probe)
    return link, sink, clock, probe


def live() -> tuple[NodeLink, Sink, FixedClock, Probe]:
    link, sink, clock, probe = started()
    link.receive(wire.sentinel("n").encode() + b"\n" + FULL + b"\n")
    return link, sink, clock, probe


def test_live_with_the_first_full_frame_and_its_times() -> None:
    link, sink, clock, _ = started()
    clock.advance(3.0)
    link.receive(wire.sentinel("n").encode() + b"\n")
    assert sink.links[-1] == Link(LinkState.STARTING, 1000.0, attempts=1)
    link.receive(FULL + b"\n")
    assert sink.links[-1] == Link(LinkState.LIVE, 1003.0, attempts=1)
    assert sink.frames == [Frame("n1", 1003.0, 3.0, FULL)]


def test_what_is_read_rarely_is_asked_for_once_a_start_and_after_the_first_full_frame() -> None:
    link, _, _, probe = started()
    link.watch = b"watch\n"
    link.receive(wire.sentinel("n").encode() + b"\n")
    assert probe.written == []
    link.receive(FULL + b"\n" + FULL + b"\n")
    assert probe.written == [b"watch\n"]
    # The frame may come before the start of the command is known.
    link.connecting("m")
    link.running = None
    link.receive(wire.sentinel("m").encode() + b"\n" + FULL + b"\n")
    assert probe.written == [b"watch\n"]
    link.started(probe)
    assert probe.written == [b"watch\n"] * 2


def test_a_probe_in_sh_is_not_asked() -> None:
    link, _, _, probe = started()
    link.watch = b"watch\n"
    link.receive(wire.sentinel("n").encode() + b" sh\n@full 0 1.0 1.0\n@end 0\n")
    assert link.link.state is LinkState.LIVE
    assert b"watch\n" not in probe.written


def test_silent_after_three_ticks_and_a_second() -> None:
    link, sink, clock, probe = live()
    clock.advance(7.0)
    link.check(clock.monotonic())
    assert link.link.state is LinkState.LIVE
    clock.advance(0.1)
    link.check(clock.monotonic())
    assert link.link == Link(LinkState.SILENT, 1007.1, "no line since 00:16:40 UTC", attempts=1)
    link.check(clock.monotonic())
    assert [entry.state for entry in sink.links].count(LinkState.SILENT) == 1, "said once"
    link.receive(FULL + b"\n")
    assert link.link.state is LinkState.LIVE
    assert probe.aborted == 0


def test_a_long_silence_is_the_end_of_a_link() -> None:
    link, _, clock, probe = live()
    clock.advance(30.1)
    link.check(clock.monotonic())
    assert probe.aborted == 1
    failure = link.ended(Ending(error="connection lost"))
    assert (failure.state, failure.detail, failure.patient) == (LinkState.SILENT, "no line since 00:16:40 UTC", False)


def test_words_of_an_end() -> None:
    cases = {
        Ending(exit_status=1): "the probe ended with exit status 1",
        Ending(signal="KILL"): "ended by signal KILL",
        Ending(error="connection lost: reset"): "connection lost: reset",
        Ending(): "the connection was closed",
    }
    for ending, words in cases.items():
        assert live()[0].ended(ending).detail == words
    link = live()[0]
    link.receive_stderr(b"Traceback\nMemory\x1b[31mError: \x07no\n\n")
    assert link.ended(Ending(exit_status=1)).detail == "the probe ended with exit status 1: MemoryError: no"
    link = started()[0]
    link.receive(b"This account is locked\n")
    assert link.ended(Ending(exit_status=1)).detail == "the probe ended with exit status 1: This account is locked"


def test_a_probe_that_says_why_it_ends() -> None:
    link = live()[0]
    why = "OSError: no \x1b[31mspace, in read of host.py"
    link.receive(wire.encode(wire.Bye(seq=1, mono=1.0, wall=1.0, why=why)) + b"\n")
    assert link.ended(Ending(exit_status=0)).detail == "the probe ended: OSError: no space, in read of host.py"
    link.connecting("n")
    assert link.ended(Ending(exit_status=0)).detail == "the probe ended with exit status 0"


def test_a_flood_of_errors_is_cut_like_any_other() -> None:
    link, _, clock, probe = live()
    for _ in range(9):
        link.receive_stderr(b"x" * 1024 * 1024)
    assert (link.link.state, probe.aborted) == (LinkState.LIVE, 0)
    clock.advance(1.0)
    link.receive_stderr(b"x" * 1024 * 1024)
    assert probe.aborted == 1
    assert link.ended(Ending()).state is LinkState.FLOODING


def test_stderr_is_capped() -> None:
    link = live()[0]
    for _ in range(100):
        link.receive_stderr(b"x" * 10_000 + b"\n")
    assert len(link.ended(Ending(exit_status=1)).detail) <= 250


def test_what_is_cut_before_it_was_known_to_run_is_dropped_when_it_is() -> None:
    clock, sink, probe = FixedClock(), Sink(), Probe()
    link = NodeLink(FleetNode("n1"), clock, sink)
    link.connecting("n")
    link.receive(wire.sentinel("n").encode() + b" no-python\n")
    link.started(probe)
    assert probe.aborted == 1
    assert link.ended(Ending(exit_status=127)).state is LinkState.NO_PYTHON


def test_an_unverified_link_stays_marked() -> None:
    link, sink, clock, probe = started()
    probe.verified = False
    link.receive(wire.sentinel("n").encode() + b"\n" + FULL + b"\n")
    assert not sink.links[-1].verified
    clock.advance(8.0)
    link.check(clock.monotonic())
    assert not sink.links[-1].verified


def test_a_failure_says_when_the_next_attempt_is() -> None:
    link, sink, _, _ = started()
    link.failed(LinkFailure(LinkState.REFUSED, "n1 \x1b[31mrefuses"), 1060.0)
    assert sink.links[-1] == Link(LinkState.REFUSED, 1000.0, "n1 refuses", next_try=1060.0, attempts=1)
