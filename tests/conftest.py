"""What tests of several packages share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.native.fake_nvml import FakeNvml, build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a file's tests run in one worker, and all that start probes in the same one: a probe looks for driver
    processes of others that are stuck, and would find those that another worker lets hang. Those of the probe in sh
    are other ones."""
    for item in items:
        group = item.path.name
        if item.path.parent.name == "probe":
            group = "probe in sh" if group.startswith("test_shell") else "probe"
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is compiled and packed out of the user's cache, and let all workers and the commands that tests run
    share it: making it again takes seconds."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"))
        yield


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the fake driver library in it."""
    directory = tmp_path_factory.mktemp("nvml")
    build(directory)
    return directory


@pytest.fixture
def fake_nvml(nvml_library: Path, tmp_path: Path) -> Iterator[FakeNvml]:
    """Yield the fake driver with eight healthy GPUs; what hangs in it is let go at the end."""
    driver = FakeNvml(nvml_library, tmp_path / "nvml.control")
    driver.set()
    yield driver
    driver.settings.clear()
    driver.set()
