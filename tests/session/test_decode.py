"""From names of files to answers: spans of time, hosts, what cannot be read, and logs that grow."""

from __future__ import annotations

import gzip
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.errors import DataError, UsageError
from stethoscope.model.finding import Severity
from stethoscope.session.decode import Wanted, decode
from stethoscope.session.decode_follow import Followed, answers

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.logs import Event

HELLO = "2026-03-14T02:00:00Z node-a kernel: usb 1-1: new device\n"


def xid(code: int, body: str, *, host: str = "node-a", minute: int = 7, slot: str = "81") -> str:
    return f"2026-03-14T02:{minute:02d}:00Z {host} kernel: NVRM: Xid (PCI:0000:{slot}:00): {code}, {body}\n"


GONE = "GPU has fallen off the bus."
FAULT = (
    "pid=4211, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f1c_0"
)


def write(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text)
    return [str(folder)]


def test_several_files_are_one_story(tmp_path: Path) -> None:
    names = write(tmp_path, a=HELLO, b=xid(79, GONE))
    (tmp_path / "c.log.gz").write_bytes(gzip.compress(xid(79, GONE, host="node-b", minute=9).encode()))
    found = decode(names, clock=FixedClock())
    assert [file.name.rpartition("/")[2] for file in found.log.files] == ["a.log", "b.log", "c.log.gz"]
    assert (found.verdict.signature, found.verdict.severity) == ("xid.79", Severity.P0)
    assert {event.origin.host for event in found.log.events} == {"node-a", "node-b"}
    assert found.log.lines == 3
    assert found.limits == ""


def test_what_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    names = write(tmp_path, a=xid(79, GONE))
    (tmp_path / "b.bin").write_bytes(b"\x7fELF" + bytes(100))
    (tmp_path / "c.log.gz").write_bytes(gzip.compress(HELLO.encode() * 100)[:60])
    found = decode(names, clock=FixedClock())
    assert found.verdict.signature == "xid.79"
    assert [file.trouble for file in found.log.files] == [
        "", "not a text: a program", "the gzip data end in the middle",
    ]  # fmt: skip


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(DataError, match=r"b\.bin: not a text: a program"):
        decode([str(tmp_path)], clock=FixedClock())


def test_nothing_at_all(tmp_path: Path) -> None:
    found = decode(write(tmp_path, a=""), clock=FixedClock())
    assert (found.verdict.root_cause, found.verdict.severity) == ("unknown", Severity.NONE)


def test_progress_counts_what_was_taken(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    names = write(tmp_path, a=HELLO, b=HELLO)
    decode(names, clock=FixedClock(), progress=lambda taken, total: told.append((taken, total)))
    assert told == [(len(HELLO), 2 * len(HELLO)), (2 * len(HELLO), 2 * len(HELLO))]


@pytest.mark.parametrize(
    ("wanted", "signatures", "limits"),
    [
        (Wanted(since="02:08"), ["xid.79"], "since 2026-03-14T02:08:00Z: 1 of 2 events"),
        (Wanted(until="02:08"), ["xid.31"], "until 2026-03-14T02:08:00Z: 1 of 2 events"),
        (Wanted(since="5m"), ["xid.31", "xid.79"], "since 2026-03-14T02:04:00Z: 2 of 2 events"),
        (Wanted(nodes=frozenset({"node-b"})), ["xid.79"], "of node-b: 1 of 2 events"),
    ],
)
def test_only_a_part(wanted: Wanted, signatures: list[str], limits: str, tmp_path: Path) -> None:
    text = xid(31, FAULT) + xid(79, GONE, host="node-b", minute=9)
    found = decode(write(tmp_path, a=text), clock=FixedClock(), wanted=wanted)
    assert [event.signature for event in found.log.events] == signatures
    assert found.limits == limits


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(nodes=frozenset({"node-x"})), "Not one line of node-x was recognised; the logs name node-a, node-b."),
        (Wanted(since="2026-03-14T03:00:00Z"), "No line is of that time: the logs are from"),
        (Wanted(until="2026-03-13T03:00:00Z"), "No line is of that time: the logs are from"),
    ],
)
def test_a_part_that_is_not_in_the_logs_is_not_healthy(wanted: Wanted, said: str, tmp_path: Path) -> None:
    text = xid(31, FAULT) + xid(79, GONE, host="node-b", minute=9)
    found = decode(write(tmp_path, a=text), clock=FixedClock(), wanted=wanted)
    assert (found.verdict.root_cause, found.verdict.severity) == ("unknown", Severity.NONE)
    assert found.verdict.summary.startswith(said)


