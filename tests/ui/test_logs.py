"""The logs screen driven by keys: the fleet's kernels, files, pasted text, logs on nodes, and explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from textual import events

from stethoscope.model.event import LogEvent
from stethoscope.model.frame import LinkState
from stethoscope.model.scheduler import Job
from stethoscope.session import logbook
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.look import Look
from stethoscope.ui.present.spans import plain, width
from stethoscope.ui.screens.ask import AskScreen
from stethoscope.ui.screens.explained import ExplainedScreen
from stethoscope.ui.screens.finder import FinderScreen
from stethoscope.ui.screens.logs import LogsScreen
from stethoscope.ui.screens.node import NodeScreen
from stethoscope.ui.screens.open_log import PasteScreen
from stethoscope.ui.widgets.rows import RowsView
from tests.builders import WALL, fleet
from tests.session.test_logbook import XID, Here, Jobs
from tests.ui.consoles import StillSession
from tests.ui.scenes import EVIL
from tests.ui.test_console import line, ready, visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.pilot import Pilot

    from stethoscope.model.fleet import FleetSnapshot

AER = "pcieport 0000:4e:01.0: AER: Correctable error message received from 0000:4f:00.0"
CRASH = "[rank3]: RuntimeError: CUDA error: device-side assert triggered"


def told(*extra: LogEvent) -> FleetSnapshot:
    """Return a fleet in which one GPU fell off the bus."""
    snapshot = fleet(8, name="prod-a", notes={"gpu-005": {"kernel_log": "not readable"}})
    pci = snapshot.nodes[1].gpus[2].pci[:12]
    first = LogEvent("gpu-002", "kernel", XID.replace("0000:4f:00", pci), WALL - 41, 3, 79, pci)
    return replace(snapshot, events=(first, *extra))


def app_on(snapshot: FleetSnapshot, source: object = None, look: Look | None = None) -> StethoscopeApp:
    session = StillSession(snapshot)
    if source is not None:
        session.source = source  # type: ignore[attr-defined]

    async def open_session() -> StillSession:
        return session

    return StethoscopeApp(open_session, "test", look or Look())


async def until(pilot: Pilot[None], is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    app = pilot.app
    assert isinstance(app, StethoscopeApp)
    for _ in range(800):
        if is_so():
            return
        app.pull()
        await pilot.pause(0.01)
    raise AssertionError(f"never came: {line(app, 'top')} {visible(app)}")


async def logs(pilot: Pilot[None]) -> StethoscopeApp:
    """Open the logs screen and wait for the fleet's kernels."""
    app = await ready(pilot)
    await pilot.press("L")
    await until(
        pilot, lambda: isinstance(app.screen, LogsScreen) and any("What went wrong" in row for row in visible(app))
    )
    return app


async def test_the_fleet_is_one_time_line_with_its_causes_above() -> None:
    async with app_on(told()).run_test(size=(130, 30)) as pilot:
        app = await logs(pilot)
        rows = visible(app)
        assert rows[0].startswith(" ✖ P0 gpu-002/gpu/2")
        assert "fallen off the bus" in rows[0]
        assert rows[0].split("  ")[-2:] == ["41 s ago", "sure 0.90"] or "41 s ago" in rows[0]
        event = next(row for row in rows if "Xid 79 GPU has fallen off the bus" in row)
        assert event.split()[1:3] == ["✖", "gpu-002/gpu/2"]
        assert "unreadable on 1 node" in line(app, "top")


async def test_an_event_leads_to_its_explanation_its_node_and_back() -> None:
    async with app_on(told()).run_test(size=(100, 30)) as pilot:
        app = await logs(pilot)
        await pilot.press("down")
        assert line(app, "detail").startswith(" xid.79  Xid 79: ")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ExplainedScreen)
        assert any("take it out of service now" in row for row in visible(app))
        assert any(row.startswith(" the line  NVRM: Xid") for row in visible(app))
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, NodeScreen)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert isinstance(app.screen, LogsScreen)
        await pilot.press("N")
        await pilot.pause()
        assert isinstance(app.screen, NodeScreen)


