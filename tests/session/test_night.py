"""The night's list of a session: what people say outlives it, and other consoles hear of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import UsageError
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.night import Standing
from stethoscope.session.night import EXCHANGE_S, NightKeeper
from stethoscope.store.night import NightFile

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1_773_454_447.0
ONE = Finding("hot@n1", "hot", Severity.P0, ("n1/gpu/4",), "n1", "2026-03-14T02:14:07Z", "88 °C")


def keeper(path: Path, **options: object) -> NightKeeper:
    """Return the list of another console on the same fleet."""
    return NightKeeper(NightFile("prod-a", path), **options)  # type: ignore[arg-type]


def test_what_was_said_outlives_the_console(tmp_path: Path) -> None:
    night = keeper(tmp_path)
    night.take((ONE,), T0)
    night.acknowledge(ONE.id, T0 + 1)
    night.note(ONE.id, T0 + 2, "  cable \x1b[31mswapped ")
    night.stop()
    later = keeper(tmp_path)
    [found] = later.take((replace(ONE, since="2026-03-14T02:20:00Z"),), T0 + 400)
    assert found.since == ONE.since
    assert not later.is_loud(ONE.id, T0 + 401)
    assert [note.text for note in later.entries[ONE.id].notes] == ["cable swapped"]
    assert [word for word, _ in later.take_told()] == ["still"]


def test_another_console_hears_of_it(tmp_path: Path) -> None:
    one, two = keeper(tmp_path), keeper(tmp_path)
    for night in (one, two):
        night.take((ONE,), T0)
        night.tend(T0 + 1)
    one.snooze(ONE.id, T0 + 2, T0 + 1800)
    two.tend(T0 + 2 + EXCHANGE_S)
    assert two.entries[ONE.id].standing(T0 + 5) is Standing.SNOOZED
    two.snooze(ONE.id, T0 + 6, None, undo=True)
    one.tend(T0 + 8)
    assert one.is_loud(ONE.id, T0 + 9)


async def test_the_file_is_written_beside_the_event_loop(tmp_path: Path) -> None:
    night = keeper(tmp_path)
    night.take((ONE,), T0)
    night.tend(T0 + 1)
    async with asyncio.timeout(5):
        while not keeper(tmp_path).entries:
            await asyncio.sleep(0.01)
    night.acknowledge(ONE.id, T0 + 2)
    night.stop()
    assert keeper(tmp_path).entries[ONE.id].acknowledged is not None


def test_one_look_writes_nothing(tmp_path: Path) -> None:
    first = keeper(tmp_path)
    first.take((ONE,), T0)
    first.acknowledge(ONE.id, T0 + 1)
    before = NightFile("prod-a", tmp_path).path.read_bytes()
    look = keeper(tmp_path, writes=False)
    look.take((ONE, replace(ONE, id="other@n2")), T0 + 10)
    look.tend(T0 + 20)
    look.stop()
    assert not look.is_loud(ONE.id, T0 + 11)
    assert look.is_loud("other@n2", T0 + 11)
    assert NightFile("prod-a", tmp_path).path.read_bytes() == before


def test_nothing_is_said_about_a_recording() -> None:
    night = NightKeeper(read_only="a recording is only looked at")
    night.take((ONE,), T0)
    with pytest.raises(UsageError, match="only looked at"):
        night.acknowledge(ONE.id, T0)
    assert night.is_loud(ONE.id, T0)


def test_a_list_that_cannot_be_kept_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    night = keeper(tmp_path / "file")
    for second in range(4):
        night.take((ONE,), T0 + 2 * second)
        night.tend(T0 + 2 * second)
    [notice] = night.take_notices()
    assert "not kept" in notice
    night.acknowledge(ONE.id, T0 + 9)
    assert not night.is_loud(ONE.id, T0 + 10)


def test_a_large_file_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.store.night.COMPACT_ABOVE", 20_000)
    one, two = keeper(tmp_path), keeper(tmp_path)
    for night in (one, two):
        night.take((ONE,), T0)
    for number in range(300):
        (one, two)[number % 2].note(ONE.id, T0 + number, f"note {number} {'x' * 60}")
    path = NightFile("prod-a", tmp_path).path
    size = path.stat().st_size
    assert size > 20_000
    third = keeper(tmp_path)
    assert path.stat().st_size < size / 2
    notes = [note.text.split()[1] for note in third.entries[ONE.id].notes]
    assert notes == [str(number) for number in range(250, 300)]
    two.acknowledge(ONE.id, T0 + 400)
    one.tend(T0 + 402)
    assert not one.is_loud(ONE.id, T0 + 403)
    assert len(one.entries[ONE.id].notes) == 50
