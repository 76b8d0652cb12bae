"""Every part is read without a fall, and says only what the catalogue has."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.model import wire
from stethoscope.model.facts import Facts
from stethoscope.model.metric import WIRE_REASONS, Scope
from stethoscope.parse.parts import READERS, read_part
from stethoscope.parse.stream import ParseError, parse
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.probes import load_manifest

PATHS = (
    "/sys/bus/pci/drivers/nvidia/0000:19:00.0",
    "/sys/bus/pci/drivers/nvidia/0000:19:00.0/current_link_speed",
    "/sys/bus/pci/drivers/nvidia/0000:19:00.0/current_link_width",
    "/sys/bus/pci/drivers/nvidia/0000:19:00.0/aer_dev_fatal",
    "/sys/bus/pci/drivers/pcieport/0000:15:01.0/aer_dev_correctable",
    "/proc/diskstats",
    "/sys/block/nvme0n1/size",
    "/sys/block/nvme0n1/device/hwmon0/temp1_input",
    "/sys/block/md0/md/degraded",
    "/proc/self/mountinfo",
    "/proc/self/mountstats",
    "/proc/fs/lustre/osc/scratch-OST0000-osc-ff/state",
    "/sys/class/net/eth0/device",
    "/sys/class/net/eth0/operstate",
    "/sys/class/net/eth0/speed",
    "/sys/class/infiniband/mlx5_0/device/net/eth0",
    "/sys/class/infiniband/mlx5_0/fw_ver",
    "/proc/net/snmp",
    "/proc/net/dev",
    "/proc/vmstat",
    "/proc/meminfo",
    "/proc/sys/fs/file-nr",
    "/sys/devices/system/edac/mc/mc0/ce_count",
    "tasks",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    "/proc/sys/kernel/numa_balancing",
    "/proc/self/limits",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/modules",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/gpus/0000:19:00.0/information",
    "/proc/version",
    "/proc/cmdline",
    "/proc/stat",
    "/usr/local/cuda",
    "/proc/7/comm",
    "/proc/7/stat",
    "/proc/7/cgroup",
)
SNIPPETS = (
    "16.0 GT/s PCIe\n", "Unknown\n", "16\n", "-1\n", "99999999999999999999\n", "9" * 5000, "٣\n", "1_0\n",
    "TOTAL_ERR_COR 5\n", "RxErr\n", "259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11\n",
    "8 0 sda " + "18446744073709551615 " * 11,
    "21 1 259:2 / / rw - ext4 /dev/sda1 rw\n", "40 21 0:42 / /h\\040x\\777 ro - nfs4 a:/b rw\n", " - ext4 x y\n",
    "device a:/b mounted on /h with fstype nfs4 statvers=1.1\n\tREAD: 5 6\n", "\tREAD: 1\n", "current_state: FULL\n",
    "up\n", "Tcp: RetransSegs\nTcp: 1\n", "Tcp: RetransSegs\nTcp: \n", "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
    "rx_prio0_pause_duration 5\n", "rx_discards_phy\n", "oom_kill 1\n", "SwapTotal: 5 kB\nSwapFree: 9 kB\n",
    "12\tD\t1\troot\tx\tnvidia_ioctl\n", "12\tZ\n", "\t\t\n", "3 performance\n", "Max locked memory 5 5 bytes\n",
    "[a] b\n",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release\n", "Video BIOS: ??.?\n", "btime 12\n",
    "7 (a) b) Z 1\n", "0::/job_7/x\n", "/sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0", "cuda-12.4",
    "50484330,PHC0,1,1.5,0.25,0,0,0,0,0,0,0,8.0,Normal\n", "*10.0.0.1 .G. 1 u 1 1 1 1 --1.0 1\n",
    "NTPSynchronized=yes\n",
    "Id=nvidia-fabricmanager.service\nActiveState=active\n", "/dev/sda1 ext4 10 5 5 50% /\n", "- - - - - - /\n",
    '{"smartctl":{},"smart_status":{"passed":true}}', '{"smartctl":{"messages":[{}]}}', "{",
    "Firmware Revision : 1.2\n",
)  # fmt: skip
TEXT = st.lists(st.sampled_from(SNIPPETS) | st.text(max_size=8), max_size=3).map("".join)
CELL = st.none() | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e18, 1e18) | st.sampled_from(sorted(WIRE_REASONS))
RAN = st.builds(
    wire.Ran,
    status=st.sampled_from(["ok", "ok", "absent", "timeout", "hung", "odd"]),
    exit=st.integers(0, 255),
    out=TEXT,
    err=TEXT,
)
COMMANDS = (
    "df_local",
    "df_inodes",
    "df_remote",
    "chrony",
    "timedate",
    "ntpq",
    "services",
    "bmc",
    "smart sda",
    "smart nvme0",
)
PART = st.builds(
    wire.Part,
    seq=st.just(1),
    mono=st.just(1.0),
    wall=st.just(1.0),
    name=st.sampled_from([*READERS, "unheard_of"]),
    same=st.booleans() | st.just(False),
    gpu=st.dictionaries(st.sampled_from(["gpu_pstate", "gpu_mem_clock"]), st.lists(CELL, max_size=3), max_size=2),
    links=st.dictionaries(
        st.sampled_from(["nvlink_state", "nvlink_speed"]),
        st.lists(st.lists(CELL, max_size=3), max_size=3),
        max_size=2,
    ),
    apps=st.lists(
        st.tuples(st.integers(0, 8), st.sampled_from([7, 8]), st.none() | st.floats(0, 1e6), st.text(max_size=3)).map(
            list
        ),
        max_size=3,
    ),
    words=st.dictionaries(
        st.text(max_size=8), st.text(max_size=8) | st.lists(st.text(max_size=8), max_size=3), max_size=2
    ),
    files=st.dictionaries(st.sampled_from(PATHS) | st.text(max_size=20), TEXT, max_size=8),
    failed=st.dictionaries(st.sampled_from(PATHS), st.sampled_from([*WIRE_REASONS, "odd"]), max_size=3),
    ran=st.dictionaries(st.sampled_from(COMMANDS), RAN, max_size=4),
)


def check(said: Facts) -> None:
    """Every value is a number of 64 bits or a reason, and every column has one for each device."""
    cells: list[Any] = [*said.node.values()]
    cells += [cell for column in said.gpu.values() for cell in column]
    for devices in said.devices.values():
        assert len(set(devices.names)) == len(devices.names)
        assert set(devices.about) <= set(devices.names)
        for column in devices.values.values():
            assert len(column) == len(devices.names)
            cells += column
    for cell in cells:
        assert cell in WIRE_REASONS if isinstance(cell, str) else -(2**63) <= cell < 2**64


@settings(max_examples=150, deadline=None)
@given(PART)
def test_no_part_raises(message: wire.Part) -> None:
    cleaned = parse(wire.encode(message))
    assert isinstance(cleaned, wire.Part)
    said = read_part(cleaned)
    assert said.group == message.name
    check(said)


@settings(max_examples=80, deadline=None)
@given(PART)
def test_a_part_that_nobody_cleaned_does_not_raise_either(message: wire.Part) -> None:
    message.apps = []
    assert read_part(message).group == message.name


def test_nothing_has_changed() -> None:
    message = wire.Part(seq=1, mono=1.0, wall=1.0, name="disks", same=True, files={"/proc/diskstats": "x"})
    assert read_part(message) == Facts("disks", same=True)


def test_a_group_that_nobody_reads_says_nothing() -> None:
    assert read_part(wire.Part(seq=1, mono=1.0, wall=1.0, name="new", files={"/x": "1"})) == Facts("new")


def test_every_group_of_the_manifest_has_a_reader() -> None:
    assert {group.id for group in load_manifest().watch} == set(READERS)


WHOLE: dict[str, dict[str, Any]] = {
    "gpu": {"links": {"nvlink_state": [[1]]}},
    "pcie": {"files": {PATHS[0]: "/sys/devices/0000:19:00.0"}},
    "disks": {"files": {"/proc/diskstats": "259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11"}},
    "mounts": {
        "files": {"/proc/self/mountinfo": "21 1 259:2 / / rw - ext4 /dev/sda1 rw"},
        "ran": {"df_local": wire.Ran()},
    },
    "net": {"files": {"/sys/class/net/eth0/device": "x"}},
    "host": {},
    "clock": {},
    "tuning": {},
    "identity": {},
    "smart": {"ran": {"smart sda": wire.Ran()}},
    "bmc": {},
}
DERIVED = {"disk_await", "disk_io_util"}


@pytest.mark.parametrize("group", sorted(READERS))
def test_a_group_brings_what_the_catalogue_says_of_it(group: str) -> None:
    said = read_part(wire.Part(seq=1, mono=1.0, wall=1.0, name=group, **WHOLE[group]))
    brought = {(Scope.NODE, metric) for metric in said.node}
    brought |= {(scope, metric) for scope, devices in said.devices.items() for metric in devices.values}
    catalogue = {(metric.scope, metric.id): metric.group for metric in load_catalogue().values()}
    assert {catalogue.get(key) for key in brought} <= {group}
    if group != "gpu":
        expected = {key for key, its_group in catalogue.items() if its_group == group and key[1] not in DERIVED}
        assert brought == expected


def test_a_part_keeps_its_lines_and_columns() -> None:
    message = parse(
        wire.encode(
            wire.Part(
                seq=1,
                mono=1.0,
                wall=1.0,
                name="host",
                files={"tasks": "1\tD\t\x1b[31mred\x1b[0m\r\n2\tZ\n", "/x\x1b[2J": "a\u202eb\n", "/two\nlines": ""},
                failed={"/y": "permission", "/z": "\x1b[2J", "/n\n": "absent"},
                ran={"df\x07": wire.Ran("broken", 1, "a\tb\n", "\x1b]0;x\x07oh\n")},
                words={"driver\x1b_version": "1\n2", "gpu_vbios_version": ["\x1b[1m96"]},
                apps=[[0, 7, "lost", "X"]],
                gpu={"gpu_pstate": ["nonsense", 1]},
                links={"nvlink_state": [["nonsense"], []]},
            )
        )
    )
    assert isinstance(message, wire.Part)
    assert message.files == {"tasks": "1\tD\tred\n2\tZ\n", "/x": "ab\n", "/two lines": ""}
    assert message.failed == {"/y": "permission", "/z": "error", "/n ": "unsupported"}
    assert message.ran == {"df": wire.Ran("error", 1, "a\tb\n", "oh\n")}
    assert list(message.words.values()) == ["1 2", ["96"]]
    assert message.apps == [[0, 7, None, ""]]
    assert message.gpu == {"gpu_pstate": ["error", 1]}
    assert message.links == {"nvlink_state": [["error"], []]}


FLOODS = {
    "mounts": {"ran": {"df_local": wire.Ran(out=" a" * 400_000), "df_inodes": wire.Ran(out="a" + " " * 200_000)}},
    "identity": {"files": {"/proc/driver/nvidia/version": "NVRM version: " * 70_000}},
    "tuning": {"files": {"/sys/kernel/mm/transparent_hugepage/enabled": "[a" * 500_000}},
    "pcie": {"files": {PATHS[3]: "A 1" * 100_000, PATHS[0]: "/0000:" * 100_000}},
    "net": {"files": {"/sys/class/infiniband/mlx5_0/device/net/eth0": "rx_discards_phy 1\n" * 50_000}},
    "gpu": {"files": {"/proc/7/cgroup": "/job_1" * 150_000}, "apps": [[0, 7, 1, "C"]]},
    "smart": {"ran": {"smart sda": wire.Ran(out='{"smartctl":' * 80_000)}},
    "bmc": {
        "ran": {"sel": wire.Ran(out="1 | 01/01/2026 | " * 40_000), "air": wire.Ran(out="Inlet temperature " * 9_000)}
    },
    "host": {"files": {"tasks": "\t" * 1_000_000}},
}


@pytest.mark.parametrize("group", FLOODS)
def test_a_mebibyte_of_nonsense_costs_little_time(group: str) -> None:
    message = parse(wire.encode(wire.Part(seq=1, mono=1.0, wall=1.0, name=group, **FLOODS[group])))
    assert isinstance(message, wire.Part)
    before = time.process_time()
    check(read_part(message))
    assert time.process_time() - before < 2


REFUSED: dict[str, dict[str, Any]] = {
    "a name that is none": {"name": "Disks/../x"},
    "an impossible pace": {"s": -1.0},
    "too many files": {"files": {f"/{number}": "" for number in range(4097)}},
    "too many failures": {"failed": {f"/{number}": "error" for number in range(4097)}},
    "too many commands": {"ran": {str(number): wire.Ran() for number in range(513)}},
    "too much text": {"files": {"/x": "x" * 600_000}, "ran": {"y": wire.Ran(out="y" * 500_000)}},
    "too many words": {"words": {str(number): "" for number in range(65)}},
    "words of too many GPUs": {"words": {"gpu_vbios_version": [""] * 65}},
    "too many processes": {"apps": [[0, 1, 1, "C"]] * 2049},
    "half a process": {"apps": [[0, 1]]},
    "a process of no GPU": {"apps": [[-1, 1, 1, "C"]]},
    "a process that is none": {"apps": [[0, 2**40, 1, "C"]]},
    "too many GPUs": {"gpu": {"gpu_pstate": [1] * 65}},
    "links of too many GPUs": {"links": {"nvlink_state": [[]] * 65}},
    "too many links": {"links": {"nvlink_state": [[1] * 65]}},
    "a metric that is none": {"links": {"nvlink\x1b": [[1]]}},
    "too many metrics": {"gpu": {f"m{number}": [1] for number in range(513)}},
    "a number beyond 64 bits": {"links": {"nvlink_state": [[2**64]]}},
    "an exit status that is none": {"ran": {"x": wire.Ran(exit=2**31)}},
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_part_beyond_all_bounds_is_refused(case: str) -> None:
    fields = {"name": "disks", **REFUSED[case]}
    with pytest.raises(ParseError):
        parse(wire.encode(wire.Part(seq=1, mono=1.0, wall=1.0, **fields)))


def strings(value: Any) -> list[str]:
    """Every string of a part, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return [value.status, value.out, value.err] if isinstance(value, wire.Ran) else []


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="a\n\t\r\x00\x1b[]0;m\x07\x9b\u202e\u200b\ud7ffé", max_size=12))
def test_no_string_of_a_part_holds_more_than_lines_and_columns(evil: str) -> None:
    message = parse(
        wire.encode(
            wire.Part(
                seq=1, mono=1.0, wall=1.0, name="host", files={evil: evil}, failed={evil: evil},
                ran={evil: wire.Ran(evil, 0, evil, evil)}, words={evil: evil, f"{evil}s": [evil]},
            )
        )
    )  # fmt: skip
    assert isinstance(message, wire.Part)
    kept = [*message.files.values(), *(text for ran in message.ran.values() for text in (ran.out, ran.err))]
    for text in strings({**message.files, **message.failed, **message.ran, **message.words}):
        assert (text.replace("\n", "").replace("\t", "") if text in kept else text).isprintable()
