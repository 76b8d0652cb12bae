"""The border: whatever a node prints becomes a bounded, clean message or one kind of error."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.model import wire
from stethoscope.model.metric import WIRE_REASONS
from stethoscope.parse.stream import MAX_GPUS, MAX_LINE, ParseError, parse

HEAD: dict[str, Any] = {"seq": 3, "mono": 12.5, "wall": 1_773_454_447.25}


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"t": kind, **HEAD, **fields}).encode()


def strings(value: Any) -> list[str]:
    """Every string of a message, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in strings(part)]
    return []


def test_a_full_line() -> None:
    message = parse(
        line(
            "full",
            gpus=[{"index": 0, "name": "NVIDIA H100", "uuid": "GPU-1", "pci": "00000000:4F:00.0"}],
            ports=[{"device": "mlx5_0", "layer": "InfiniBand"}],
            node={"load1": 1.5, "cpu_iowait": "permission"},
            gpu={"gpu_temp": [60]},
            port={"ib_port_rcv_data": [2**64 - 1]},
            notes={"kernel_log": "permission"},
        )
    )
    assert isinstance(message, wire.Full)
    assert message.gpus == [wire.GpuIdentity(0, "NVIDIA H100", "GPU-1", "0000:4f:00.0")]
    assert message.ports == [wire.PortIdentity("mlx5_0", 1, "InfiniBand")]
    assert message.node == {"load1": 1.5, "cpu_iowait": "permission"}
    assert message.port == {"ib_port_rcv_data": [2**64 - 1]}
    assert message.notes == {"kernel_log": "permission"}


def test_escape_sequences_go_from_every_kind_of_line() -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jbad\u202e\n\x00"
    hello = parse(line("hello", host=evil, kernel=evil, python=evil, boot_id=evil))
    full = parse(line("full", gpus=[{"index": 0, "name": evil, "uuid": evil, "pci": evil}], notes={evil: evil}))
    event = parse(line("event", source=evil, text=evil))
    bye = parse(line("bye", why=evil))
    assert isinstance(hello, wire.Hello)
    assert isinstance(full, wire.Full)
    assert isinstance(event, wire.Event)
    assert isinstance(bye, wire.Bye)
    assert hello.host == event.text == bye.why == full.gpus[0].name == "bad "
    assert full.gpus[0].pci == ""
    assert full.notes == {"bad ": "bad "}


def test_a_kind_of_line_that_is_no_more_is_passed_over() -> None:
    old = parse(line("result", id=2**70, probe="mlxlink", status="ok", text="State: \x1b[32mActive"))
    assert isinstance(old, wire.Other)


def test_an_unknown_word_is_an_error() -> None:
    message = parse(line("delta", gpu={"gpu_temp": [60, None, "12", "nan", "hung"]}, node={"load1": "\x1b[2J"}))
    assert isinstance(message, wire.Delta)
    assert message.gpu == {"gpu_temp": [60, None, "error", "error", "hung"]}
    assert message.node == {"load1": "error"}


def test_an_event_with_an_impossible_time_or_level_keeps_its_text() -> None:
    event = parse(line("event", source="kernel", text="x", at=-5, level=99))
    assert isinstance(event, wire.Event)
    assert (event.text, event.at, event.level) == ("x", None, None)


