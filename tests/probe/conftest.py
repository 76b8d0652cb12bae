"""Starts probes, and builds the trees that they read in place of /sys, /proc and /dev."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope import paths
from tests.probe.running import RunningProbe
from tests.probe.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the payload out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


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
def stream(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the probe's module, reading the tree."""
    spec = importlib.util.spec_from_file_location("probe_under_test", paths.bundled("probes") / "stream.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", str(tree.root))
    module.PYNVML, module.BLOB = b"", b""
    return module
