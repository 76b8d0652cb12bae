"""The C library's heap is told how to keep what was given back; without such a library nothing happens."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from stethoscope import heap


def test_what_is_free_in_the_middle_goes_back() -> None:
    script = """
        from stethoscope import heap

        def resident_mib():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096 / 2**20

        heap.one_heap()
        kept = [bytearray(100_000) for _ in range(500)]
        del kept[1:-1]
        full = resident_mib()
        heap.give_back()
        assert resident_mib() < full - 30, (full, resident_mib())
    """
    if heap._function("malloc_trim") is None:
        pytest.skip("this C library has no malloc_trim")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_function", lambda name: None)
    heap.one_heap()
    heap.give_back()
