"""What the probe in sh reads rarely, in every shell that nodes have: the same facts as from the probe in Python."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope import paths
from stethoscope.collect import payload, shell, shgroups
from stethoscope.model import wire
from stethoscope.model.facts import GpuProcess
from stethoscope.parse.parts import read_part
from stethoscope.parse.stream import ParseError
from stethoscope.specs.probes import Read, Run, Watch, load_manifest
from tests import needs
from tests.probe.fake_smi import FIELDS, FakeSmi, h100, none_is_left
from tests.probe.running import wait_for
from tests.probe.shells import SHELLS, ShellProbe, tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Begin = Callable[..., "Rarely"]

OTHER_TOOLS = ("readlink", "ls", "getent")
COMMANDS = {
    "df": """case $* in
*-i*) printf 'Filesystem Type Inodes IUsed IFree IUse%% Mounted on\\n/dev/nvme0n1p2 ext4 1000 10 990 1%% /\\n' ;;
*-PklT*) printf 'Filesystem Type 1024-blocks Used Available Capacity Mounted on\\n'
printf '/dev/nvme0n1p2 ext4 1000000 400000 600000 40%% /\\n' ;;
*) echo 'df: no file systems processed' >&2; exit 1 ;;
esac""",
    "chronyc": "echo 'A29FC87B,162.159.200.123,4,1773454400.1,-0.000006747,0.1,0.2,-9.1,0.0,0.5,0.02,0.1,64.4,Normal'",
    "timedatectl": "printf 'Timezone=UTC\\nNTP=yes\\nNTPSynchronized=yes\\n'",
    "systemctl": "printf 'Id=nvidia-fabricmanager.service\\nLoadState=loaded\\nActiveState=active\\n\\n"
    "Id=nvidia-persistenced.service\\nLoadState=loaded\\nActiveState=failed\\n'",
    "ipmitool": "echo 'Firmware Revision         : 1.22'; echo 'no SDR' >&2",
    "smartctl": """echo '{"smart_status":{"passed":true},"temperature":{"current":30},'
