"""What the probe reads rarely: groups of files and commands, in a thread that may get stuck."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.collect import payload, watchlist
from stethoscope.model import wire
from tests.probe.running import group_of, interpreters, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Start = Callable[..., RunningProbe]


class Watched:
    """A probe that got a `watch` line with groups of the test's own."""

    def __init__(self, probe: RunningProbe, groups: list[Any], *, started: bool = False) -> None:
        self.probe = probe
        if not started:
            probe.until(lambda message: isinstance(message, wire.Full))
        # The parts that do it come with the console's own line.
        probe.write(payload.line_of(groups))

    def part(self, name: str, *, whole: bool = True, patience_s: float = 20.0) -> wire.Part:
        """Return the next part of a group."""
        found = self.probe.until(
            lambda message: isinstance(message, wire.Part) and message.name == name and not (whole and message.same),
            patience_s,
        )
        assert isinstance(found, wire.Part)
        return found


@pytest.fixture
def watch(start: Start, tree: Tree, tmp_path: Path) -> Callable[..., Watched]:
    """Return a function that starts a probe on the tree with groups to watch; commands come from `tmp_path`/tools."""
    (tmp_path / "tools").mkdir()

    def begin(*groups: Any, path: str = "/usr/bin:/bin", **environment: str) -> Watched:
        tools = f"{tmp_path / 'tools'}:{path}"
        return Watched(start({"STETHOSCOPE_ROOT": str(tree.root), **environment}, path=tools), list(groups))

    return begin


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that puts a program of sh on the probe's PATH."""

    def put(name: str, text: str) -> Path:
        file = tmp_path / "tools" / name
        file.write_text("#!/bin/sh\n" + text + "\n")
        file.chmod(0o755)
        return file

    return put


def group(name: str, *read: list[str], s: float = 30, run: list[Any] | None = None) -> dict[str, Any]:
    """Return a group of a control line."""
    return {"name": name, "s": s, "read": list(read), "run": run or []}