REFUSED = {
    "nothing": b"",
    "half a line": line("full", node={"load1": 1})[:40],
    "two lines": line("bye") + line("bye"),
    "not JSON": b"Last login: Sat Mar 14",
    "not an object": b"[]",
    "no kind": json.dumps(HEAD).encode(),
    "NaN": b'{"t":"bye","seq":1,"mono":NaN,"wall":1}',
    "infinity": b'{"t":"bye","seq":1,"mono":1e999,"wall":1}',
    "a number of 400 digits": line("delta", node={"load1": 10**400}),
    "a number of 65 bits": line("delta", gpu={"nvlink_rx": [0, 2**64, None]}),
    "a far negative number": line("delta", gpu={"nvlink_rx": [-(2**63) - 1]}),
    "a truth value": line("delta", node={"load1": True}),
    "a nested list": line("delta", gpu={"gpu_temp": [[1]]}),
    "a negative sequence number": line("bye") .replace(b'"seq": 3', b'"seq": -3'),
    "a time beyond all times": line("bye").replace(b"12.5", b"1e300"),
    "too many GPUs": line("full", gpus=[{"index": index} for index in range(MAX_GPUS + 1)]),
    "one index twice": line("full", gpus=[{"index": 0}, {"index": 0}]),
    "a negative index": line("full", gpus=[{"index": -1}]),
    "one port twice": line("full", ports=[{"device": "mlx5_0"}, {"device": "mlx5_0"}]),
    "a port that is a path": line("full", ports=[{"device": "../../gpu/0"}]),
    "a port with an escape": line("full", ports=[{"device": "mlx5\x1b[2J"}]),
    "a metric with an escape": line("delta", node={"load1\x1b[2J": 1}),
    "a long metric": line("delta", node={"x" * 1000: 1}),
    "too many metrics": line("delta", node={f"m{number}": 1 for number in range(600)}),
    "too many notes": line("full", notes={f"n{number}": "x" for number in range(100)}),
    "another protocol": line("hello", schema="stethoscope.probe/2"),
    "deep nesting": b'{"t":"bye","x":' + b"[" * 100_000,
    "a broken surrogate": b'{"t":"bye","seq":1,"mono":1,"wall":1,"why":"\\ud800"}',
    "not UTF-8": b'{"t":"bye","seq":1,"mono":1,"wall":1,"why":"\xff"}',
    "an endless line": b" " * (MAX_LINE + 1),
}  # fmt: skip