def test_a_part_in_which_nothing_is_wrong_is_healthy(tmp_path: Path) -> None:
    text = HELLO + xid(79, GONE, host="node-b", minute=9)
    found = decode(write(tmp_path, a=text), clock=FixedClock(), wanted=Wanted(nodes=frozenset({"node-a"})))
    assert found.verdict.root_cause == "healthy"


def test_a_span_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--until 02:05 is 2026-03-14T02:05:00Z, before --since 02:08"):
        decode(write(tmp_path, a=xid(79, GONE, minute=9)), clock=FixedClock(), wanted=Wanted("02:08", "02:05"))


class Writer:
    """Writes to a log each time somebody waits for it."""

    def __init__(self, clock: FixedClock, path: Path, *texts: str) -> None:
        self._clock, self._path, self._texts = clock, path, list(texts)

    def __call__(self, seconds: float) -> None:
        self._clock.advance(seconds)
        if not self._texts:
            raise KeyboardInterrupt
        with self._path.open("a") as file:
            file.write(self._texts.pop(0))


def test_a_new_answer_when_the_verdict_is_another(tmp_path: Path) -> None:
    path, clock = tmp_path / "a.log", FixedClock()
    path.write_text(HELLO)
    followed = Followed([str(path)], clock=clock)
    news: list[Event] = []
    # Half a line, its other half, nothing for a while, the same again, and something worse.
    line = xid(31, FAULT)
    waiting = Writer(
        clock, path, line[:50], line[50:], "", "", "", line, "", "", "", xid(79, GONE, minute=8), "", "", ""
    )
    told: list[str | None] = []
    with suppress(KeyboardInterrupt):
        told.extend(answer.verdict.signature for answer in answers(followed, clock, waiting, news.extend))
    followed.close()
    assert told == [None, "xid.31", "xid.79"]
    assert [event.signature for event in news] == ["xid.31", "xid.31", "xid.79"]


def test_new_files_of_a_directory_are_found(tmp_path: Path) -> None:
    clock = FixedClock()
    followed = Followed(write(tmp_path, a=HELLO), clock=clock)
    assert followed.take() == []
    write(tmp_path, b=xid(79, GONE))
    assert followed.take() == []
    clock.advance(6)
    assert [event.signature for event in followed.take()] == ["xid.79"]
    followed.close()


def test_a_log_that_cannot_grow_ends_it(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(xid(79, GONE).encode()))
    clock = FixedClock()
    followed = Followed([str(tmp_path / "a.log.gz")], clock=clock)
    told = list(answers(followed, clock, clock.advance, lambda _events: None))
    assert [answer.verdict.signature for answer in told] == ["xid.79"]


def test_a_rotated_file_in_a_directory_is_taken_once(tmp_path: Path) -> None:
    clock = FixedClock()
    path = tmp_path / "a.log"
    path.write_text(xid(79, GONE))
    followed = Followed([str(tmp_path)], clock=clock)
    followed.take()
    with path.open("a") as file:
        file.write(HELLO)
    path.rename(tmp_path / "a.log.1")
    path.write_text(HELLO)
    (tmp_path / "b.log").write_text(HELLO)
    clock.advance(10)
    followed.take()
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress((tmp_path / "a.log.1").read_bytes()))
    (tmp_path / "a.log.1").unlink()
    clock.advance(10)
    followed.take()
    answer = followed.answer()
    followed.close()
    assert [(file.name.rpartition("/")[2], file.lines) for file in answer.log.files] == [
        ("a.log", 2),
        ("a.log", 1),
        ("b.log", 1),
    ]
