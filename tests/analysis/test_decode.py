"""Scanning: lines in, events out; whatever the bytes, however they are cut into blocks, in any order of files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis import decode_file
from stethoscope.analysis.decode import Scanner
from stethoscope.model.finding import Severity
from stethoscope.model.logs import Event, Log
from stethoscope.specs.signature import Names, Signature, Signatures, load_signatures

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime.fromisoformat("2026-06-01T00:00:00Z").timestamp()
XID = "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus."
CLOSED = (
    "gpu-a03:2210:2301 [2] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu-b<4421>"
)
WATCHDOG = (
    "[rank3]:[E314 02:07:11.000000000 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds "
    "before timing out."
)
LOGS = load_signatures()


def made(*signatures: Signature) -> Signatures:
    anchors: dict[bytes, list[Signature]] = {}
    for signature in signatures:
        for anchor in signature.anchors:
            anchors.setdefault(anchor, []).append(signature)
    return Signatures({s.id: s for s in signatures}, {anchor: tuple(found) for anchor, found in anchors.items()})


BOOM = Signature(
    "test.boom", (b"went boom",), (r"(?P<rank>\d+) went boom because of (?P<why>\w+)",), "cause", Severity.P1, "boom",
    culprit=Names(blame="named", rank="rank"),
)  # fmt: skip
STEP = Signature("test.step", (b"step",), (r"step (?P<step>\d+)",), "context", Severity.INFO, "a step was done")
OWN = made(BOOM, STEP)


def scan(*texts: str | bytes, signatures: Signatures = LOGS, names: Sequence[str] = (), cut: int = 1 << 20) -> Log:
    scanner = Scanner(signatures, now=NOW)
    for number, text in enumerate(texts):
        data = text.encode() if isinstance(text, str) else text
        file = scanner.file(names[number] if names else f"{number}.txt", size=len(data))
        for at in range(0, len(data), cut):
            file.feed(data[at : at + cut])
        file.end()
    return scanner.finish()


def told(log: Log) -> list[tuple[object, ...]]:
    return [
        (e.line, e.signature, e.at, e.text, e.origin, e.pci, e.device, dict(e.fields), e.count, e.last_at)
        for e in log.events
    ]


def test_an_event_says_all_that_its_line_does() -> None:
    (event,) = scan(f"hello\nMar 14 02:07:11 node-a kernel: [12345.678901] {XID}\n").events
    assert (event.signature, event.role, event.severity) == ("xid.79", "cause", Severity.P0)
    assert (event.line, event.text, event.pci) == (2, XID, "0000:81:00")
    assert event.at == datetime.fromisoformat("2026-03-14T02:07:11Z").timestamp()
    assert (event.uptime_s, event.origin.host, event.fields["xid"]) == (12345.678901, "node-a", 79)


def test_who_when_and_how_often() -> None:
    lines = [f"[2026-03-14 02:07:{second:02d}] {CLOSED}" for second in range(5)]
    (event,) = scan("\n".join(lines)).events
    start = datetime.fromisoformat("2026-03-14T02:07:00Z").timestamp()
    assert (event.at, event.last_at, event.count) == (start, start + 4, 5)
    assert (event.origin.host, event.origin.pid, event.origin.cuda_device) == ("gpu-a03", 2210, 2)


def test_what_comes_again_much_later_is_another_event() -> None:
    lines = [f"2026-03-14T02:{minute:02d}:00Z node-a kernel: {XID}" for minute in (0, 1, 20)]
    assert [event.count for event in scan("\n".join(lines)).events] == [2, 1]


def test_different_writers_and_devices_are_different_events() -> None:
    lines = [
        f"2026-03-14T02:00:00Z node-{host} kernel: {XID.replace('81', slot)}" for host in "ab" for slot in ("81", "82")
    ]
    assert [(e.origin.host, e.pci) for e in scan("\n".join(lines)).events] == [
        ("node-a", "0000:81:00"), ("node-a", "0000:82:00"), ("node-b", "0000:81:00"), ("node-b", "0000:82:00"),
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\n\r\n"])
def test_ends_of_lines(end: str) -> None:
    log = scan(end.join(["one", XID, "three", ""]))
    assert [event.signature for event in log.events] == ["xid.79"]
    assert log.events[0].text == XID


def test_a_progress_bar_that_redraws_itself() -> None:
    log = scan(f"  1%|#\r  2%|#\r{XID}\r  3%|##\n{CLOSED}\n")
    assert [(event.line, event.signature) for event in log.events] == [(1, "xid.79"), (2, "nccl.socket.closed_by_peer")]


def test_a_line_that_begins_behind_another_that_was_not_finished() -> None:
    log = scan(f" 9%|##| 2/3 [29:55<4:48:08, 155.57 examples/s]{WATCHDOG}{CLOSED}\n")
    assert [(e.signature, e.origin.rank, e.origin.pid) for e in log.events if e.role != "context"] == [
        ("torch.watchdog.timeout", 3, None),
        ("nccl.socket.closed_by_peer", None, 2210),
    ]


def test_commands_that_speak_of_errors_are_none() -> None:
    log = scan(
        f"root@node-a:~# grep '{XID}' /var/log/kern.log\n$ echo {XID}\n# dmesg | grep '{XID}'\n>>> print('{XID}')\n"
    )
    assert log.events == []


def test_escapes_and_other_codings() -> None:
    log = scan(b"\x1b[31m" + XID.encode() + b"\x1b[0m\n" + "größer ".encode("latin-1") + CLOSED.encode() + b"\0\0\n")
    assert (log.events[0].signature, log.events[0].text) == ("xid.79", XID)
    assert all(event.text.isprintable() for event in log.events)


def test_colour_that_parts_the_words_that_are_looked_for() -> None:
    coloured = "[ 12.000000] NVRM: \x1b[01;31m\x1b[KXid\x1b[m\x1b[K (PCI:0000:21:00): 79, GPU has fallen off the bus."
    (event,) = scan(coloured).events
    assert event.signature == "xid.79"


def test_far_behind_on_a_very_long_line() -> None:
    log = scan(b"x" * 9_000_000 + b" " + CLOSED.encode() + b" " + b"y" * 9_000_000)
    assert [(event.signature, event.line) for event in log.events] == [("nccl.socket.closed_by_peer", 1)]
    assert log.lines == 1


def test_objects_of_the_journal_and_parts_of_containers() -> None:
    half = len(XID) // 2
    journal = f'{{"MESSAGE": "{XID}", "_HOSTNAME": "node-a", "__REALTIME_TIMESTAMP": "1773454031000000"}}'
    parts = f"2026-03-14T02:07:11Z stderr P {XID[:half]}\n2026-03-14T02:07:12Z stderr F {XID[half:]}\n"
    log = scan(journal + "\n", parts)
    assert [(event.file, event.signature, event.at) for event in log.events] == [
        (0, "xid.79", 1773454031.0), (1, "xid.79", 1773454031.0),
    ]  # fmt: skip


def test_a_line_without_a_stamp_has_the_time_of_the_one_above() -> None:
    (event,) = scan(f"2026-03-14 02:07:11,000 - hello\n{XID}\n").events
    assert (event.at, event.at_is_near) == (datetime.fromisoformat("2026-03-14T02:07:11Z").timestamp(), True)


def test_files_are_put_into_the_order_of_time() -> None:
    late, early = f"2026-03-14T02:07:11Z {XID}\n", f"2026-03-14T02:07:10Z {XID.replace('81', '82')}\n"
    none = f"{XID.replace('81', '83')}\n"
    assert [event.pci for event in scan(late, early, none).events] == ["0000:82:00", "0000:81:00", "0000:83:00"]


def test_a_log_that_is_there_twice_counts_once() -> None:
    xid = "2026-03-14T02:13:26 gpu-7 kernel: NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.\n"
    other = "2026-03-14T02:13:29 gpu-7 kernel: NVRM: Xid (PCI:0000:87:00): 79, GPU has fallen off the bus.\n"
    log = scan(xid, xid + other, xid, names=["dmesg-gpu-7.log", "saved.log", "dmesg-gpu-7.log.gz"])
    assert [(event.file, event.pci, event.count) for event in log.events] == [
        (0, "0000:4f:00", 1),
        (1, "0000:87:00", 1),
    ]
    # Another host says the same at the same moment: that is another event; and so may be a line without any time.
    assert len(scan(xid, xid.replace("gpu-7", "gpu-8")).events) == 2
    assert len(scan("NVRM: Xid (PCI:0000:4f:00): 79, x\n", "NVRM: Xid (PCI:0000:4f:00): 79, x\n").events) == 2


def test_years_come_from_the_change_of_the_file() -> None:
    scanner = Scanner(LOGS, now=NOW)
    changed = datetime.fromisoformat("2024-01-02T00:00:00Z").timestamp()
    file = scanner.file("kern.log", modified_at=changed)
    file.feed(f"Dec 31 23:59:59 node-a kernel: {XID}\nJan  1 00:00:01 node-a kernel: {XID}\n".encode())
    file.end()
    (event,) = scanner.finish().events
    assert event.at == datetime.fromisoformat("2023-12-31T23:59:59Z").timestamp()
    assert event.last_at == event.at + 2


def test_last_sign_of_life_of_each_rank() -> None:
    log = scan(
        "[rank0]: 2026-03-14T02:07:11Z step 1\n[rank1]: hello\n[rank0]: 2026-03-14T02:07:12Z step 2\n", signatures=OWN
    )
    seen = {s.origin.rank: s for s in log.seen}
    assert (seen[0].lines, seen[0].last_text, seen[0].last_at) == (2, "step 2", 1773454032.0)
    assert (seen[1].lines, seen[1].last_text) == (1, "hello")


def test_what_was_read() -> None:
    text = f"2026-03-14T02:07:11Z one\n2026-03-14T02:07:13Z node-a kernel: two\n2026-03-14T02:07:12Z three\n{XID}"
    log = scan(text, "")
    assert (log.lines, log.bytes, log.matched) == (4, len(text), 1)
    assert (log.files[0].first_at, log.files[0].last_at) == (1773454031.0, 1773454033.0)
    assert (log.files[0].kernel_lines, log.files[1].lines) == (2, 0)


def test_what_healthy_logs_say_all_the_time_is_dropped_in_large_files_and_nothing_else() -> None:
    lines = [f"step {number}" for number in range(30_000)]
    lines[29_000] = "7 went boom because of heat"
    text = "\n".join(lines).encode()
    scanner = Scanner(OWN, now=NOW)
    file = scanner.file("a.log", size=decode_file.LOOK_AT_ALL + 1)
    for at in range(0, len(text), 50_000):
        file.feed(text[at : at + 50_000])
    file.end()
    log = scanner.finish()
    counts = {event.signature: 0 for event in log.events}
    for event in log.events:
        counts[event.signature] += event.count
    assert counts["test.boom"] == 1
    assert 1000 <= counts["test.step"] < 30_000
    assert log.lines == 30_000


def test_floods_leave_room_for_what_comes_later() -> None:
    flood = [f"step {number}" for number in range(60_000)]
    log = scan("\n".join([*flood, "7 went boom because of heat"]), signatures=OWN)
    assert len(log.events) < 45_000
    assert [event.line for event in log.events if event.signature == "test.boom"] == [60_001]


def test_live_lines_are_the_same() -> None:
    scanner = Scanner(LOGS, now=NOW)
    assert scanner.feed_line("hello", name="node-a") == []
    (event,) = scanner.feed_line(f"[   12.345678] {XID}", name="node-a")
    assert (event.signature, event.uptime_s, event.count) == ("xid.79", 12.345678, 1)
    (again,) = scanner.feed_line(f"[   13.345678] {XID}\n".encode(), name="node-a")
    assert again is event
    assert event.count == 2
    assert scanner.news() == []


PIECES = st.sampled_from(
    [
        XID, CLOSED, WATCHDOG, "2026-03-14T02:07:11Z ", "[rank3]: ", "\n", "\r", "\r\n", "{", '{"log":"', "\0",
        "\x1b[31m",
        "3 went boom because of x", "step 4", "Mar 14 02:07:11 node-a kernel: ", "[12345.678901] ", "hello", " " * 50,
        "2026-03-14T02:07:12Z stderr P ", "Traceback (most recent call last):\n", "\udcff", "é",
    ]
)  # fmt: skip
TEXTS = st.lists(st.one_of(PIECES, st.binary(max_size=20)), max_size=40).map(
    lambda parts: b"".join(p if isinstance(p, bytes) else p.encode("utf-8", "surrogatepass") for p in parts)
)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, cut=st.integers(1, 200))
def test_it_does_not_matter_how_a_file_is_cut_into_blocks(text: bytes, cut: int) -> None:
    signatures = made(BOOM, STEP, *LOGS.by_id.values())
    # A lone `\r` at the end of a block may be half of an end of line: it waits, so a file is cut anywhere.
    assert told(scan(text, signatures=signatures, cut=cut)) == told(scan(text, signatures=signatures))


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_no_bytes_raise_and_times_of_a_writer_do_not_go_back_in_the_answer(texts: list[bytes]) -> None:
    log = scan(*texts)
    assert log.bytes == sum(map(len, texts))
    times = [event.at for event in log.events if event.at is not None and not event.at_is_near]
    assert times == sorted(times)
    for event in log.events:
        assert event.text.isprintable()
        assert event.last_at is None or event.at is None or event.last_at >= event.at - 86_400


@settings(max_examples=80, deadline=None)
@given(texts=st.lists(TEXTS, min_size=2, max_size=4), data=st.data())
def test_the_order_of_files_does_not_matter(texts: list[bytes], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(texts))))
    names = [f"{number}.txt" for number in range(len(texts))]

    def flat(log: Log) -> list[tuple[object, ...]]:
        return sorted(
            ((log.files[e.file].name, e.line, e.signature, e.at or 0.0, e.text, e.count) for e in log.events), key=repr
        )

    there = scan(*texts, names=names)
    back = scan(*(texts[n] for n in order), names=[names[n] for n in order])
    assert flat(there) == flat(back)


def test_events_of_equal_lines_are_equal_but_for_their_lines() -> None:
    first, second = scan(f"{XID}\n", f"\n{XID}\n").events
    assert replace(second, file=first.file, line=first.line, origin=first.origin) == first
    assert isinstance(first, Event)