def running(mark: str) -> list[int]:
    """Return the processes that have `mark` among their arguments, zombies apart."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("interpreter", interpreters(), ids=lambda path: Path(path).name)
def test_every_python_reads_files_and_runs_commands(interpreter: str, start: Start, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "python3").symlink_to(interpreter)
    tree.put("proc/vmstat", "nr_free_pages 5\noom_kill 3\n")
    tree.put("sys/block/sda/size", "100\n")
    tree.put("sys/block/sdb/size", "200\n")
    tree.put("proc/77/stat", "77 (a) b) c) D 1 77 0\n")
    tree.put("proc/77/wchan", "io_schedule")
    watched = Watched(
        start({"STETHOSCOPE_ROOT": str(tree.root)}, path=f"{tmp_path / 'tools'}:/usr/bin:/bin"),
        [
            group("a", ["/sys/block/*/size", ""], ["/proc/vmstat", "only ^oom_kill "], ["/proc/none", ""]),
            group("b", ["/proc", "tasks"], run=[{"id": "echo", "argv": ["printf", "%s", "a\n\tb"]}]),
        ],
    )
    first = watched.part("a")
    assert (first.s, first.same) == (30, False)
    assert first.files == {
        "/sys/block/sda/size": "100\n",
        "/sys/block/sdb/size": "200\n",
        "/proc/vmstat": "oom_kill 3\n",
    }
    assert first.failed == {"/proc/none": "unsupported"}
    second = watched.part("b")
    user = Path("/etc/passwd").owner()
    assert second.files == {"tasks": f"77\tD\t1\t{user}\ta) b) c\tio_schedule\n"}
    assert second.ran == {"echo": wire.Ran(out="a\n\tb")}
    watched.probe.close_input()
    assert watched.probe.ended_within(2)
    assert watched.probe.errors() == b""


def test_the_manifest_can_be_watched_as_it_is(start: Start, tree: Tree) -> None:
    watched = Watched(start({"STETHOSCOPE_ROOT": str(tree.root)}), watchlist.watch_groups(sudo=False))
    seen = []
    for message in watched.probe.messages():
        assert not (isinstance(message, wire.Full | wire.Delta) and "watch" in (message.notes or {}))
        if isinstance(message, wire.Part):
            seen.append(message.name)
            if message.name == "bmc":
                break
    groups = [group["name"] for group in watchlist.watch_groups(sudo=False) if group["name"] != "gpu"]
    assert [name for name in dict.fromkeys(seen) if name != "gpu"] == groups
    sequence = [wire.decode(line).seq for line in watched.probe.raw[1:]]
    assert sequence == list(range(len(sequence)))


def test_what_did_not_change_is_said_to_be_the_same(watch: Callable[..., Watched], tree: Tree) -> None:
    tree.put("proc/vmstat", "oom_kill 3\n")
    watched = watch(group("host", ["/proc/vmstat", ""], s=1))
    first = watched.part("host")
    second = watched.part("host", whole=False)
    assert (second.same, second.files, second.s) == (True, {}, 1)
    assert 0.8 < second.mono - first.mono < 10
    assert abs((second.wall - first.wall) - (second.mono - first.mono)) < 0.5
    tree.put("proc/vmstat", "oom_kill 4\n")
    assert watched.part("host").files == {"/proc/vmstat": "oom_kill 4\n"}
    watched.probe.send(do="full")
    assert watched.part("host").files == {"/proc/vmstat": "oom_kill 4\n"}


def test_a_later_line_replaces_the_first(watch: Callable[..., Watched], tree: Tree) -> None:
    tree.put("proc/vmstat", "oom_kill 3\n")
    watched = watch(group("one", ["/proc/vmstat", ""], s=1))
    watched.part("one")
    watched.probe.send(do="watch", groups=wire.dense([group("two", ["/proc/vmstat", ""], s=1)]))
    watched.part("two")
    # One may have been on its way.
    late = [watched.probe.until(lambda message: isinstance(message, wire.Part)) for _ in range(4)]
    assert {part.name for part in late[1:]} == {"two"}


def test_broken_entries_cost_only_themselves(watch: Callable[..., Watched], tree: Tree) -> None:
    tree.put("proc/vmstat", "oom_kill 3\n")
    watched = watch(group("first", ["/proc/vmstat", ""]))
    watched.part("first")
    good = group("good", ["/proc/vmstat", "only ("], ["/proc/loadavg", "what"], ["/proc/vmstat", ""])
    runs = [[], ["x", "", 10, 0], 5, ["ok", "echo 1", 10, 0, ""]]
    groups = [7, ["no interval"], ["negative", -1, {}], ["lists", 30, 7], [*wire.dense([good])[0], *runs]]
    watched.probe.send(do="watch", groups=groups)
    part = watched.part("good")
    assert part.files == {"/proc/vmstat": "oom_kill 3\n"}
    assert part.failed == {"/proc/vmstat": "error", "/proc/loadavg": "error"}
    assert part.ran == {"ok": wire.Ran(out="1\n")}


def test_what_is_kept_of_a_file(watch: Callable[..., Watched], tree: Tree) -> None:
    tree.put("sys/aer", "RxErr 0\nBadTLP 10\nTOTAL_ERR_COR 3\n\nlast 0\n")
    for cpu, governor in enumerate(["performance", "powersave", "performance", "a  b\nc"]):
        tree.put(f"sys/cpu{cpu}/governor", governor + "\n")
    (tree.root / "sys/pci").mkdir()
    (tree.root / "sys/pci/0000:01:00.0").symlink_to("../devices/pci0000:00/0000:01:00.0")
    tree.put("sys/devices/pci0000:00/0000:01:00.0/class", "x")
    (tree.root / "sys/dangling").symlink_to("/opt/none")
    (tree.root / "sys/binary").write_bytes(b"\xff\x00\x1b[31m" + bytes(range(256)))
    (tree.root / "sys/large").write_bytes(b"x" * 1_000_000)
    watched = watch(
        group("a", ["/sys/aer", "nonzero"], ["/sys/cpu*/governor", "count"], ["/sys/nothing*", "count"],
              ["/sys/pci/0*", "link"], ["/sys/dangling", "link"], ["/sys/gone", "link"], ["/sys/binary", ""],
              ["/sys/large", ""], ["/sys/aer", "only ^$"], ["/sys/devices", ""])
    )  # fmt: skip
    part = watched.part("a")
    binary = part.files.pop("/sys/binary")
    assert binary.startswith("\ufffd\0\x1b[31m\0\x01")
    assert part.files.pop("/sys/large") == "x" * 262144
    assert part.files == {
        "/sys/aer": "",
        "/sys/cpu*/governor": "1 a b c\n2 performance\n1 powersave\n",
        "/sys/pci/0*".replace("0*", "0000:01:00.0"): "/sys/devices/pci0000:00/0000:01:00.0",
        "/sys/dangling": "/opt/none",
    }
    assert part.failed == {"/sys/gone": "unsupported", "/sys/devices": "error"}
    watched.probe.send(do="watch", groups=wire.dense([group("b", ["/sys/aer", "nonzero"])]))
    assert watched.part("b").files == {"/sys/aer": "BadTLP 10\nTOTAL_ERR_COR 3\n"}


def test_a_line_is_never_longer_than_the_console_takes(watch: Callable[..., Watched], tree: Tree) -> None:
    for number in range(6):
        (tree.root / f"sys/hostile{number}").write_bytes(b"\xff" * (30_000 * (number + 1)))
    watched = watch(group("a", ["/sys/hostile*", ""]))
    part = watched.part("a")
    assert len(watched.probe.raw[-1]) < 1_000_000
    assert part.failed.keys() | part.files.keys() == {f"/sys/hostile{number}" for number in range(6)}
    assert part.failed == {f"/sys/hostile{number}": "error" for number in (2, 3, 4, 5)}


def test_a_file_that_never_returns_costs_only_what_is_read_rarely(watch: Callable[..., Watched], tree: Tree) -> None:
    os.mkfifo(tree.root / "sys/fifo")
    tree.put("proc/vmstat", "oom_kill 3\n")
    watched = watch(group("good", ["/proc/vmstat", ""], s=1), group("stuck", ["/sys/fifo", ""]))
    watched.part("good")
    frames = 0
    for message in watched.probe.messages(30):
        if isinstance(message, wire.Delta):
            frames += 1
            if message.notes and "watch" in message.notes:
                assert message.notes["watch"] == "hung: /sys/fifo for 5 s"
                break
    assert frames > 10
    # A later line is obeyed once the read comes back.
    with (tree.root / "sys/fifo").open("w") as writer:
        writer.write("late")
    assert watched.part("stuck").files == {"/sys/fifo": "late"}
    watched.probe.until(
        lambda message: isinstance(message, wire.Delta) and message.notes is not None and "watch" not in message.notes
    )


@pytest.mark.parametrize("how", ["eof", "stop", "SIGTERM"])
def test_nothing_is_left_of_a_stuck_thread(how: str, watch: Callable[..., Watched], tree: Tree) -> None:
    os.mkfifo(tree.root / "sys/fifo")
    watched = watch(group("stuck", ["/sys/fifo", ""]))
    for _ in range(5):
        watched.probe.until(lambda message: isinstance(message, wire.Delta))
    if how == "eof":
        watched.probe.close_input()
    elif how == "stop":
        watched.probe.send(do="stop")
    else:
        os.kill(watched.probe.process.pid, signal.SIGTERM)
    assert watched.probe.ended_within(2)
    assert group_of(watched.probe.process.pid) == []


def test_what_becomes_of_a_command(
    watch: Callable[..., Watched], tool: Callable[[str, str], Path], tmp_path: Path
) -> None:
    mark = f"--mark={tmp_path}"
    tool("fails", 'echo out; echo err >&2; cat; echo "$LC_ALL"; exit 3')
    tool("dies", "kill -9 $$")
    tool(
        "floods",
        'while :; do echo "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"; done',
    )
    tool("sleeps", "echo began; sleep 100")
    tool("stays", "trap '' TERM; echo began; while :; do sleep 1; done")
    tool("leaves", "sleep 100 & echo left")
    (tmp_path / "tools" / "noexec").write_text("x")
    names = ["fails", "dies", "floods", "sleeps", "stays", "leaves"]
    runs = [{"id": name, "argv": [name, mark], "limit": 1} for name in names]
    watched = watch(
        group("a", run=[*runs, {"id": "none", "argv": ["no-such-command"]}, {"id": "no", "argv": ["noexec"]}])
    )
    ran = watched.part("a", patience_s=40).ran
    assert ran["fails"] == wire.Ran(exit=3, out="out\nC\n", err="err\n")
    assert ran["dies"] == wire.Ran(exit=137)
    assert ran["floods"].status == "timeout"
    assert len(ran["floods"].out) == 262144
    assert ran["sleeps"] == wire.Ran("timeout", out="began\n")
    assert ran["stays"] == wire.Ran("timeout", out="began\n")
    assert ran["leaves"] == wire.Ran(out="left\n")
    assert ran["none"] == ran["no"] == wire.Ran("absent")
    assert wait_for(lambda: not running(mark), 2)


def test_a_command_runs_for_every_file_that_is_found(
    watch: Callable[..., Watched], tool: Callable[[str, str], Path], tree: Tree
) -> None:
    for name in ("sda", "sdb", "nvme0", "nvme0n1", "nvme12"):
        tree.put(f"dev/{name}", "")
    tool("smart", 'echo "$@"')
    watched = watch(
        group(
            "a",
            run=[{"id": "smart", "argv": ["smart", "-a"], "each": "/dev/{sd[a-z],nvme[0-9],nvme[0-9][0-9]}"}],
        )
    )
    ran = watched.part("a").ran
    assert {name: said.out for name, said in ran.items()} == {
        "smart sda": "-a /dev/sda\n",
        "smart sdb": "-a /dev/sdb\n",
        "smart nvme0": "-a /dev/nvme0\n",
        "smart nvme12": "-a /dev/nvme12\n",
    }


def test_commands_end_with_the_probe(
    watch: Callable[..., Watched], tool: Callable[[str, str], Path], tmp_path: Path
) -> None:
    mark = f"--mark={tmp_path}"
    tool("stays", "trap '' TERM HUP; while :; do sleep 1; done")
    watched = watch(group("a", run=[{"id": "stays", "argv": ["stays", mark], "limit": 60}]))
    assert wait_for(lambda: running(mark), 10)
    began = time.monotonic()
    watched.probe.close_input()
    assert watched.probe.ended_within(2)
    assert time.monotonic() - began < 2
    assert wait_for(lambda: not running(mark), 1)


def test_root_is_asked_for_only_where_that_is_allowed_and_needed(
    watch: Callable[..., Watched], tool: Callable[[str, str], Path]
) -> None:
    tool("sudo", 'echo "sudo $@"')
    tool("bmc", 'echo "bmc $@"')
    runs = [{"id": "bmc", "argv": ["bmc", "info"], "sudo": 1}, {"id": "none", "argv": ["no-such-tool"], "sudo": 1}]
    ran = watch(group("a", run=runs)).part("a").ran
    # As root nothing is asked for.
    assert ran["bmc"].out == ("bmc info\n" if os.geteuid() == 0 else "sudo -n bmc info\n")
    assert ran["none"].status == "absent"


def test_a_command_that_cannot_be_ended_is_not_started_again(
    part: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands = part("commands")
    monkeypatch.setattr(commands, "strike", lambda pid, number: None)
    began = tmp_path / "began"
    arguments = ["sh", "-c", f"echo x >>{began}; exec sleep 30"]
    assert commands.run(arguments, 0.5) == {"status": "hung"}
    pid = commands.here[tuple(arguments)]
    assert commands.run(arguments, 0.5) == {"status": "hung"}
    assert began.read_text() == "x\n"
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: commands.run(["true"], 1) == {} and commands.processes.collect(pid, 0) is not None, 5)
    commands.here.pop(tuple(arguments))
    monkeypatch.undo()


def test_a_file_that_comes_in_pieces_is_read_to_its_end(
    part: Callable[[str], Any], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = part("keep")
    lines = [f"{number} line\n" for number in range(2000)]
    tree.put("proc/diskstats", "".join(lines))
    real = os.read
    # As the kernel does with files of many records: as many as fit into a page.
    monkeypatch.setattr(keep.files.os, "read", lambda descriptor, _size: real(descriptor, 4090))
    found: dict[str, dict[str, str]] = {"files": {}, "failed": {}}
    keep.read("/proc/diskstats", "only 9 line$", found, lambda _path: None)
    assert found["files"]["/proc/diskstats"] == "".join(line for line in lines if line.endswith("9 line\n"))


def test_tasks_leave_the_kernels_own_threads_out(
    part: Callable[[str], Any], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = part("keep")
    monkeypatch.setattr(keep, "users", {os.getuid(): "who"})
    monkeypatch.setattr(keep, "kernel_threads", set())
    tree.put("proc/2/stat", "2 (kthreadd) D 0 0")
    tree.put("proc/30/stat", "30 (kworker/0:1) D 2 0")
    tree.put("proc/31/stat", "31 (evil\n\tname) Z 1 0")
    tree.put("proc/32/stat", "32 (fine) S 1 0")
    tree.put("proc/33/stat", "broken")
    tree.put("proc/34/nothing", "")
    assert keep.tasks("/proc", None) == "31\tZ\t1\twho\tevil name\t\n"
    assert keep.kernel_threads == {"2", "30"}
    # Theirs are not read again.
    tree.put("proc/30/stat", "30 (other) D 1 0")
    monkeypatch.setattr(keep, "known", {})
    assert keep.tasks("/proc", None) == "31\tZ\t1\twho\tevil name\t\n"


def test_looking_for_tasks_takes_a_bounded_share_of_the_time(
    part: Callable[[str], Any], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = part("keep")
    monkeypatch.setattr(keep, "users", {os.getuid(): "who"})
    monkeypatch.setattr(keep, "known", {})
    tree.put("proc/31/stat", "31 (a) Z 1 0")
    now = iter([100.0, 100.002, 119.9, 120.1, 121.0, 150.0, 240.9, 241.1, 241.2])
    monkeypatch.setattr(keep.time, "monotonic", lambda: next(now))
    found = keep.tasks("/proc", None)
    assert found == "31\tZ\t1\twho\ta\t\n"
    tree.put("proc/31/stat", "31 (a) S 1 0")
    # 2 ms of work for 20 s; later 0.9 s, which is once in two minutes.
    assert keep.tasks("/proc", None) == found
    assert keep.tasks("/proc", None) == ""
    tree.put("proc/31/stat", "31 (a) D 1 0")
    assert keep.tasks("/proc", None) == ""
    assert keep.tasks("/proc", None) == ""
    assert keep.tasks("/proc", None) == "31\tD\t1\twho\ta\t\n"


def test_what_the_driver_says_comes_with_the_processes_of_its_gpus(
    start: Start, tree: Tree, fake_nvml: FakeNvml
) -> None:
    probe = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})
    probe.until(lambda message: isinstance(message, wire.Full) and message.gpus)
    first = Watched(probe, [{"name": "gpu", "s": 5}], started=True).part("gpu", whole=True)
    assert len(first.gpu["gpu_pstate"]) == 8
    pids = {app[1] for app in first.apps}
    for pid in pids:
        tree.put(f"proc/{pid}/comm", f"train{pid}\n")
        tree.put(f"proc/{pid}/stat", f"{pid} (train{pid}) D 1\n")
        tree.put(f"proc/{pid}/cgroup", f"0::/system.slice/slurmstepd.scope/job_{pid}/step_0\n")
    if pids:
        assert set(first.failed) == {f"/proc/{pid}/{name}" for pid in pids for name in ("comm", "stat", "cgroup")}
        later = probe.until(lambda message: isinstance(message, wire.Part) and message.files, 30)
        assert later.files[f"/proc/{min(pids)}/comm"] == f"train{min(pids)}\n"
        assert set(later.files) == {
            f"/proc/{pid}/{name}" for pid in pids for name in ("comm", "stat", "cgroup", "user")
        }
    # A console that asks again gets it again.
    probe.send(do="full")
    again = probe.until(lambda message: isinstance(message, wire.Part) and message.name == "gpu" and not message.same)
    assert again.gpu.keys() == first.gpu.keys()


def test_the_driver_is_heard_while_a_file_does_not_come_back(start: Start, tree: Tree, fake_nvml: FakeNvml) -> None:
    os.mkfifo(tree.root / "sys/fifo")
    probe = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})
    probe.until(lambda message: isinstance(message, wire.Full) and message.gpus)
    groups = [group("stuck", ["/sys/fifo", ""]), {"name": "gpu", "s": 2}]
    watched = Watched(probe, groups, started=True)
    probe.note("watch", "hung: /sys/fifo for 5 s")
    part = watched.part("gpu")
    assert len(part.gpu["gpu_pstate"]) == 8
    assert not part.files


def test_statistics_of_interfaces(part: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    keep = part("keep")
    monkeypatch.setattr(keep, "counted", {})
    names = [b"rx_packets", b"rx_discards_phy", b"tx_prio3_pause", b"x" * 32]
    calls = []

    def ioctl(_socket: object, request: int, argument: bytes) -> bytes:
        import ctypes

        assert request == 0x8946
        assert argument[:16] == b"eth7".ljust(16, b"\0")
        address = int.from_bytes(argument[16:24], "little")
        command = ctypes.c_uint32.from_address(address).value
        calls.append(command)
        if command == 0x37:
            assert ctypes.c_uint64.from_address(address + 8).value == 2
            ctypes.c_uint32.from_address(address + 16).value = len(names)
        elif command == 0x1B:
            assert (ctypes.c_uint32 * 2).from_address(address + 4)[:] == [1, len(names)]
            ctypes.memmove(address + 12, b"".join(name.ljust(32, b"\0") for name in names), 32 * len(names))
        else:
            (ctypes.c_uint64 * len(names)).from_address(address + 8)[:] = [1, 2**64 - 1, 3, 4]
        return argument

    monkeypatch.setattr(keep.fcntl, "ioctl", ioctl)
    wanted = keep.re.compile(r"^(rx_discards_phy|tx_prio\d_pause)$")
    assert keep.ethtool("/sys/class/net/eth7", wanted) == f"rx_discards_phy {2**64 - 1}\ntx_prio3_pause 3\n"
    assert keep.ethtool("/sys/class/net/eth7", wanted) == f"rx_discards_phy {2**64 - 1}\ntx_prio3_pause 3\n"
    # Thousands of names are read once.
    assert calls == [0x37, 0x1B, 0x1D, 0x37, 0x1D]
