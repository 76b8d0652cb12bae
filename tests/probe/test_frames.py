"""What the probe prints, under every Python that is here, with the real pynvml on the fake driver."""

from __future__ import annotations

import functools
import itertools
import operator
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from stethoscope import paths
from stethoscope.model import wire
from stethoscope.model.metric import WIRE_REASONS
from tests.probe.running import interpreters
from tests.probe.trees import STAT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree


def fast_metrics(scope: str) -> set[str]:
    """Return the ids of the fast tier of one scope."""
    catalogue = yaml.safe_load((paths.bundled("playbooks") / "metrics.yaml").read_text())
    return {
        metric["id"]
        for metric in catalogue["metrics"]
        if metric["scope"] == scope and metric.get("tier", "fast") == "fast"
    }


@pytest.mark.parametrize("interpreter", interpreters(), ids=lambda path: Path(path).name)
def test_every_python_sends_every_metric_of_the_fast_tier(
    interpreter: str, start: Callable[..., RunningProbe], fake_nvml: FakeNvml, tree: Tree, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(interpreter)
    probe = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)}, path=f"{folder}:/usr/bin:/bin")
    messages = probe.messages()
    hello = next(messages)
    assert isinstance(hello, wire.Hello)
    assert hello.schema == wire.SCHEMA
    assert hello.python.startswith(Path(interpreter).name.removeprefix("python") + ".")
    assert hello.boot_id == "6b2d1f0e-0000-4000-8000-000000000001"
    assert hello.tick_s == 0.2
    first = next(messages)
    assert isinstance(first, wire.Full)
    assert (first.gpus, first.notes["nvml"]) == ([], "starting")
    assert first.node["cpu_util"] == "waiting"
    probe.gpus()
    # PCIe traffic is sampled between the rounds, GPU by GPU.
    frame = probe.full()
    while "waiting" in frame.gpu["gpu_pcie_tx"]:
        frame = probe.full()
    tree.put("proc/stat", STAT.replace("1000 0 500 8000", "1100 0 600 8800"))
    probe.until(lambda message: isinstance(message, wire.Delta) and "cpu_util" in message.node)
    frame = probe.full()
    assert set(frame.node) == fast_metrics("node")
    assert set(frame.gpu) == fast_metrics("gpu")
    assert set(frame.port) == fast_metrics("ib_port")
    assert {len(values) for values in frame.gpu.values()} == {8}
    assert {len(values) for values in frame.port.values()} == {3}
    assert "nvml" not in frame.notes
    values = [
        *frame.node.values(),
        *functools.reduce(operator.iadd, frame.gpu.values(), []),
        *functools.reduce(operator.iadd, frame.port.values(), []),
    ]
    assert all(isinstance(value, int | float) for value in values)
    assert frame.gpus[3] == wire.GpuIdentity(
        3, "NVIDIA H100 80GB HBM3", "GPU-00000000-0000-0000-0000-000000abc003", "0000:1d:00.0"
    )
    assert {metric: column[3] for metric, column in frame.gpu.items()} == {
        "gpu_sm_clock": 1755,
        "gpu_util": 98,
        "gpu_power_draw": 312.3,
        "gpu_temp": 61,
        "gpu_temp_margin": 26,
        "gpu_mem_temp": 55,
        "gpu_clocks_event_reasons": 4,
        "gpu_fb_used": 70512,
        "gpu_fb_total": 81559,
        "gpu_mem_copy_util": 41,
        "gpu_power_limit": 700.0,
        "gpu_pcie_rx": 120000,
        "gpu_pcie_tx": 90000,
        "nvlink_rx": 139003,
        "nvlink_tx": 138003,
        "gpu_handle_error": 0,
    }
    assert frame.node["gpu_count"] == frame.node["gpu_count_pci"] == 8
    probe.close_input()
    assert probe.ended_within(2)
    assert probe.errors() == b""


def test_lines_are_compact_ascii_and_numbered(
    start: Callable[..., RunningProbe], fake_nvml: FakeNvml, tree: Tree
) -> None:
    probe = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})
    probe.gpus()
    probe.until(lambda message: isinstance(message, wire.Delta))
    lines = probe.raw[1:]
    messages = [wire.decode(line) for line in lines]
    assert [message.seq for message in messages] == list(range(len(messages)))
    assert all(line.isascii() and b'": ' not in line and b', "' not in line for line in lines)
    assert all(later.mono >= sooner.mono for sooner, later in itertools.pairwise(messages))


