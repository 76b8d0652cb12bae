"""The probe in sh, in every shell that nodes have, on trees of /sys and /proc and a fake nvidia-smi."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.model import wire
from stethoscope.parse import smi
from tests.probe.fake_smi import FIELDS, FakeSmi, h100, none_is_left
from tests.probe.running import wait_for
from tests.probe.shells import SHELLS, ShellProbe, tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Begin = Callable[..., ShellProbe]

SECOND_STAT = """cpu  1400 0 600 8300 340 0 200 160 0 0
cpu0 700 0 300 4150 170 0 100 80 0 0
cpu1 700 0 300 4150 170 0 100 80 0 0
procs_blocked 5
"""


@pytest.fixture
def fake(tmp_path: Path) -> FakeSmi:
    """Return an nvidia-smi of eight H100."""
    return FakeSmi(tmp_path / "smi")


@pytest.fixture
def begin(tmp_path: Path, tree: Tree) -> Iterator[Begin]:
    """Yield a function that starts a probe in a shell, with the fake nvidia-smi if there is one; ended afterwards."""
    running: list[ShellProbe] = []
    wait_for(lambda: none_is_left(tmp_path.parent), 10)

    def start(name: str = "dash", **options: Any) -> ShellProbe:
        own = tools(tmp_path / f"tools{len(running)}", name)
        fake = tmp_path / "smi"
        path = f"{fake}:{own}" if fake.exists() else str(own)
        running.append(ShellProbe(name, path, tree.root, tmp_path, **options))
        return running[-1]

    yield start
    for probe in running:
        probe.stop()


def column(frame: wire.Full, gpu: int) -> dict[str, Any]:
    return {metric: values[gpu] for metric, values in frame.gpu.items()}


@pytest.mark.parametrize("name", SHELLS)
def test_every_shell_gives_every_value(name: str, begin: Begin, fake: FakeSmi, tree: Tree) -> None:
    probe = begin(name)
    hello = next(probe.messages())
    assert isinstance(hello, wire.Hello)
    assert (hello.boot_id, hello.tick_s) == ("6b2d1f0e-0000-4000-8000-000000000001", 0.2)
    first = probe.full()
    assert first.node["cpu_util"] == "waiting"
    assert (first.notes["nvml"], first.node["gpu_count"]) == ("starting", "waiting")
    tree.put("proc/stat", SECOND_STAT)
    frame = probe.full(lambda frame: frame.node["cpu_util"] != "waiting")
    assert frame.node["cpu_util"] == 66.0
    frame = probe.gpus()
    assert [gpu.index for gpu in frame.gpus] == list(range(8))
    assert frame.gpus[1] == wire.GpuIdentity(
        1, "NVIDIA H100 80GB HBM3", "GPU-00000000-0000-0000-0000-000000000001", "0000:1b:00.0"
    )
    assert column(frame, 7) == {
        "gpu_sm_clock": 1980,
        "gpu_util": 100,
        "gpu_power_draw": 632.0,
        "gpu_temp": 59,
        "gpu_temp_margin": 26,
        "gpu_mem_temp": 54,
        "gpu_clocks_event_reasons": 4,
        "gpu_fb_used": 19818,
        "gpu_fb_total": 81559,
        "gpu_mem_copy_util": 11,
        "gpu_power_limit": 700.0,
        "gpu_handle_error": 0,
        **dict.fromkeys(smi.NOT_GIVEN, "unsupported"),
    }
    assert [port.device for port in frame.ports] == ["mlx5_0", "mlx5_2", "mlx5_10"]
    assert frame.port["ib_port_xmit_data"] == [230442669431839] * 3
    assert frame.node["mem_available"] == 925_696
    assert frame.notes == {"traffic": "no Python, using sh"}
    probe.send(b'{"do":"stop"}')
    assert probe.until(lambda message: isinstance(message, wire.Bye)).why == "stop"
    assert probe.process.wait(2) == 0
    assert wait_for(lambda: not probe.processes(), 2)
    assert probe.process.stderr is not None
    assert probe.process.stderr.read() == b""


def comparable(frame: wire.Full) -> list[dict[str, str]]:
    """Return the rows that nvidia-smi prints of GPUs with these values."""
    rows = []
    for position, gpu in enumerate(frame.gpus):
        cells = column(frame, position)
        row = {name: str(cells[metric]) for metric, name in smi.COLUMNS.items()}
        for metric in ("gpu_power_draw", "gpu_power_limit"):
            row[smi.COLUMNS[metric]] = f"{cells[metric]:.2f}"
        rows.append(
            {
                **row,
                "index": str(gpu.index),
                "name": gpu.name,
                "uuid": gpu.uuid,
                "pci.bus_id": "0000" + gpu.pci.upper(),
                "clocks_event_reasons.active": f"0x{cells['gpu_clocks_event_reasons']:016x}",
            }
        )
    return rows


@pytest.mark.parametrize("name", SHELLS)
def test_both_probes_give_the_same_numbers(
    name: str, begin: Begin, start: Callable[..., RunningProbe], fake_nvml: FakeNvml, tree: Tree, tmp_path: Path
) -> None:
    base = "sys/class/infiniband/mlx5_0/ports/1"
    (tree.root / base / "hw_counters/out_of_buffer").unlink()
    tree.put(f"{base}/hw_counters/rnr_nak_retry_err", "N/A (no PMA)\n")
    tree.put(f"{base}/rate", "2.5 Gb/sec (1X SDR)\n")
    tree.put(f"{base}/counters/symbol_error", "")
    tree.put(f"{base}/counters/link_downed", "what\n")
    tree.put("proc/pressure/cpu", "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    (tree.root / "proc/pressure/io").unlink()
    unreadable = tree.root / base / "counters/VL15_dropped"
    unreadable.chmod(0)
    python = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})
    python.until(lambda message: isinstance(message, wire.Full) and message.gpus)
    fake = FakeSmi(tmp_path / "smi")
    fake.set(gpus=comparable(python.full()))
    shell = begin(name)
    shell.full(lambda frame: frame.gpus)
    tree.put("proc/stat", SECOND_STAT)
    moved = shell.full(lambda frame: frame.node["cpu_util"] != "waiting")
    while (expected := python.full()).node["cpu_util"] == "waiting":
        pass
    assert moved.ports == expected.ports
    assert moved.port == expected.port
    assert moved.gpus == expected.gpus
    for metric, values in expected.gpu.items():
        assert moved.gpu[metric] == (["unsupported"] * 8 if metric in smi.NOT_GIVEN else values)
    assert moved.gpu.keys() == expected.gpu.keys()
    assert {**moved.node, "nvml_latency": 0} == {**expected.node, "nvml_latency": 0}
    assert moved.node["nvml_latency"] == "unsupported"


def test_an_older_driver_is_asked_for_what_it_knows(begin: Begin, fake: FakeSmi) -> None:
    newer = {"temperature.gpu.tlimit", "clocks_event_reasons.active"}
    fake.set(fields=[name for name in FIELDS if name not in newer])
    cells = column(begin().gpus(), 0)
    assert (cells["gpu_temp_margin"], cells["gpu_clocks_event_reasons"], cells["gpu_temp"]) == ("unsupported", 4, 59)


def test_each_cell_has_its_own_reason(begin: Begin, fake: FakeSmi) -> None:
    fake.set(
        gpus=[
            h100(0, temperature__memory="N/A", utilization__gpu="[N/A]", clocks__sm="[Not Supported]"),
            h100(1, power__draw="[Unknown Error]", memory__used="ERR!", temperature__gpu="[GPU requires reset]"),
            h100(2, **dict.fromkeys((n.replace(".", "__") for n in FIELDS if n != "index"), "[GPU is lost]")),
            h100(3, power__draw="[Insufficient Permissions]", clocks_event_reasons__active="[N/A]"),
            h100(4, **dict.fromkeys((n.replace(".", "__") for n in FIELDS if n != "index"), "[Unknown Error]")),
        ]
    )
    frame = begin().gpus()
    first, second, third, fourth, fifth = (column(frame, gpu) for gpu in range(5))
    assert (first["gpu_mem_temp"], first["gpu_util"], first["gpu_sm_clock"]) == ("unsupported",) * 3
    assert (second["gpu_power_draw"], second["gpu_fb_used"], second["gpu_temp"]) == ("error",) * 3
    assert second["gpu_sm_clock"] == 1980
    assert third.pop("gpu_handle_error") == 15
    assert set(third.values()) == {"lost"}
    assert frame.gpus[2] == wire.GpuIdentity(2)
    assert (fourth["gpu_power_draw"], fourth["gpu_clocks_event_reasons"]) == ("permission", "unsupported")
    assert fifth.pop("gpu_handle_error") == 999
    assert set(fifth.values()) == {"error"}
    assert frame.node["gpu_count"] == 3


@pytest.mark.parametrize(
    ("say", "note", "count"),
    [
        (["No devices were found"], "no devices", 0),
        (
            [
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
                "latest NVIDIA driver is installed and running.",
                "",
            ],
            "no driver loaded",
            "error",
        ),
        (
            ["Failed to initialize NVML: Driver/library version mismatch", "NVML library version: 570.133"],
            "driver/library version mismatch",
            "error",
        ),
        (["Failed to initialize NVML: Insufficient Permissions"], "permission", "permission"),
        (
            ["Failed to initialize NVML: Unknown Error"],
            "nvidia-smi: Failed to initialize NVML: Unknown Error",
            "error",
        ),
        ([], "nvidia-smi ended", "error"),
        (["\x1b[31mevil\x07", "@x y"], "nvidia-smi: evil", "error"),
    ],
)
def test_a_driver_that_refuses_says_why(
    begin: Begin, fake: FakeSmi, say: list[str], note: str, count: int | str
) -> None:
    fake.set(say=say, exit=9)
    frame = begin().full(lambda frame: frame.notes.get("nvml") not in ("starting", None))
    assert frame.notes["nvml"] == note
    assert (frame.gpus, frame.gpu, frame.node["gpu_count"]) == ([], {}, count)


def test_a_lost_gpu_that_ends_nvidia_smi_is_named(begin: Begin, fake: FakeSmi) -> None:
    probe = begin()
    probe.gpus()
    fake.set(
        say=[
            "Unable to determine the device handle for GPU 0000:1D:00.0: GPU is lost.  Reboot the system to recover "
            "this GPU"
        ],
        exit=15,
    )
    frame = probe.full(lambda frame: "nvml" in frame.notes)
    assert column(frame, 3)["gpu_temp"] == "lost"
    assert column(frame, 3)["gpu_handle_error"] == 15
    assert column(frame, 2)["gpu_temp"] == "error"
    assert frame.node["gpu_count"] == "error"


def test_what_else_it_prints_spoils_no_row(begin: Begin, fake: FakeSmi) -> None:
    strange = [
        "x" * 5000,
        "\x1b[2J\x07\u202e",
        "0" * 30 + ", a",
        "9999, a",
        "@end 1",
        "@full 1 2.0 3.0",
        "5",
        "%s$(id)`id`",
    ]
    fake.set(say=strange)
    probe = begin()
    for _ in range(3):
        frame = probe.gpus()
        assert (frame.node["gpu_count"], frame.gpu["gpu_sm_clock"]) == (8, [1980] * 8)


def test_rows_that_are_broken_cost_only_themselves(begin: Begin, fake: FakeSmi) -> None:
    fake.set(gpus=[h100(0), h100(1, name="a, b"), h100(2, uuid="\x1b[31mred"), h100(70)])
    frame = begin().gpus()
    assert [gpu.index for gpu in frame.gpus] == [0, 1, 2, 70]
    assert frame.gpus[2].uuid == "red"
    assert frame.gpu["gpu_sm_clock"] == [1980, "error", 1980, 1980]


def test_a_gpu_lost_while_running_keeps_its_identity(begin: Begin, fake: FakeSmi) -> None:
    probe = begin()
    known = probe.gpus().gpus
    probe.gpus()
    lost = h100(3, **dict.fromkeys((n.replace(".", "__") for n in FIELDS if n != "index"), "[GPU is lost]"))
    fake.set(gpus=[lost if index == 3 else h100(index) for index in range(8)])
    frame = probe.full(lambda frame: frame.gpu["gpu_handle_error"][3])
    assert frame.gpus == known
    assert (column(frame, 3)["gpu_temp"], frame.node["gpu_count"]) == ("lost", 7)


def test_without_nvidia_smi(begin: Begin, tree: Tree) -> None:
    frame = begin().full(lambda frame: frame.notes.get("nvml") != "starting")
    assert (frame.notes["nvml"], frame.node["gpu_count"], frame.node["gpu_count_pci"]) == ("no nvidia-smi", "error", 8)


def test_a_hang_is_said_after_five_seconds_and_is_not_doubled(begin: Begin, fake: FakeSmi) -> None:
    fake.set(stubborn=True)
    probe = begin()
    probe.gpus()
    fake.set(hang=True)
    asked_at = time.monotonic()
    frame = probe.full(lambda frame: frame.notes.get("nvml") == "hung")
    assert 4.5 < time.monotonic() - asked_at < 8
    assert {cell for cells in frame.gpu.values() for cell in cells} == {"hung"}
    assert (len(frame.gpus), frame.node["gpu_count"]) == (8, "hung")
    # It ignores SIGTERM, as one in the driver does: the probe ends without it, and the next starts none beside it.
    probe.close_input()
    assert probe.process.wait(2.5) == 0
    assert wait_for(lambda: len(probe.processes()) == 1, 2)
    (stuck,) = probe.processes()
    started = len(fake.calls)
    frame = begin().full(lambda frame: frame.notes.get("nvml") == "hung")
    assert frame.notes["nvml_pid"] == str(stuck)
    assert len(fake.calls) == started
    os.kill(stuck, signal.SIGKILL)


@pytest.mark.parametrize("name", SHELLS)
def test_a_file_that_never_answers_does_not_hold_it(name: str, begin: Begin, fake: FakeSmi, tree: Tree) -> None:
    probe = begin(name)
    probe.gpus()
    place = tree.root / "sys/class/infiniband/mlx5_2/ports/1/rate"
    os.mkfifo(place.with_name("new"))
    place.with_name("new").replace(place)
    time.sleep(0.5)
    probe.close_input()
    assert probe.process.wait(2) == 0
    assert wait_for(lambda: not probe.processes(), 0.5)


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("how", ["eof", "HUP", "TERM", "KILL", "reader gone"])
def test_nothing_is_left(name: str, how: str, begin: Begin, fake: FakeSmi) -> None:
    probe = begin(name, tick_s=5)
    probe.full()
    # Where one of before is still on its way out, it is started half a minute later.
    assert wait_for(lambda: len(fake.calls) >= 2, 90)
    if how == "reader gone":
        assert probe.process.stdout is not None
        probe.close_input()
        probe.process.stdout.close()
    elif how == "eof":
        probe.close_input()
    else:
        os.kill(probe.process.pid, getattr(signal, f"SIG{how}"))
        # What a server does when the first process has ended.
        probe.process.wait(2)
        probe.close_input()
    assert wait_for(lambda: not probe.processes(), 2)


def test_kernel_lines_come_once_and_with_their_time(begin: Begin, tmp_path: Path) -> None:
    probe = begin()
    log = tmp_path / "tools0" / "dmesg"
    up = time.clock_gettime(time.CLOCK_BOOTTIME)
    lines = [f"<3>[{up - 2000:12.6f}] NVRM: Xid (PCI:0000:4f:00): 13, too old", f"<6>[{up - 5:12.6f}] usb 1-1: new"]
    lines.append(f"<4>[{up - 3:12.6f}] NVRM: Xid (PCI:0000:4f:00): 79, pid=1, GPU has fallen off the bus.")

    def write() -> None:
        new = tmp_path / "dmesg.new"
        body = "\n".join(lines)
        new.write_text(f"#!/bin/sh\nexec cat <<'end'\n{body}\nend\n")
        new.chmod(0o755)
        new.replace(log)

    write()
    event = probe.until(lambda message: isinstance(message, wire.Event), 12)
    assert event.text == "NVRM: Xid (PCI:0000:4f:00): 79, pid=1, GPU has fallen off the bus."
    assert (event.source, event.level) == ("kernel", 4)
    assert abs(event.at - (time.time() - 3)) < 15
    lines.append(f"<2>[{up + 1:12.6f}] \x1b[2J@end 3 Out of memory: Killed process 7 (python)")
    write()
    event = probe.until(lambda message: isinstance(message, wire.Event), 12)
    assert event.text == "@end 3 Out of memory: Killed process 7 (python)"


def test_an_unreadable_log_is_noted(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.probe import shells

    monkeypatch.setattr(shells, "QUIET_DMESG", "#!/bin/sh\nexit 1\n")
    probe = begin()
    frame = probe.full(lambda frame: "kernel_log" in frame.notes)
    assert frame.notes["kernel_log"] in ("permission", "unsupported")


def test_a_port_that_goes_and_comes(begin: Begin, tree: Tree) -> None:
    probe = begin()
    assert len(probe.full().ports) == 3
    (tree.root / "sys/class/infiniband/mlx5_2").rename(tree.root / "gone")
    probe.full(lambda frame: [port.device for port in frame.ports] == ["mlx5_0", "mlx5_10"])
    (tree.root / "gone").rename(tree.root / "sys/class/infiniband/mlx5_2")
    probe.full(lambda frame: len(frame.ports) == 3 and frame.port["ib_port_state"] == [4, 4, 4])


def test_nothing_is_written(begin: Begin, fake: FakeSmi, tree: Tree) -> None:
    def files() -> set[str]:
        return {str(path) for path in tree.root.rglob("*")}

    before = files()
    begin("bash").gpus()
    assert files() == before
