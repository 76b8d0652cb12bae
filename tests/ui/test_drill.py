"""Drill mode of the console: its keys, the questions, and the score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.errors import UsageError
from stethoscope.ui.keys import DRILL, KEYS, footer_of
from stethoscope.ui.present.spans import UNICODE, plain
from stethoscope.ui.screens.finder import FinderScreen, everything
from stethoscope.ui.screens.help import help_rows
from tests.ui.scenes import troubled
from tests.ui.test_console import app_on, ready, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot


class _Drill:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def kinds(self) -> Sequence[tuple[str, str, str]]:
        return [("gpu_sdc", "A GPU computes wrongly", "gpu_sdc")]

    def places(self, kind: str) -> Sequence[str]:
        return ["gpu-001/gpu/0", "gpu-002/gpu/0"]

    async def begin(self, kind: str, place: str, wait_s: float) -> None:
        self.told.append(("begin", kind, place, wait_s))
        if not kind:
            raise UsageError("no [bold]such\x1b[2J kind")

    def causes(self) -> Sequence[tuple[str, str, str]]:
        return [("healthy", "nothing is wrong", "healthy"), ("gpu_hw_fault", "a GPU fails", "gpu_hw_fault")]

    def suspects(self, snapshot: FleetSnapshot) -> Sequence[tuple[str, str, str]]:
        return [(node.name, "", node.name) for node in snapshot.nodes]

    def reply(self, cause: str, place: str) -> None:
        self.told.append(("reply", cause, place))

    async def finish(self) -> Sequence[str]:
        self.told.append(("finish",))
        return ["The drill lasted 9 s.", "", "  place   \x1b[31mgpu-001 [red]", "Score 1 of 1"]


async def test_who_trains_starts_a_fault_who_is_trained_answers_and_the_score_is_shown() -> None:
    app, drill = app_on(troubled()), _Drill()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await ready(pilot)
        app.begin_drill(drill)
        for keys in (["ctrl+t", *"sdc", "enter", *"002", "enter", *"half", "enter"], ["ctrl+t"] + ["enter"] * 2):
            await pilot.press(*keys)
            await pilot.pause()
        assert drill.told == [("begin", "gpu_sdc", "gpu-002/gpu/0", 30), ("begin", "", "", 0)]
        drill.told.clear()
        await pilot.press("A", *"hw", "enter", *"007", "enter")
        await pilot.press("A", "enter")
        await pilot.pause()
        assert drill.told == [("reply", "gpu_hw_fault", "gpu-007"), ("reply", "healthy", "")]
        await pilot.press("E")
        await pilot.pause()
        text = "\n".join(visible(app))
        assert "Score 1 of 1" in text
        assert "gpu-001 [red]" in text
        assert "\x1b" not in text
        await pilot.press("E", "escape")
        await pilot.pause()
        assert app.screen is app.fleet_screen


async def test_elsewhere_the_keys_of_a_drill_do_nothing_and_are_not_named() -> None:
    app = app_on(troubled())
    titles = {key.title for key in KEYS if DRILL in key.where}
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("A", "E", "ctrl+t")
        await pilot.pause()
        assert app.screen is app.fleet_screen
        assert not titles & {title for title, _, _ in everything(app)[0]}
        app.begin_drill(_Drill())
        assert titles <= {title for title, _, _ in everything(app)[0]}
        await pilot.press("A")
        await pilot.pause()
        assert isinstance(app.screen, FinderScreen)
    assert "in this drill" not in "\n".join(plain(row) for row in help_rows(UNICODE, 80))
    assert "in this drill" in "\n".join(plain(row) for row in help_rows(UNICODE, 80, drill=True))
    in_drill = {name for key in KEYS if DRILL in key.where for name in key.keys}
    assert in_drill == {"A", "E", "ctrl+t"}
    assert not in_drill & {name for key in KEYS if DRILL not in key.where for name in key.keys}
    assert footer_of("fleet", drill=True)[:2] == [("A", "answer"), ("E", "end")]
