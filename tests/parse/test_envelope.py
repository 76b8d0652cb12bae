"""Lines inside JSON objects or in parts: what comes out, and that no bytes can break it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.parse.envelope import Inner, Unwrapper, is_wrapped, unwrapper_of
from stethoscope.parse.logtime import Calendar
from stethoscope.parse.prefix_said import Outer

XID = "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus."
JOURNAL = {
    "__REALTIME_TIMESTAMP": "1773454031104233",
    "_SOURCE_MONOTONIC_TIMESTAMP": "12345678901",
    "_BOOT_ID": "a1b2",
    "_HOSTNAME": "node-a",
    "_TRANSPORT": "kernel",
    "MESSAGE": XID,
}


def wall(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def unwrap(*lines: object) -> list[Inner]:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    unwrapper = Unwrapper(Calendar(newest=wall("2026-06-01T00:00:00Z")))
    return [*unwrapper.lines("\n".join(text).encode(), 1), *unwrapper.rest()]


def test_journal() -> None:
    (inner,) = unwrap(JOURNAL)
    assert inner.text == XID.encode()
    assert inner.outer == Outer(at=1773454031.104233, host="node-a", uptime_s=12345.678901, boot="a1b2")


PRETTY = json.dumps(JOURNAL, indent="\t")
EXPORT = "\n".join(f"{name}={value}" for name, value in JOURNAL.items())
VERBOSE = "Sat 2026-03-14 02:07:11.104233 UTC [s=ab12;i=1f;b=a1b2;m=2;t=3;x=4]\n" + "\n".join(
    f"    {name}={value}" for name, value in JOURNAL.items()
)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"data: {json.dumps(JOURNAL)}\n\n" * 2, [1, 3]),
        (f"\x1e{json.dumps(JOURNAL)}\n" * 2, [1, 2]),
        (f"{PRETTY}\n" * 2, [1, 9]),
        (f"{EXPORT}\n\n" * 2, [1, 8]),
        (f"{VERBOSE}\n" * 2, [1, 8]),
        (f"{VERBOSE.replace('UTC', 'CET')}\n", [1]),
    ],
    ids=["sse", "seq", "pretty", "export", "verbose", "verbose once"],
)
@pytest.mark.parametrize("cut", [40, 1 << 20])
def test_other_forms_of_the_journal(text: str, lines: list[int], cut: int) -> None:
    data = text.encode()
    unwrapper = unwrapper_of(data, Calendar(newest=wall("2026-06-01T00:00:00Z")), is_in_parts=False)
    assert unwrapper is not None
    found, first, rest = [], 1, data
    while rest:
        end = rest.find(b"\n", cut) + 1 or len(rest)
        found += unwrapper.lines(rest[:end], first)
        first, rest = first + rest[:end].count(b"\n"), rest[end:]
    found += unwrapper.rest()
    outer = Outer(at=1773454031.104233, host="node-a", uptime_s=12345.678901, boot="a1b2")
    assert found == [Inner(XID.encode(), number, outer) for number in lines]


@pytest.mark.parametrize("text", ["a [s=1;] b\n", "{\n  not json\n}\n", "x __REALTIME_TIMESTAMP=1\n", "[s=ab;\n" * 9])
def test_what_only_looks_like_the_journal_stays(text: str) -> None:
    assert unwrapper_of(text.encode(), Calendar(newest=0.0), is_in_parts=False) is None


def test_message_as_numbers_of_bytes() -> None:
    (inner,) = unwrap(JOURNAL | {"MESSAGE": list(XID.encode())})
    assert inner.text == XID.encode()


def test_an_agent_gives_the_line_of_the_kernel_beside_what_it_says() -> None:
    (inner,) = unwrap({"level": "warn", "ts": "2026-03-14T02:07:11Z", "msg": "known code", "line": f"kernel: {XID}"})
    assert inner.text == f"kernel: {XID}".encode()
    (inner,) = unwrap({"msg": "known code", "line": "main.go:17"})
    assert inner.text == b"known code"


def test_message_that_was_too_long_is_empty() -> None:
    assert unwrap(JOURNAL | {"MESSAGE": None}) == []


def test_a_field_that_comes_twice_counts_once() -> None:
    (inner,) = unwrap(JOURNAL | {"_HOSTNAME": ["node-a", "node-b"], "MESSAGE": [XID, "other"]})
    assert inner.outer is not None
    assert (inner.text, inner.outer.host) == (XID.encode(), "node-a")


def test_daemons_keep_their_name_and_others_their_pid() -> None:
    said = {"_TRANSPORT": "stdout", "MESSAGE": "boo", "_PID": "811", "__REALTIME_TIMESTAMP": "1773454031104233"}
    daemon, job = unwrap(said | {"SYSLOG_IDENTIFIER": "slurmd"}, said | {"SYSLOG_IDENTIFIER": "python3"})
    assert (daemon.text, job.text) == (b"slurmd: boo", b"boo")
    assert job.outer is not None
    assert job.outer.pid == 811


def test_docker_and_its_lines_in_parts() -> None:
    time = "2026-11-04T03:11:53.1Z"
    whole, joined = unwrap(
        {"log": "one\n", "stream": "stdout", "time": time},
        {"log": "begin ", "stream": "stderr", "time": time},
        {"log": "end\n", "stream": "stderr", "time": "2026-11-04T03:11:54Z"},
    )
    assert whole == Inner(b"one", 1, Outer(at=wall(time)))
    assert joined == Inner(b"begin end", 2, Outer(at=wall(time)))


@pytest.mark.parametrize(
    ("document", "at"),
    [
        ({"message": "boo", "@timestamp": "2026-03-14T02:07:11.5Z"}, wall("2026-03-14T02:07:11.5Z")),
        ({"msg": "boo", "ts": 1773454031.5}, 1773454031.5),
        ({"line": "boo", "timestamp": 1773454031500}, 1773454031.5),
        ({"msg": "boo", "time": True}, None),
        ({"msg": "boo"}, None),
    ],
)
def test_other_shippers(document: dict[str, object], at: float | None) -> None:
    (inner,) = unwrap(document | {"kubernetes": {"pod_name": "llm-worker-3"}})
    assert inner == Inner(b"boo", 1, Outer(at=at, pod="llm-worker-3"))


def test_parts_of_containerd_are_joined_for_each_stream() -> None:
    first, second = unwrap(
        "2026-03-14T02:07:11.1Z stderr P NVRM: Xid (PCI:0000:8",
        "2026-03-14T02:07:11.2Z stdout F hello",
        "2026-03-14T02:07:11.3Z stderr F 1:00): 79",
    )
    assert first == Inner(b"2026-03-14T02:07:11.2Z stdout F hello", 2, None)
    assert second == Inner(b"2026-03-14T02:07:11.1Z stderr F NVRM: Xid (PCI:0000:81:00): 79", 1, None)


def test_what_is_no_object_stays_as_it_is() -> None:
    lines = ["{not json", '{"a": 1}', "plain", "{" * 5000, '{"log": 3}']
    assert [inner.text.decode() for inner in unwrap(*lines)] == lines


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=80), st.sampled_from([b"{", b'{"log":"', json.dumps(JOURNAL).encode()]))))
def test_nothing_raises_and_nothing_is_lost(parts: list[bytes]) -> None:
    data = b"\n".join(parts)
    calendar = Calendar(newest=datetime(2026, 6, 1, tzinfo=UTC).timestamp())
    is_wrapped(data, calendar)
    unwrapper = Unwrapper(calendar)
    found = [*unwrapper.lines(data, 1), *unwrapper.rest()]
    assert len(found) <= data.count(b"\n") + 1
    assert all(1 <= inner.number <= data.count(b"\n") + 1 for inner in found)