async def test_new_lines_come_in_and_the_cursor_stays() -> None:
    async with app_on(told()).run_test(size=(100, 30)) as pilot:
        app = await logs(pilot)
        await pilot.press("down")
        before = line(app, "detail")
        session = app.session
        assert isinstance(session, StillSession)
        more = LogEvent("gpu-001", "kernel", AER, WALL - 60)
        session.now = replace(session.now, events=(*session.now.events, more))
        await pilot.press("a")
        await until(pilot, lambda: any("Correctable error" in row for row in visible(app)))
        assert line(app, "detail") == before
        order = [row for row in visible(app) if "gpu-00" in row][1:]
        assert "gpu-001" in order[0]


async def test_what_is_pasted_anywhere_on_the_screen_is_decoded() -> None:
    async with app_on(told()).run_test(size=(80, 24)) as pilot:
        app = await logs(pilot)
        app.screen.post_message(events.Paste(f"step 1\r\n{CRASH}\r\n"))
        await until(pilot, lambda: any("cuda_app_bug" in row for row in visible(app)))
        assert "pasted text, 2 lines · read" in line(app, "top")
        # Escape leaves the screen; the next time it shows the fleet, and the pasted text can be chosen.
        await pilot.press("escape", "L", "o")
        await until(pilot, lambda: isinstance(app.screen, FinderScreen))
        found = [title for title, _, _ in app.screen.found]
        assert found[:3] == ["kernel logs of the fleet", "paste text", "pasted text, 2 lines"]


async def test_a_terminal_that_types_what_is_pasted() -> None:
    async with app_on(told()).run_test(size=(80, 24)) as pilot:
        app = await logs(pilot)
        await pilot.press("o", *"paste", "enter")
        await pilot.pause()
        assert isinstance(app.screen, PasteScreen)
        await pilot.press(*"NVRM: Xid (PCI:0000:4f:00): 79, x", "enter", "z", "backspace", "ctrl+d")
        await until(pilot, lambda: any("gpu_fallen_off_bus" in row for row in visible(app)))


async def test_a_whole_file_that_a_terminal_types_is_taken() -> None:
    async with app_on(told()).run_test(size=(80, 24)) as pilot:
        app = await logs(pilot)
        await pilot.press("o", *"paste", "enter")
        await pilot.pause()
        for character in "iter 7: loss 1.2\t, time: 44 ms\n" * 200 + "RuntimeError: CUDA error: 日本\n":
            keys = {"\n": "enter", "\t": "tab"}
            app.give_key(events.Key(keys.get(character, character), character))
        await until(pilot, lambda: any("日本" in row for row in visible(app)))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: "pasted text, 201 lines" in line(app, "top"))


async def test_a_file_here_is_opened_and_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_text(CRASH + "\n")
    async with app_on(told()).run_test(size=(100, 30)) as pilot:
        app = await logs(pilot)
        for name, shown in (("t.log", "cuda_app_bug"), ("none.log", "no such file")):
            await pilot.press("o", *"file", "enter")
            await pilot.pause()
            assert isinstance(app.screen, AskScreen)
            app.screen.query_one("Input").value = str(tmp_path / name)  # type: ignore[attr-defined]
            await pilot.press("enter")
            await until(pilot, lambda shown=shown: any(shown in row for row in visible(app)))


