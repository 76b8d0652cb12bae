"""Blocks of the probe in sh: each is a message of the wire, or refused."""

from __future__ import annotations

import importlib
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope import paths
from stethoscope.model import wire
from stethoscope.model.metric import WIRE_REASONS
from stethoscope.parse import shstream
from stethoscope.parse.stream import MAX_LINE, ParseError, parse

HEAD = "7 4000.25 1773454447.123456789"
HOST = """stat:cpu  1400 0 600 8300 340 0 200 160 0 0
stat:cpu0 1400 0 600 8300 340 0 200 160 0 0
stat:procs_blocked 5
meminfo:MemTotal:       1048576 kB
meminfo:MemAvailable:    524288 kB
meminfo:Dirty:             1024 kB
grep: loadavg: Permission denied
pressure/cpu:some avg10=10.50 avg60=0.00 avg300=0.00 total=5
grep: pressure/io: No such file or directory
grep: pressure/memory: Operation not supported"""
WAS = "stat:cpu  1000 0 500 8000 300 0 150 50 0 0\nstat:cpu0 1000 0 500 8000 300 0 150 50 0 0"
PORTS = "mlx5_10 1 0000:5f:00.0 eth0 Ethernet\nmlx5_2 1 device - InfiniBand"
VALUES = """mlx5_2/ports/1/state:4: ACTIVE
mlx5_2/ports/1/rate:2.5 Gb/sec (1X SDR)
mlx5_2/ports/1/counters/port_xmit_data:18446744073709551615
mlx5_2/ports/1/counters/symbol_error:N/A (no PMA)
grep: mlx5_2/ports/1/counters/link_downed: Invalid argument
grep: mlx5_2/ports/1/hw_counters/out_of_buffer: No such file or directory
mlx5_10/ports/1/state:1: DOWN"""


def block(
    *, host: str = HOST, was: str = WAS, ports: str = PORTS, values: str = VALUES, rows: str = "", said: str = ""
) -> bytes:
    body = f"@pci 8\n@log permission\n@smi ended \n@said {said}\n@fields index,name\n@rows\n{rows}@ports\n{ports}\n"
    return f"@full {HEAD}\n{body}@host\n{host}\n@was\n{was}\n@values\n{values}\n@end 7".encode()


def full(**parts: str) -> wire.Full:
    message = parse(block(**parts))
    assert isinstance(message, wire.Full)
    return message


def test_a_whole_block() -> None:
    frame = full(said="No devices were found")
    assert (frame.seq, frame.mono, frame.wall) == (7, 4000.25, 1773454447.123456789)
    assert frame.node == {
        "cpu_util": 66.0,
        "cpu_iowait": 4.0,
        "cpu_softirq": 5.0,
        "cpu_softirq_max": 5.0,
        "cpu_steal": 11.0,
        "cpu_count": 1,
        "procs_blocked": 5,
        "mem_total": 1024,
        "mem_available": 512,
        "mem_dirty_writeback": "unsupported",
        "load1": "permission",
        "psi_cpu_some": 10.5,
        "psi_io_some": "unsupported",
        "psi_io_full": "unsupported",
        "psi_memory_full": "unsupported",
        "gpu_count_pci": 8,
        "gpu_count": 0,
        "nvml_latency": "absent",
    }
    assert frame.ports == [
        wire.PortIdentity("mlx5_2", 1, "InfiniBand"),
        wire.PortIdentity("mlx5_10", 1, "Ethernet", "0000:5f:00.0", "eth0"),
    ]
    assert frame.port["ib_port_state"] == [4, 1]
    assert frame.port["ib_port_rate"] == [2.5, "error"]
    assert frame.port["ib_port_xmit_data"] == [2**64 - 1, "error"]
    assert [frame.port[name][0] for name in ("ib_symbol_error", "ib_link_downed", "ib_hw_out_of_buffer")] == [
        "unsupported",
        "error",
        "unsupported",
    ]
    assert frame.notes == {
        "traffic": "no Python, using sh",
        "nvml": "no devices",
        "kernel_log": "permission",
        "kernel_log_tried": "dmesg, journalctl",
    }


def test_numbers_that_no_kernel_has_are_errors() -> None:
    huge = "9" * 400
    host = HOST.replace("1048576", huge).replace("avg10=10.50", "avg10=1e999").replace("blocked 5", f"blocked {huge}")
    frame = full(
        host=host.replace("grep: loadavg: Permission denied", "loadavg:nan 1 1"),
        values=f"mlx5_2/ports/1/state:{huge}\nmlx5_2/ports/1/rate:{huge}.0 Gb/sec",
    )
    assert {name: frame.node[name] for name in ("mem_total", "psi_cpu_some", "load1", "procs_blocked", "cpu_util")} == {
        "mem_total": "error", "psi_cpu_some": "error", "load1": "error", "procs_blocked": "error", "cpu_util": "error",
    }  # fmt: skip
    assert (frame.port["ib_port_state"][0], frame.port["ib_port_rate"][0]) == ("error", "error")
    shares = full(host=HOST.replace("cpu  1400", f"cpu  {huge}")).node
    assert (shares["cpu_util"], shares["mem_total"]) == ("error", 1024)