def test_deltas_fold_to_the_next_full_frame(
    start: Callable[..., RunningProbe], fake_nvml: FakeNvml, tree: Tree
) -> None:
    probe = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})
    probe.gpus()
    state = probe.full()
    while "waiting" in state.gpu["gpu_pcie_tx"]:
        state = probe.full()
    for step in range(5):
        fake_nvml.set(value__power__2=300000 + 1000 * step, value__util=step, code__nvmlDeviceGetMarginTemperature=3)
        tree.put("proc/loadavg", f"{step}.00 1 1 1/1 1\n")
        tree.put("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", f"{step}\n")
        delta = probe.until(lambda message: isinstance(message, wire.Delta))
        _fold(state, delta)
    probe.send(do="full")
    full = None
    for message in probe.messages():
        if isinstance(message, wire.Full):
            full = message
            break
        _fold(state, message)
    assert full is not None
    # One more reading came with the full frame: what it can have changed is known.
    for metric in ("cpu_util", "cpu_iowait", "cpu_softirq", "cpu_softirq_max", "cpu_steal", "nvml_latency", "load1"):
        state.node.pop(metric)
        full.node.pop(metric)
    assert full.gpu["gpu_temp_margin"] == ["unsupported"] * 8
    assert state.port.keys() == full.port.keys()
    assert full.port["ib_symbol_error"][0] == 4
    assert state.node == full.node
    assert {key for key in full.gpu if state.gpu[key] != full.gpu[key]} <= {
        "gpu_util",
        "gpu_power_draw",
        "gpu_temp_margin",
    }


def _fold(state: wire.Full, delta: object) -> None:
    assert isinstance(delta, wire.Delta)
    state.node.update(delta.node)
    for scope in ("gpu", "port"):
        for metric, values in getattr(delta, scope).items():
            kept = getattr(state, scope)[metric]
            getattr(state, scope)[metric] = [old if new is None else new for old, new in zip(kept, values, strict=True)]


def test_an_adapter_that_is_unplugged_leaves_the_inventory(start: Callable[..., RunningProbe], tree: Tree) -> None:
    probe = start({"STETHOSCOPE_ROOT": str(tree.root)})
    first = probe.until(lambda message: isinstance(message, wire.Full))
    assert [(port.device, port.layer, port.pci, port.netdev) for port in first.ports] == [
        ("mlx5_0", "InfiniBand", "0000:4f:00.0", "ib0p1"),
        ("mlx5_2", "InfiniBand", "0000:6f:00.0", "ib2p1"),
        ("mlx5_10", "Ethernet", "0000:5f:00.0", "ib0p1"),
    ]
    os.rename(tree.root / "sys/class/infiniband/mlx5_2", tree.root / "gone")
    later = probe.until(lambda message: isinstance(message, wire.Full))
    assert [port.device for port in later.ports] == ["mlx5_0", "mlx5_10"]
    assert {len(values) for values in later.port.values()} == {2}


def test_every_word_is_one_of_the_wire(start: Callable[..., RunningProbe], tree: Tree) -> None:
    probe = start({"STETHOSCOPE_ROOT": str(tree.root / "nothing")})
    frame = probe.until(lambda message: isinstance(message, wire.Full))
    assert set(frame.node) == fast_metrics("node")
    assert {value for value in frame.node.values() if isinstance(value, str)} <= set(WIRE_REASONS)
    assert {metric for metric, value in frame.node.items() if not isinstance(value, str)} == set()
    assert frame.ports == []


def test_control_lines(start: Callable[..., RunningProbe], tree: Tree) -> None:
    probe = start({"STETHOSCOPE_ROOT": str(tree.root)}, tick_s=3600)
    probe.until(lambda message: isinstance(message, wire.Full))
    probe.write(b'\xff\xfe{\n[1,2]\n"x"\n\n{"do":7}\n{"do":"tick","s":"NaN"}\n{"do":"tick","s":-1}\n{"do":"run"}\n')
    probe.write(b'{"do":"tick","s":1e999}\n{"do":"tick","s":true}\n' + b"[" * 5000 + b"\n" + b"x" * 200000 + b"\n")
    assert isinstance(probe.full(), wire.Full)
    probe.send(do="tick", s=0.2)
    sooner = probe.until(lambda message: isinstance(message, wire.Delta))
    later = probe.until(lambda message: isinstance(message, wire.Delta))
    assert later.mono - sooner.mono < 3
    probe.send(do="stop")
    bye = list(probe.messages())[-1]
    assert isinstance(bye, wire.Bye)
    assert bye.why == "stop"
    assert probe.ended_within(2)


def test_ticks_do_not_drift(start: Callable[..., RunningProbe], tree: Tree) -> None:
    probe = start({"STETHOSCOPE_ROOT": str(tree.root)}, tick_s=0.25)
    first = probe.until(lambda message: isinstance(message, wire.Full))
    frames = [probe.until(lambda message: isinstance(message, wire.Delta) and message.notes is None) for _ in range(8)]
    ticks = [(frame.mono - first.mono) / 0.25 for frame in frames]
    # A busy machine may be late for a tick or miss one, but never shifts the ones after it.
    assert len({int(tick) for tick in ticks}) == 8
    assert sorted(tick % 1 for tick in ticks)[4] < 0.4