async def test_a_path_on_a_node_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logbook, "POLL_S", 0.05)
    path = tmp_path / "t.log"
    path.write_text("step 1\n")
    snapshot = told()
    async with app_on(snapshot, Here(snapshot)).run_test(size=(120, 30)) as pilot:
        app = await ready(pilot)
        app.open_node("gpu-003")
        await pilot.pause()
        await pilot.press("L", *"file on", "enter")
        await pilot.pause()
        assert isinstance(app.screen, AskScreen)
        app.screen.query_one("Input").value = str(path)  # type: ignore[attr-defined]
        await pilot.press("enter")
        try:
            await until(pilot, lambda: "following" in line(app, "top"))
            with path.open("a") as file:
                file.write(CRASH + "\n")
            await until(pilot, lambda: any("cuda_app_bug" in row for row in visible(app)))
        finally:
            await app.close_logs()


async def test_a_job_that_ended_is_opened_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "slurm-77.out"
    path.write_text(CRASH + "\n")
    snapshot = told()
    async with app_on(snapshot, Here(snapshot)).run_test(size=(120, 30)) as pilot:
        app = await ready(pilot)
        app.session.scheduler = Jobs(Job("77", "gone", "failed", nodes=("gpu-003",), stdout=str(path)))  # type: ignore[union-attr]
        await pilot.press("L", "o", *"a job by", "enter", *"77", "enter")
        try:
            await until(pilot, lambda: any("cuda_app_bug" in row for row in visible(app)))
            assert "job 77 gone: " in line(app, "top") or "slurm-77.out" in line(app, "top")
        finally:
            await app.close_logs()


async def test_where_nothing_may_be_run_nodes_are_refused_in_words() -> None:
    snapshot = replace(told(), jobs=(Job("7", nodes=("gpu-001",)),))
    async with app_on(snapshot, Here(snapshot, read_only=True)).run_test(size=(100, 30)) as pilot:
        app = await logs(pilot)
        await pilot.press("o", *"job 7", "enter")
        await pilot.pause()
        assert isinstance(app.screen, LogsScreen)
        assert any("--read-only" in note.message for note in app._notifications)


async def test_signatures_are_browsed() -> None:
    async with app_on(told()).run_test(size=(100, 30)) as pilot:
        app = await logs(pilot)
        await pilot.press("S", *"xid.48", "enter")
        await pilot.pause()
        assert isinstance(app.screen, ExplainedScreen)
        assert line(app, "top").startswith(" xid.48")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ExplainedScreen)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (200, 60)])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_lines_cost_only_themselves(size: tuple[int, int], *, ascii_only: bool) -> None:
    evil = tuple(
        LogEvent("gpu-003", "kernel", f"{XID[:40]}{text}, {text}", WALL - 30 + number)
        for number, text in enumerate(EVIL)
    )
    snapshot = told(*evil)
    async with app_on(snapshot, look=Look(ascii_only=ascii_only)).run_test(size=size) as pilot:
        app = await logs(pilot)
        await pilot.press("a", *["down"] * 12)
        for screen in (app.screen,):
            for row in (plain(row) for row in screen.query_one(RowsView)._fixed):
                assert row.isprintable()
                assert width(row) <= size[0]
        await pilot.press("enter")
        await pilot.pause()
        for text in visible(app):
            assert text.isprintable()
            assert width(text) <= size[0]


async def test_without_a_line_from_anybody_it_says_so() -> None:
    async with app_on(fleet(4, links={"gpu-001": LinkState.REFUSED})).run_test(size=(80, 24)) as pilot:
        app = await logs(pilot)
        assert visible(app)[0] == " No kernel said anything yet"
        await pilot.press("enter", "N", "down", "up", "G", "g", "pagedown")
        assert isinstance(app.screen, LogsScreen)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["narrow", "wide"])
def test_the_screen_looks_as_it_did(snap_compare: Any, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await logs(pilot)
        await pilot.press("down")
        await pilot.pause(0.1)

    aer = LogEvent("gpu-001", "kernel", AER, WALL - 60)
    ecc = LogEvent("gpu-007", "kernel", "NVRM: Xid (PCI:0000:87:00): 48, pid=4242, name=python3, DBE at 0x1", WALL - 20)
    assert snap_compare(app_on(told(aer, ecc)), terminal_size=size, run_before=before)