echo "\\"device\\":{\\"name\\":\\"$3\\"},\\"power_on_time\\":{\\"hours\\":77}}"; exit 4""",
}
RARE = {
    "clocks.mem": "2619",
    "clocks.max.sm": "1980",
    "power.default_limit": "700.00",
    "pstate": "P0",
    "persistence_mode": "Enabled",
    "mig.mode.current": "Disabled",
    "ecc.mode.current": "Enabled",
    "vbios_version": "96.00.74.00.01",
    "driver_version": "590.48.01",
    "pcie.link.gen.current": "5",
    "pcie.link.gen.max": "5",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
    "clocks_event_reasons_counters.sw_power_cap": "123456",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "0",
    "ecc.errors.corrected.volatile.dram": "2",
    "ecc.errors.uncorrected.aggregate.sram": "0",
    "retired_pages.pending": "[N/A]",
    "remapped_rows.correctable": "1",
    "remapped_rows.uncorrectable": "0",
    "remapped_rows.pending": "No",
    "remapped_rows.failure": "No",
    "fabric.state": "Completed",
    "fabric.status": "Success",
    "gpu_recovery_action": "None",
}


class Rarely:
    """A probe in sh that was told what to read rarely."""

    def __init__(self, probe: ShellProbe, line: bytes) -> None:
        self.probe = probe
        probe.full()
        probe.send(line)

    def part(self, name: str, wanted: Callable[[wire.Part], Any] = bool, patience_s: float = 20.0) -> wire.Part:
        """Return the next part of a group that is wanted."""
        found: wire.Part = self.probe.until(
            lambda message: (
                isinstance(message, wire.Part) and message.name == name and (wanted is bool or wanted(message))
            ),
            patience_s,
        )
        return found


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str, str], None]:
    """Return a function that makes a program of sh which probes find."""
    (tmp_path / "own").mkdir()

    def put(name: str, text: str) -> None:
        file = tmp_path / "own" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    return put


@pytest.fixture
def begin(tmp_path: Path, tree: Tree, tool: Callable[[str, str], None]) -> Iterator[Begin]:
    """Yield a function that starts a probe in a shell and tells it what to read; ended afterwards."""
    running: list[ShellProbe] = []
    wait_for(lambda: none_is_left(tmp_path.parent), 10)

    def start(*groups: Watch, name: str = "dash", **options: Any) -> Rarely:
        own = tools(tmp_path / f"tools{len(running)}", name)
        for other in OTHER_TOOLS:
            (own / other).symlink_to(needs.tool("busybox" if name == "busybox" and other != "getent" else other))
        path = f"{tmp_path / 'smi'}:{tmp_path / 'own'}:{own}"
        running.append(ShellProbe(name, path, tree.root, tmp_path, **options))
        functions = shgroups.functions(groups or None, sudo=False)
        return Rarely(running[-1], shell.watch_line_of(functions))

    yield start
    for probe in running:
        probe.stop()


def group(name: str, *read: tuple[str, str], every_s: float = 1, run: list[Run] | None = None) -> Watch:
    """Return a group of a manifest."""
    return Watch(name, name, every_s, "medium", [Read(*entry) for entry in read], run or [])


def furnished(tree: Tree) -> None:
    """Make the tree one in which every group finds something, and most something unusual."""
    for address in ("0001:10:05.0", "0001:11:05.0"):
        tree.pci_device("nvidia", address)
    tree.pci_device("mlx5_core", "0002:10:05.0")
    real = "sys/devices/pci0001:11/0001:11:00.0/0001:11:05.0"
    assert (tree.root / real).is_dir()
    tree.put(f"{real}/current_link_width", "8\n")
    tree.put(f"{real}/aer_dev_correctable", "RxErr 4\nBadTLP 0\nTOTAL_ERR_COR 4\n")
    (tree.root / f"{real}/max_link_speed").unlink()
    tree.put("proc/diskstats", "   8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n   7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n")
    for name in ("sda", "nvme0n1"):
        tree.put(f"sys/block/{name}/device/model", f"{name} of 4 TB\n")
        tree.put(f"sys/block/{name}/size", "7814037168\n")
        tree.put(f"sys/block/{name}/queue/rotational", "0\n")
    tree.put("sys/block/nvme0n1/device/hwmon3/temp1_input", "38850\n")
    tree.put("dev/sda", "")
    tree.put("dev/nvme0", "")
    tree.put(
        "proc/self/mountinfo", "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n23 22 0:5 / /sys ro - sysfs s ro\n"
    )
    for name, state in (("eth0", "up"), ("eth1", "down")):
        tree.link(f"sys/class/net/{name}/device", "sys/devices/pci0000:4e/0000:4f:00.0")
        for file, text in (("operstate", state), ("mtu", "9000"), ("carrier_changes", "2")):
            tree.put(f"sys/class/net/{name}/{file}", f"{text}\n")
    tree.put("sys/class/net/eth0/speed", "400000\n")
    tree.put("sys/class/net/lo/mtu", "65536\n")
    tree.put("proc/net/snmp", "Ip: 1 2\nTcp: A RetransSegs\nTcp: 1 77\n")
    tree.put("proc/net/dev", "head\n  eth0: 10 1 2 3 0 0 0 0 20 1 4 5 0 0 0 0\n")
    tree.put("proc/vmstat", "pgfault 1\noom_kill 3\n")
    tree.put("proc/meminfo", "MemTotal: 5 kB\nMemAvailable: 3 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB\n")
    tree.put("proc/sys/fs/file-nr", "1024\t0\t9223372036854775807\n")
    tree.put("sys/devices/system/edac/mc/mc0/ce_count", "5\n")
    tree.put("sys/devices/system/edac/mc/mc0/ue_count", "0\n")
    tree.put("proc/77/stat", "77 (a) b) c) D 1 77 0\n")
    tree.put("proc/77/wchan", "nvidia_close")
    tree.put("proc/78/stat", "78 (of the kernel) D 2 0 0\n")
    for cpu in range(4):
        governor = "powersave" if cpu == 3 else "performance"
        tree.put(f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor", f"{governor}\n")
    tree.put("proc/sys/kernel/numa_balancing", "1\n")
    tree.put(
        "proc/self/limits", "Limit Soft Hard Units\nMax locked memory         unlimited            unlimited   bytes\n"
    )
    tree.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    tree.put("proc/modules", "ext4 1 0 - Live 0x0\n")
    tree.put("proc/version", "Linux version 6.8.0 (x)\n")
    tree.put("proc/cmdline", "root=/dev/sda quiet\n")
    tree.put("proc/stat", (tree.root / "proc/stat").read_text() + "btime 1773450000\n")
    tree.put("etc/os-release", 'NAME=x\nPRETTY_NAME="Ubuntu 24.04"\n')
    tree.put("sys/class/infiniband/mlx5_0/fw_ver", "28.39.3004\n")
    tree.put("usr/local/cuda-12.8/version.json", "{}\n")
    tree.link("usr/local/cuda", "usr/local/cuda-12.8")
    tree.put("usr/lib64/libnccl.so.2.25.1", "")
    tree.link("usr/lib64/libnccl.so.2", "usr/lib64/libnccl.so.2.25.1")


@pytest.mark.parametrize("name", SHELLS)
def test_both_probes_give_the_same_facts(
    name: str,
    begin: Begin,
    start: Callable[..., RunningProbe],
    tree: Tree,
    tool: Callable[[str, str], None],
    tmp_path: Path,
) -> None:
    furnished(tree)
    for command, text in COMMANDS.items():
        tool(command, text)
    names = {group.id for group in load_manifest().watch} - {"gpu"}

    def parts(until: Callable[..., Any]) -> dict[str, wire.Part]:
        found: dict[str, wire.Part] = {}
        while found.keys() != names:
            part = until(lambda message: isinstance(message, wire.Part) and message.name in names)
            found.setdefault(part.name, part)
        return found

    sh = parts(begin(name=name).probe.until)
    python = start({"STETHOSCOPE_ROOT": str(tree.root)}, path=f"{tmp_path / 'own'}:/usr/bin:/bin")
    python.until(lambda message: isinstance(message, wire.Full))
    python.write(payload.watch_line(False))
    expected = parts(python.until)
    for group_name in sorted(names):
        if group_name == "net":
            # Python asks the kernel itself what adapters count; these here are none that the kernel knows.
            expected["net"].files.update(
                {path: text for path, text in sh["net"].files.items() if "/infiniband/" in path}
            )
        assert read_part(sh[group_name]) == read_part(expected[group_name]), group_name
    assert (sh["smart"].s, sh["disks"].s) == (120, 30)
    assert sh["smart"].ran["smart sda"] == expected["smart"].ran["smart sda"]
    assert sh["identity"].ran == {"bmc": wire.Ran("ok", 0, "Firmware Revision         : 1.22\n", "no SDR")}
    assert sh["clock"].ran["ntpq"] == wire.Ran("absent")
    assert sh["host"].files["tasks"] == f"77\tD\t1\t{getpass.getuser()}\ta) b) c\tnvidia_close\n"
    assert sh["tuning"].files["/proc/modules"] == ""


@pytest.mark.parametrize("name", SHELLS)
def test_what_did_not_change_is_said_to_be_the_same(name: str, begin: Begin, tree: Tree) -> None:
    tree.put("proc/a", "1\n")
    rarely = begin(group("a", ("/proc/a", "")), name=name)
    first = rarely.part("a")
    assert (first.same, first.files) == (False, {"/proc/a": "1\n"})
    assert rarely.part("a").same
    tree.put("proc/a", "2\n")
    assert rarely.part("a", lambda part: not part.same).files == {"/proc/a": "2\n"}
    rarely.part("a", lambda part: part.same)
    rarely.probe.send(b'{"do":"full"}')
    assert rarely.part("a", lambda part: not part.same, 2).files == {"/proc/a": "2\n"}


def test_where_there_are_many_processes_they_are_looked_at_every_fourth_time(begin: Begin, tree: Tree) -> None:
    for pid in range(1000, 2100):
        tree.put(f"proc/{pid}/stat", f"{pid} (x) S 1 {pid} 0\n")
    tree.put("proc/77/stat", "77 (x) Z 1 77 0\n")
    rarely = begin(group("host", ("/proc", "tasks"), ("/proc/a", "")))
    assert rarely.part("host").files["tasks"].startswith("77\tZ\t1\t")
    (tree.root / "proc/77/stat").unlink()
    tree.put("proc/a", "1\n")
    part = rarely.part("host", lambda part: "/proc/a" in part.files)
    assert part.files["tasks"].startswith("77\tZ\t1\t")
    part = rarely.part("host", lambda part: not part.same)
    assert part.files["tasks"] == ""


@pytest.mark.parametrize("name", SHELLS)
def test_what_sudo_refused_is_not_asked_again(
    name: str, begin: Begin, tool: Callable[[str, str], None], tree: Tree, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    tool("sudo", f"echo x >>{asked}; echo 'sudo: a password is required' >&2; exit 1")
    runs = [Run(id=word, argv=["sudo", "-n", word]) for word in ("bmc", "smart")]
    rarely = begin(group("host", ("/proc/a", ""), run=runs), name=name)
    refused = wire.Ran(exit=1, err="sudo: a password is required")
    assert rarely.part("host").ran == {"bmc": refused, "smart": refused}
    tree.put("proc/a", "1\n")
    assert rarely.part("host", lambda part: "/proc/a" in part.files).ran == {"bmc": refused, "smart": refused}
    assert asked.read_text() == "x\nx\n"


@pytest.mark.parametrize("name", SHELLS)
def test_root_is_asked_for_only_where_it_is_needed(name: str) -> None:
    script = shell.compact(paths.bundled("probes").joinpath("watch.sh").read_text())
    script += '\nsudo() { :; }\nsudo=\nuse_sudo\necho "<$sudo>"'
    program = [needs.tool(SHELLS[name][0]), *SHELLS[name][1:], "-c", script]
    said = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert said == ("<>\n" if os.getuid() == 0 else "<sudo -n>\n")
    if os.getuid() == 0:
        said = subprocess.run(program, check=True, capture_output=True, text=True, user=65534).stdout
        assert said == "<sudo -n>\n"


@pytest.mark.parametrize("name", SHELLS)
def test_numbers_of_lines_are_in_their_order(name: str, begin: Begin, tree: Tree) -> None:
    tree.put("proc/a", "1\n")
    rarely = begin(*(group(letter, ("/proc/a", "")) for letter in "abcdef"), name=name)
    seen = [rarely.probe.until(lambda message: True).seq for _ in range(60)]
    assert seen == list(range(seen[0], seen[0] + 60))
    rarely.probe.send(b'{"do":"stop"}')
    try:
        bye = rarely.probe.until(lambda message: isinstance(message, wire.Bye))
    except ParseError:
        # What was being written is torn, and the farewell stands in it.
        assert b"@bye" in rarely.probe.raw[-1]
    else:
        assert bye.why == "stop"


@pytest.mark.parametrize("name", SHELLS)
def test_a_command_that_hangs_is_ended(name: str, begin: Begin, tool: Callable[[str, str], None]) -> None:
    tool("df", "trap '' TERM\necho first\nwhile :; do sleep 60; done")
    tool("other", "echo out; echo err >&2; exit 3")
    runs = [Run("df", ["df", "-P"], limit_s=1), Run("other", ["other"]), Run("none", ["no-such-tool"])]
    rarely = begin(group("mounts", run=runs), group("quick", ("/proc/stat", "only ^cpu ")), name=name)
    began = time.monotonic()
    frames = []
    while not isinstance(message := rarely.probe.until(lambda message: True), wire.Part):
        frames.append(message)
    assert message.ran == {
        "df": wire.Ran("timeout", out="first\n"),
        "other": wire.Ran("ok", 3, "out\n", "err"),
        "none": wire.Ran("absent"),
    }
    assert 1 < time.monotonic() - began < 5
    # The frames come all the same.
    assert len(frames) >= 4
    assert rarely.part("quick").files["/proc/stat"].startswith("cpu ")


def test_one_that_cannot_be_ended_is_not_started_again(
    begin: Begin, tool: Callable[[str, str], None], tmp_path: Path
) -> None:
    began = tmp_path / "began"
    # What hangs in the driver is never killed.
    tool(
        "nvidia-smi",
        f"case $1 in --query-gpu=x) ;; *) exit 1 ;; esac\necho $$ >>{began}\ntrap '' TERM\nread x <{tmp_path}/fifo",
    )
    os.mkfifo(tmp_path / "fifo")
    rarely = begin(group("a", run=[Run("smi", ["nvidia-smi", "--query-gpu=x"], limit_s=1)]))
    assert rarely.part("a").ran == {"smi": wire.Ran("hung")}
    rarely.part("a", lambda part: part.same)
    (pid,) = map(int, began.read_text().split())
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: len(began.read_text().split()) == 2, 10)
    os.kill(int(began.read_text().split()[1]), signal.SIGKILL)


@pytest.mark.parametrize("name", SHELLS)
def test_a_file_that_never_returns_costs_only_what_is_read_rarely(name: str, begin: Begin, tree: Tree) -> None:
    os.mkfifo(tree.root / "sys/fifo")
    rarely = begin(group("a", ("/sys/fifo", "")), name=name)
    began = time.monotonic()
    frame = rarely.probe.full(lambda frame: "watch" in frame.notes)
    assert frame.notes["watch"] == "hung: a for 0 s"
    assert 4.5 < time.monotonic() - began < 7
    rarely.probe.close_input()
    assert rarely.probe.process.wait(2) == 0
    assert wait_for(lambda: not rarely.probe.processes(), 2)


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("how", ["eof", "TERM", "KILL"])
def test_nothing_is_left(name: str, how: str, begin: Begin, tool: Callable[[str, str], None], tmp_path: Path) -> None:
    tool("slow", f"trap '' TERM\necho x >>{tmp_path}/began\nwhile :; do sleep 60; done")
    rarely = begin(group("a", run=[Run("slow", ["slow"], limit_s=30)]), name=name)
    assert wait_for((tmp_path / "began").exists, 5)
    if how == "eof":
        rarely.probe.close_input()
    else:
        os.kill(rarely.probe.process.pid, getattr(signal, f"SIG{how}"))
        rarely.probe.process.wait(2)
        rarely.probe.close_input()
    assert rarely.probe.process.wait(3) is not None
    assert wait_for(lambda: not rarely.probe.processes(), 3)
    assert rarely.probe.process.stderr is not None
    assert rarely.probe.process.stderr.read() == b""


@pytest.mark.parametrize("name", SHELLS)
def test_gpus_and_their_processes(name: str, begin: Begin, tree: Tree, tmp_path: Path) -> None:
    fake = FakeSmi(tmp_path / "smi")
    rows = [{**h100(index), **RARE} for index in range(2)]
    rows[1] |= {"pcie.link.width.current": "8", "remapped_rows.pending": "Yes", "fabric.state": "In Progress"}
    uuid = rows[1]["uuid"]
    fake.set(
        fields=[*FIELDS, *RARE], gpus=rows, apps=[f"{uuid}, 4020, 71234", f"{uuid}, 4021, [N/A]", "GPU-else, 1, 2"]
    )
    tree.put("proc/4020/comm", "python\n")
    tree.put("proc/4020/stat", "4020 (python) D 1 4020 9 9\n")
    tree.put("proc/4020/cgroup", "0::/system.slice/slurmstepd.scope/job_17/step_0\n")
    rarely = begin(name=name)
    rarely.probe.gpus()
    part = rarely.part("gpu", patience_s=25)
    assert part.s == 60
    facts = read_part(part)
    column = {metric: values[1] for metric, values in facts.gpu.items()}
    assert column == {
        "gpu_mem_clock": 2619,
        "gpu_sm_clock_max": 1980,
        "gpu_power_limit_default": 700.0,
        "gpu_pstate": 0,
        "gpu_persistence_mode": 1,
        "gpu_mig_mode": 0,
        "gpu_ecc_mode": 1,
        "gpu_pcie_link_gen": 5,
        "gpu_pcie_link_gen_max": 5,
        "gpu_pcie_link_width": 8,
        "gpu_pcie_link_width_max": 16,
        "gpu_throttle_time_sw_power_cap": 123456,
        "gpu_throttle_time_hw_thermal": 0,
        "gpu_ecc_corr_volatile_dram": 2,
        "gpu_ecc_uncorr_aggregate_sram": 0,
        "gpu_retired_pages_pending": "unsupported",
        "gpu_remapped_rows_corr": 1,
        "gpu_remapped_rows_uncorr": 0,
        "gpu_row_remap_pending": 1,
        "gpu_row_remap_failure": 0,
        "fabric_state": 2,
        "fabric_status": "waiting",
        "gpu_recovery_action": 0,
        "gpu_process_count": 2,
    }
    assert facts.gpu["gpu_process_count"][0] == 0
    assert facts.gpu["fabric_status"][0] == 0
    assert facts.words == {"driver_version": "590.48.01"}
    assert facts.gpu_words == {"gpu_vbios_version": ("96.00.74.00.01",) * 2}
    assert facts.processes == (
        GpuProcess(4020, 1, 71234.0, "C", "python", getpass.getuser(), "D", slurm_job="17"),
        GpuProcess(4021, 1, None, "C"),
    )
    assert facts.node == {"zombie_gpu_holders": 1}


def test_no_other_process_is_started_beside_a_driver_that_hangs(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shell.script()
    assert text.count("-gt 3000 ]") == 1
    # Half a minute for a driver that has never answered is long for a test.
    monkeypatch.setattr(shell, "script", lambda: text.replace("-gt 3000 ]", "-gt 600 ]"))
    fake = FakeSmi(tmp_path / "smi")
    fake.set(hang=True)
    rarely = begin()
    rarely.part("smart")
    assert wait_for(lambda: len(fake.calls) == 2, 5)
    rarely.probe.full(lambda frame: frame.notes.get("nvml") == "hung", 45)
    assert len(fake.calls) == 2
    fake.set(hang=False)


def test_without_optional_tools(begin: Begin, tree: Tree, tool: Callable[[str, str], None]) -> None:
    for name in ("readlink", "getent"):
        tool(name, "exit 127")
    tree.put("proc/77/stat", "77 (a) Z 1 77 0\n")
    tree.put("usr/lib64/libnccl.so.2.25.1", "")
    tree.link("usr/lib64/libnccl.so.2", "usr/lib64/libnccl.so.2.25.1")
    rarely = begin(group("a", ("/usr/lib64/libnccl.so.2", "link"), ("/proc", "tasks")))
    part = rarely.part("a")
    assert part.files["/usr/lib64/libnccl.so.2"] == "/usr/lib64/libnccl.so.2.25.1"
    assert part.files["tasks"] == f"77\tZ\t1\t{os.getuid()}\ta\t\n"


def test_statistics_of_interfaces(begin: Begin, tool: Callable[[str, str], None]) -> None:
    tool(
        "ethtool", 'printf "NIC statistics:\\n     rx_discards_phy: 5\\n     rx_packets: 9\\n     tx_prio3_pause: 7\\n"'
    )
    part = begin(
        group("net", ("/sys/class/infiniband/*/device/net/*", r"ethtool ^(rx_discards_phy|tx_prio\d_pause)$"))
    ).part("net")
    text = "rx_discards_phy 5\ntx_prio3_pause 7\n"
    assert part.files["/sys/class/infiniband/mlx5_0/device/net/ib0p1"] == text
    assert len(part.files) == 3


@pytest.mark.parametrize("name", SHELLS)
def test_half_a_group_is_not_told(name: str, begin: Begin, tool: Callable[[str, str], None], tree: Tree) -> None:
    tree.put("proc/a", "1\n")
    tree.put("proc/b", "1\n")
    # One that is killed, as by a kernel that is out of memory.
    tool("grep", f'case $* in *proc/b*) kill -KILL $$ ;; esac\nexec {needs.tool("grep")} "$@"')
    rarely = begin(group("b", ("/proc/b", "only 1")), group("a", ("/proc/a", "")), name=name)
    for _ in range(3):
        assert rarely.probe.until(lambda message: isinstance(message, wire.Part)).name == "a"


def test_nothing_is_written(begin: Begin, tree: Tree) -> None:
    def files() -> set[str]:
        return {str(path) for path in tree.root.rglob("*")}

    before = files()
    begin(name="bash").part("smart")
    assert files() == before