def test_the_files_are_those_of_the_other_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(paths.bundled("probes")))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    fabric = importlib.import_module("fabric")
    assert {(metric, name) for name, metric in shstream.PORT_FILES.items()} == set(fabric.PORT_FILES)
    script = (paths.bundled("probes") / "stream.sh").read_text()
    assert not [name for name in shstream.PORT_FILES if name.rpartition("/")[2] not in script]


def test_events_have_the_time_of_the_kernel() -> None:
    dmesg = parse(f"@event {HEAD}\ndmesg <12>[ 3999.250000][ T12] NVRM: \x1b[31mXid\n@end 7".encode())
    assert isinstance(dmesg, wire.Event)
    assert (dmesg.source, dmesg.level, dmesg.text) == ("kernel", 4, "NVRM: Xid")
    assert dmesg.at == pytest.approx(1773454446.123457)
    journal = parse(f"@event {HEAD}\njournal 1773454031.104233 n1 kernel: NVRM: Xid\n@end 7".encode())
    assert isinstance(journal, wire.Event)
    assert (journal.at, journal.level, journal.text) == (1773454031.104233, None, "NVRM: Xid")


def test_hello_and_bye() -> None:
    hello = parse(f"@hello {HEAD}\n@node n\x1b[2J1\n@kernel 5.15\n@boot 6b2d\n@tick 2\n@pid 77\n@end 7".encode())
    assert hello == wire.Hello(
        seq=7, mono=4000.25, wall=1773454447.123456789, host="n1", kernel="5.15", pid=77, boot_id="6b2d", tick_s=2.0
    )
    assert parse(f"@bye {HEAD}\nstop\n@end 7".encode()) == wire.Bye(
        seq=7, mono=4000.25, wall=1773454447.123456789, why="stop"
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"@",
        b"@full",
        b"@full 1 2 3",
        b"@full 1 2.0 3.0\n@pci 1\n@end 2",
        b"@full -1 2.0 3.0\n@pci 1\n@end -1",
        b"@full 1 nan 3.0\n@pci 1\n@end 1",
        b"@full 1 2.0 inf\n@pci 1\n@end 1",
        b"@full 1 2.0 9999999999999.0\n@pci 1\n@end 1",
        b"@full 1 2.0 3.0\n@pci 1\n@pci 2\n@end 1",
        b"@event 1 2.0 3.0\nother line\n@end 1",
        b"@hello 1 2.0 3.0\n@tick x\n@pid 1\n@end 1",
        b"@delta 1 2.0 3.0\n@pci 1\n@end 1",
        b"@full 1 2.0 3.0\n@pci 1\n@ports\n../etc 1 - - x\n@end 1",
        b"@full 1 2.0 3.0\n@pci 1\n@ports\nmlx5_0 x - - x\n@end 1",
        b"@full 1 2.0 3.0\n" + b"x\n" * 30_000 + b"@end 1",
        b"@" + b"x" * MAX_LINE,
    ],
)
def test_what_is_no_block_is_refused(raw: bytes) -> None:
    with pytest.raises(ParseError):
        parse(raw)


def test_a_whole_block_without_anything_in_it_says_what_is_missing() -> None:
    frame = parse(b"@full 1 2.0 3.0\n@pci \n@end 1")
    assert isinstance(frame, wire.Full)
    assert frame.node["cpu_util"] == "error"
    assert not [value for value in frame.node.values() if value not in WIRE_REASONS]


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in strings(part)]
    if hasattr(value, "__struct_fields__"):
        return [text for name in value.__struct_fields__ for text in strings(getattr(value, name))]
    return []


def harmless(raw: bytes) -> None:
    """Parse; nothing but ParseError may come, and no string may hold what moves a cursor."""
    try:
        message = parse(raw)
    except ParseError:
        return
    for text in strings(message):
        assert not [sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs")]
    if isinstance(message, wire.Full):
        for column in (*message.gpu.values(), *message.port.values(), list(message.node.values())):
            assert all(cell in WIRE_REASONS for cell in column if isinstance(cell, str))


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    harmless(b"@" + data)


@given(st.sampled_from(["hello", "full", "event", "bye"]), st.binary(max_size=300))
def test_any_body(kind: str, data: bytes) -> None:
    harmless(f"@{kind} {HEAD}\n".encode() + data + b"\n@end 7")


LINES = st.lists(st.text(alphabet="0123456789-.:;=/ @_acegilmpstux\x1b\u202e\n", max_size=40)).map("\n".join)


@given(LINES, LINES, LINES, LINES, LINES, LINES)
def test_any_lines_in_every_part(host: str, was: str, ports: str, values: str, rows: str, said: str) -> None:
    harmless(block(host=host, was=was, ports=ports, values=values, rows=rows, said=said))
    prefixed = ["\n".join(f"{name}{line}" for line in text.split("\n")) for name, text in (("stat:cpu", host),) * 2]
    harmless(block(host=prefixed[0], was=prefixed[1], values="\n".join(f"mlx5_2/ports/1/state:{v}" for v in [values])))


@given(st.integers(0, len(block()) - 1), st.binary(min_size=1, max_size=4))
def test_a_damaged_block(place: int, damage: bytes) -> None:
    whole = block(said="x", rows="0, a\n")
    harmless(whole[:place] + damage + whole[place + len(damage) :])
    harmless(whole[:place])
