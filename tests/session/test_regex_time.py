"""The time that a regex takes on lines made to hurt it; one that never ends is stopped, and the rest still measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from stethoscope.session import regex_child, regex_time
from stethoscope.session.regex_time import LIMIT_S, times, too_slow

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = (r"(?:a+)+b", "aaaa b aaab")
SLOW = (r"(?P<a>\w{0,2000})\.!", "ab.!")
QUICK = (r"loss (?P<loss>\d{1,9})", "step 4 loss 17")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "stethoscope" / "compiled" / "quick-regexes.json"


def test_lines_that_hurt_are_long_and_begin_as_the_sample_does() -> None:
    lines = list(regex_child.hurtful("step 4 loss 17"))
    assert {len(line) for line in lines} == {regex_child.LENGTH + 1}
    assert any(line.startswith("step 4 loss 17step 4 loss 17") for line in lines)
    assert any(line.startswith("step 4     ") for line in lines)
    assert any(line.startswith("aaaa") for line in lines)
    assert all(line.endswith("\x01") for line in lines)
    assert len(list(regex_child.hurtful(""))) > 5


def test_one_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_time, "PATIENCE_S", 2.0)
    before = time.monotonic()
    first, second, third = times([QUICK, ENDLESS, QUICK])
    assert second is None
    assert first is not None
    assert third is not None
    assert max(first, third) < LIMIT_S
    assert time.monotonic() - before < 60


def test_one_that_is_slow_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_time, "PATIENCE_S", 120.0)
    (took,) = times([SLOW])
    assert took is not None
    assert took > LIMIT_S


def test_what_was_quick_is_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(too_slow([QUICK, SLOW])) == [1]
    assert cache.stat().st_mode & 0o777 == 0o600
    asked: list[tuple[str, str]] = []

    def measure(patterns: list[tuple[str, str]]) -> list[float]:
        asked.extend(patterns)
        return [1.0] * len(patterns)

    monkeypatch.setattr(regex_time, "times", measure)
    assert too_slow([QUICK, SLOW]) == {1: 1.0}
    assert asked == [SLOW]
    assert too_slow([(QUICK[0], "step 5 loss 1")]) == {0: 1.0}
    cache.write_text("broken")
    assert list(too_slow([QUICK])) == [0]


def test_a_cache_that_cannot_be_written_does_not_matter(cache: Path) -> None:
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("a file")
    assert too_slow([QUICK]) == {}
