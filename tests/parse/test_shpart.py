"""Parts of the probe in sh: each is a part of the wire, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.model import wire
from stethoscope.model.metric import WIRE_REASONS
from stethoscope.parse.parts import READERS, read_part
from stethoscope.parse.stream import ParseError, parse

FIELDS = "index,uuid,pstate,clocks.mem,clocks.current.memory,power.default_limit,fabric.state,fabric.status"


def part(*lines: str, name: str = "a", s: str = "30") -> wire.Part:
    body = "\n".join((f"@name {name}", f"@s {s}", *lines))
    message = parse(f"@part 7 4000.25 1773454447.5\n{body}\n@end 7".encode())
    assert isinstance(message, wire.Part)
    return message


def gpu(*rows: str, known: str = "0 1", more: tuple[str, ...] = ("@ran apps", "1:", "2:@exit 0")) -> wire.Part:
    lines = [f"{number}:{row}" for number, row in enumerate([*rows, "", "@exit 0"], 1)]
    return part(f"@fields {FIELDS}", f"@known {known}", "@ran gpu", *lines, *more, name="gpu", s="60")


def test_nothing_new() -> None:
    assert part("@same") == wire.Part(seq=7, mono=4000.25, wall=1773454447.5, name="a", s=30, same=True)


def test_files() -> None:
    found = part(
        "@files",
        "proc/a:first: 1",
        "proc/a:",
        "proc/a:@end 7",
        "sys/bus/pci/drivers/nvidia/0000:81:00.0/current_link_width:16",
        "sys/bus/pci/drivers/nvidia/00000001:81:00.0/aer:12:34:56.7/x:9",
        "grep: proc/none: No such file or directory",
        "grep: sys/block/nvme*/size: No such file or directory",
        "grep: sys/block/sd[a-z]/size: Permission denied",
        "grep: sys/class/net/eth0/speed: Invalid argument",
        "@among",
        "proc/b",
        "proc/c",
        "proc/gone",
        "sys/md*",
        "@files",
        "proc/b:yes",
        "grep: proc/gone: No such file or directory",
    )
    assert found.files == {
        "/proc/a": "first: 1\n\n@end 7\n",
        "/sys/bus/pci/drivers/nvidia/0000:81:00.0/current_link_width": "16\n",
        "/sys/bus/pci/drivers/nvidia/00000001:81:00.0/aer": "12:34:56.7/x:9\n",
        "/proc/b": "yes\n",
        "/proc/c": "",
    }
    assert found.failed == {
        "/proc/none": "unsupported",
        "/sys/block/sd[a-z]/size": "permission",
        "/sys/class/net/eth0/speed": "error",
        "/proc/gone": "unsupported",
    }


def test_links_and_counts() -> None:
    found = part(
        "@links",
        "usr/local/cuda /usr/local/cuda 12.8",
        "usr/none ",
        "sys/x* ",
        "@count /sys/cpu*/governor",
        "powersave",
        "performance",
        " performance  ",
        "@count /sys/none*",
    )
    assert found.files == {
        "/usr/local/cuda": "/usr/local/cuda 12.8",
        "/sys/cpu*/governor": "2 performance\n1 powersave\n",
    }
    assert found.failed == {"/usr/none": "unsupported"}


def test_commands() -> None:
    found = part(
        "@ran df",
        "1:a",
        "2:",
        "3:@exit 4",
        "4:b",
        "5:",
        "6:@exit 1",
        "7:df: one",
        "8:df: two",
        "@ran smart nvme0",
        "1:whole",
        "2:",
        "3:@exit 0",
        "@ran slow",
        "1:began",
        "@timeout slow",
        "@ran stuck sda",
        "@hung stuck sda 77:123",
        "@absent ntpq",
    )
    assert found.ran == {
        "df": wire.Ran("ok", 1, "a\n\n@exit 4\nb\n", "df: one\ndf: two"),
        "smart nvme0": wire.Ran("ok", 0, "whole\n"),
        "slow": wire.Ran("timeout", 0, "began"),
        "stuck sda": wire.Ran("hung"),
        "ntpq": wire.Ran("absent"),
    }


def test_processes() -> None:
    found = part(
        "@tasks many",
        "77 (a) D 1) x) Z 1",
        "78 (kernel) D 2",
        "79 (b) D 1",
        "what",
        "@waits",
        "proc/77/wchan:io_schedule",
        "@owners",
        "1000 proc/77",
        "0 proc/79/",
        "@ran users",
        "1:ann:x:1000:1000::/home/ann:/bin/sh",
        "2:",
        "3:@exit 2",
    )
    assert found.files == {"tasks": "77\tZ\t1\tann\ta) D 1) x\tio_schedule\n79\tD\t1\t0\tb\t\n"}
    assert found.ran == {}


def test_statistics_of_interfaces() -> None:
    found = part(
        "@ran ethtool",
        "1:@ sys/class/infiniband/mlx5_0/device/net/ib0",
        "2:     rx_discards_phy: 5",
        "3:@ sys/class/infiniband/mlx5_1/device/net/ib1",
        "4:",
        "5:@exit 0",
    )
    base = "/sys/class/infiniband"
    assert found.files == {f"{base}/mlx5_0/device/net/ib0": "rx_discards_phy 5\n", f"{base}/mlx5_1/device/net/ib1": ""}


def test_gpus() -> None:
    found = gpu(
        "0, GPU-a, P2, 2619, 2619, 700.00, Completed, Success",
        "1, GPU-b, [Unknown Error], [N/A], 2500, [GPU is lost], N/A, N/A",
        more=("@ran apps", "1:GPU-b, 12, 500", "2:GPU-b, 12, 250", "3:GPU-b, x, 1", "4:GPU-c, 9, 1", "5:", "6:@exit 0"),
    )
    assert found.gpu == {
        "gpu_pstate": [2, "error"],
        "gpu_mem_clock": [2619, 2500],
        "gpu_power_limit_default": [700.0, "lost"],
        "fabric_state": [3, "unsupported"],
        "fabric_status": [0, "unsupported"],
        "gpu_process_count": [0, 1],
    }
    assert found.apps == [[1, 12, 750, "C"]]


@pytest.mark.parametrize(
    ("state", "status", "values"),
    [
        ("Completed", "Insufficient resources", (3, 999)),
        ("In Progress", "N/A", (2, "waiting")),
        ("Not Started", "Success", (1, "waiting")),
        ("Strange", "[Unknown Error]", ("error", "error")),
    ],
)
def test_a_fabric_that_is_not_ready(state: str, status: str, values: tuple[int, int | str]) -> None:
    found = gpu(f"0, GPU-a, P0, 1, 1, 1.0, {state}, {status}", known="0")
    assert (found.gpu["fabric_state"][0], found.gpu["fabric_status"][0]) == values


def test_a_gpu_without_a_row_keeps_its_place() -> None:
    assert gpu("1, GPU-b, P0, 1, 1, 1.0, N/A, N/A").gpu["gpu_pstate"] == ["error", 0]


def test_a_question_that_hangs() -> None:
    found = part(f"@fields {FIELDS}", "@known 0 1", "@hung gpu 77:5", name="gpu", s="60")
    assert found.gpu["gpu_mem_clock"] == ["hung", "hung"]
    assert found.gpu["gpu_process_count"] == ["hung", "hung"]
    assert found.apps == []


def test_processes_that_cannot_be_told_are_not_none() -> None:
    row = "0, GPU-a, P0, 1, 1, 1.0, N/A, N/A"
    assert gpu(row, known="0", more=("@timeout apps",)).gpu["gpu_process_count"] == ["hung"]
    assert gpu(row, known="0", more=("@ran apps", "1:", "2:@exit 9")).gpu["gpu_process_count"] == ["error"]


@pytest.mark.parametrize("pace", ["", "x", "-1", "1e5", "9999999"])
def test_a_part_without_a_pace_is_refused(pace: str) -> None:
    with pytest.raises(ParseError):
        part("@same", s=pace)


WORDS = ["proc/a:", "0", ":", "@ran a", "@hung a", "@hung", "@exit 0", "@tasks", "@owners", "@count ", "@fields index,",
         "@known 0 99999", "@ran gpu", "@ran apps", "@ran users", "@ran ethtool", "1:0, GPU, 1", "1:@ a", "2:@exit 0",
         "grep: ", "grep: a: b", "@links", "@among", "@files", "@waits", "@same x", "@name ../x", "\x1b[2J",
         "7 (a) D 1"]  # fmt: skip


@given(
    name=st.sampled_from(sorted(READERS)),
    lines=st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=40)), max_size=30),
)
def test_whatever_comes_is_a_part_or_refused(name: str, lines: list[str]) -> None:
    try:
        found = part(*lines, name=name)
    except ParseError:
        return
    facts = read_part(found)
    for column in facts.gpu.values():
        assert all(isinstance(cell, int | float) or cell in WIRE_REASONS for cell in column)