@pytest.mark.parametrize("begins", [b'{"t": "', b'{"t":"'], ids=["spaced", "as a probe writes it"])
@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
def test_refused(raw: bytes, begins: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        parse(raw.replace(b'{"t": "', begins, 1))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 200


texts = st.text(max_size=40)
cells = (
    st.none()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from([*WIRE_REASONS])
)
names = st.sampled_from(["gpu_temp", "nvlink_rx", "load1"]) | texts
lists = st.dictionaries(names, st.lists(cells, max_size=9), max_size=4)
gpus = st.fixed_dictionaries({"index": st.integers()}, optional={"name": texts, "uuid": texts, "pci": texts})
ports = st.fixed_dictionaries({"device": texts}, optional={"port": st.integers(), "layer": texts})
fields = st.fixed_dictionaries(
    {"t": st.sampled_from(["hello", "full", "delta", "event", "result", "bye"]) | texts},
    optional={
        "seq": st.integers(),
        "mono": st.floats(allow_nan=False),
        "wall": st.floats(allow_nan=False),
        "gpus": st.lists(gpus, max_size=3),
        "ports": st.lists(ports, max_size=3),
        "node": st.dictionaries(names, cells, max_size=4),
        "gpu": lists,
        "port": lists,
        "notes": st.dictionaries(texts, texts, max_size=3),
        "source": texts,
        "text": st.text(),
        "at": st.floats(allow_nan=False),
        "level": st.integers(),
        "id": st.integers(),
        "probe": texts,
        "status": texts,
        "why": texts,
        "host": texts,
        "tick_s": st.floats(allow_nan=False),
    },
)  # fmt: skip


def check(raw: bytes) -> None:
    try:
        message = parse(raw)
    except ParseError as error:
        refusal = str(error)
    else:
        check_clean(message)
        refusal = ""
    assert refusal == "" or refusal.isprintable()


def check_clean(message: wire.Message) -> None:
    for text in strings(msgspec.to_builtins(message)):
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") for c in text.replace("\n", ""))
        assert "\n" not in text
    if isinstance(message, wire.Other):
        return
    # The same message again: what is clean stays as it is.
    assert parse(wire.encode(message)) == message


@given(fields)
def test_no_line_gives_another_error_or_a_control_character(content: dict[str, Any]) -> None:
    check(json.dumps({**HEAD, **content}).encode())


@given(st.binary(max_size=300))
def test_no_bytes_give_another_error(raw: bytes) -> None:
    check(raw)


@given(st.data())
def test_a_cut_or_damaged_line_gives_no_other_error(data: st.DataObject) -> None:
    raw = bytearray(line("full", gpus=[{"index": 0, "pci": "0000:4f:00.0"}], gpu={"gpu_temp": [60]}, notes={"a": "b"}))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


def part_with(links: object, *, type_first: bool = True) -> bytes:
    head = {"seq": 4, "mono": 9.0, "wall": 10.0, "name": "gpu", "s": 30, "links": links}
    line = {"t": "part", **head} if type_first else {**head, "t": "part"}
    return json.dumps(line, separators=(",", ":")).encode()


def test_lists_of_links_are_the_same_on_every_way_and_read_once() -> None:
    links = {"nvlink_state": [[1, 1], []], "nvlink_crc_errors": [[0, "hung"], []], "nvlink_speed": [[26.5, "evil"], []]}
    first, again, other = parse(part_with(links)), parse(part_with(links)), parse(part_with(links, type_first=False))
    assert isinstance(first, wire.Part)
    assert isinstance(again, wire.Part)
    assert first == again == other
    assert type(first) is wire.Part
    assert first.links is again.links
    assert first.links == {**links, "nvlink_speed": [[26.5, "error"], []]}


@pytest.mark.parametrize("type_first", [True, False])
@pytest.mark.parametrize(
    "links",
    [
        {"nvlink_state": [[1]] * (MAX_GPUS + 1)}, {"nvlink_state": [[1] * 65]}, {"a\x1b[2J": [[1]]},
        {"nvlink_crc_errors": [[2**64]]}, {"nvlink_crc_errors": [[-(2**63) - 1]]}, {"nvlink_state": [1]}, [[1]], None,
        {"nvlink_state": [[[1]]]}, {str(number): [] for number in range(600)},
    ],
)  # fmt: skip
def test_lists_of_links_that_are_none_are_refused_on_every_way(links: object, type_first: bool) -> None:
    for _ in range(2):
        with pytest.raises(ParseError):
            parse(part_with(links, type_first=type_first))


metrics = st.sampled_from(["gpu_util", "gpu_temp", "nvlink_rx", "a\u200bb", "x" * 70])
odd_cells = (
    st.none()
    | st.integers(-(2**64), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([*WIRE_REASONS, ":", '":', "no word"])
)
odd_rows = st.dictionaries(metrics, st.lists(odd_cells, max_size=4), max_size=3)
odd_texts = st.sampled_from(["", "1\n", "a\tb\r\n", "\x1b[2Jx", "\u202ey", "plain", "z" * 600])
runs = st.fixed_dictionaries(
    {"out": odd_texts}, optional={"err": odd_texts, "status": odd_texts, "exit": st.integers(-(2**31) - 1, 2**31)}
)


@given(
    st.sampled_from(["delta", "full", "part"]),
    odd_rows, odd_rows, st.dictionaries(metrics, odd_cells, max_size=3),
    st.dictionaries(odd_texts, odd_texts, max_size=3), st.dictionaries(odd_texts, runs, max_size=2),
)  # fmt: skip
def test_a_line_reads_the_same_however_it_begins(
    kind: str, gpu: object, port: object, node: object, files: object, ran: object
) -> None:
    said = {"files": files, "ran": ran, "name": "net"} if kind == "part" else {"node": node, "port": port}
    line = {"t": kind, "seq": 3, "mono": 5.0, "wall": 6.0, "gpu": gpu, **said}
    compact = json.dumps(line, separators=(",", ":")).encode()
    spaced = json.dumps(line).encode()
    read: list[object] = []
    for raw in (compact, spaced, compact):
        try:
            read.append(parse(raw))
        except ParseError:
            read.append(None)
    assert read[0] == read[1] == read[2]
    assert repr(read[0]) == repr(read[1])


@pytest.mark.parametrize(("kind", "known"), [("delta", wire.Delta), ("full", wire.Full), ("part", wire.Part)])
def test_a_line_is_of_its_own_kind_and_no_other(kind: str, known: type[wire.Message]) -> None:
    line = {"t": kind, "seq": 3, "mono": 5.0, "wall": 6.0, "name": "gpu", "gpu": {"gpu_temp": [60, "hung"]}}
    assert type(parse(json.dumps(line, separators=(",", ":")).encode())) is known
