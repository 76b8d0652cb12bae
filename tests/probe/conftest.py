"""Starts probes, and builds the trees that they read in place of /sys, /proc and /dev."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope import paths
from tests.probe.running import RunningProbe
from tests.probe.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


@pytest.fixture
def start() -> Iterator[Callable[..., RunningProbe]]:
    """Yield a function that starts probes as `RunningProbe` does; they are ended afterwards."""
    running: list[RunningProbe] = []

    def begin(*arguments: Any, **options: Any) -> RunningProbe:
        running.append(RunningProbe(*arguments, **options))
        return running[-1]

    yield begin
    for probe in running:
        probe.stop()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a healthy node of eight GPUs on the PCI bus and two ports."""
    return Tree.healthy(tmp_path / "root")


@pytest.fixture
def part(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that imports a part of the probe by name; the parts read the tree."""
    monkeypatch.syspath_prepend(str(paths.bundled("probes")))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(importlib.import_module("files"), "ROOT", str(tree.root))
    return importlib.import_module


@pytest.fixture
def stream(part: Callable[[str], ModuleType]) -> ModuleType:
    """Return the probe's entry."""
    return part("stream")


@pytest.fixture
def nvml(part: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the parent's side of the NVML child, which sees no child that tests beside this one have lost."""
    module = part("nvml")
    lost = module.processes.lost_children
    monkeypatch.setattr(module.processes, "lost_children", lambda *names: {p for p in lost(*names) if _is_ours(p)})
    return module


def _is_ours(pid: int) -> bool:
    """Tell whether a process has the driver of this test."""
    own = os.environ.get("FAKE_NVML_CONTROL", "")
    try:
        return f"FAKE_NVML_CONTROL={own}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@pytest.fixture
def kernel_log(part: Callable[[str], ModuleType]) -> ModuleType:
    """Return the reader of the kernel log."""
    return part("kernel_log")


@pytest.fixture
def host(part: Callable[[str], ModuleType]) -> ModuleType:
    """Return the reader of the host."""
    return part("host")


@pytest.fixture
def fabric(part: Callable[[str], ModuleType]) -> ModuleType:
    """Return the reader of the ports."""
    return part("fabric")
