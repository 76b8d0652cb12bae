"""Recording, finding and editing incidents, driven by keys."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.clock import SystemClock
from stethoscope.errors import DataError
from stethoscope.model.incident import Incident, Status, Times
from stethoscope.session.incidents import Library
from stethoscope.store.drafts import writer
from stethoscope.ui.editing import _with_fault, editor
from stethoscope.ui.present.spans import plain
from stethoscope.ui.screens.incident import IncidentScreen
from stethoscope.ui.screens.incident_conflict import ConflictScreen
from stethoscope.ui.screens.incident_form import FormScreen
from stethoscope.ui.screens.incidents import IncidentsScreen
from stethoscope.ui.screens.node import NodeScreen
from stethoscope.ui.screens.verdict import VerdictScreen
from tests.builders import WALL, fleet
from tests.ui.scenes import EVIL
from tests.ui.test_console import app_on, line, ready, visible
from tests.ui.triage_scenes import LINK, quiet, sick_link

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from stethoscope.ui.app import StethoscopeApp

OLD = Incident(
    "INC-2026-03-01-k7qmx",
    "gpu-007/ib/mlx5_3 damaged symbols",
    Status.RESOLVED,
    root_cause="ib_link_fault",
    component="optic",
    fleet="prod-a",
    times=Times(WALL - 9e5, WALL - 9e5, recorded=WALL - 9e5),
    nodes="gpu-007",
    places=(LINK,),
    symptoms=("ib_symbol_errors",),
    resolution="换光模块 swapped the optic",
    body="## Evidence\n\n- symbol errors\n",
)


async def until(pilot: Pilot[Any], is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    app: Any = pilot.app
    for _ in range(1000):
        if is_so():
            return
        app.pull()
        await pilot.pause(0.01)
    raise AssertionError(f"never came: {type(app.screen).__name__} {line(app, 'top')} {visible(app)}")


async def on(pilot: Pilot[Any], screen: type) -> StethoscopeApp:
    """Wait for a screen of that kind that takes keys."""
    app: Any = pilot.app
    await until(pilot, lambda: isinstance(app.screen, screen) and app.screen.query("#keys"))
    await pilot.pause()
    return app


async def verdict(pilot: Pilot[Any]) -> StethoscopeApp:
    """Be led to the verdict."""
    app = await ready(pilot)
    await pilot.press("t")
    await until(pilot, lambda: getattr(app.screen, "guide", None) is not None and app.screen.guide.asked is not None)  # type: ignore[attr-defined]
    await pilot.press("v")
    await on(pilot, VerdictScreen)
    await until(pilot, lambda: any(LINK in row for row in visible(app)))
    return app


async def test_two_keys_from_the_verdict_to_what_is_recorded() -> None:
    async with app_on(sick_link()).run_test(size=(80, 24), notifications=True) as pilot:
        app = await verdict(pilot)
        await pilot.press("i")
        await on(pilot, FormScreen)
        assert app.focused is not None
        assert app.focused.id == "resolution", "the cursor waits where a person is needed"
        await pilot.press("ctrl+s")
        await on(pilot, VerdictScreen)
        (one,) = app.library.all()
        assert (one.status, one.root_cause, one.places) == (Status.OPEN, "ib_link_fault", (LINK,))
        assert app.library.drafts() == []
        await pilot.press("i")
        await on(pilot, FormScreen)
        assert one.id in line(app, "top"), "what is recorded is not recorded twice"


async def test_enter_records_what_fixed_it_and_the_next_verdict_says_so() -> None:
    async with app_on(sick_link()).run_test(size=(120, 40)) as pilot:
        app = await verdict(pilot)
        await pilot.press("i")
        await on(pilot, FormScreen)
        await pilot.press(*"换光模块", "ctrl+j", *"ok", "enter")
        await on(pilot, VerdictScreen)
        (one,) = app.library.all()
        assert (one.resolution, one.status) == ("换光模块\nok", Status.RESOLVED)
        assert one.times.resolved is not None
        assert not any(f"looks like {one.id}" in row for row in visible(app)), "nothing is like itself"
        app.recorded.clear()  # what the next console knows
        await pilot.press("escape", "escape")
        await verdict(pilot)
        await until(pilot, lambda: any(f"looks like {one.id}" in row for row in visible(app)))
        assert any("fixed by: 换光模块 ok" in row for row in visible(app))


async def test_what_was_said_to_close_it_is_kept_where_it_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(fleet(8))
    one = app.library.create(replace(OLD, status=Status.OPEN, resolution=""))

    def full(*_: object) -> None:
        raise DataError("No space left on device")

    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await ready(pilot)
        app.open_incident(one.id)
        await on(pilot, IncidentScreen)
        await until(pilot, lambda: any("damaged" in row for row in visible(app)))
        monkeypatch.setattr(app.library, "save", full)
        await pilot.press("c", *"riser", "enter")
        await until(pilot, lambda: any("kept as a draft: No space" in note.message for note in app._notifications))
        (draft,) = app.library.drafts()
        assert (draft.key, draft.incident.resolution, draft.incident.status) == (one.id, "riser", Status.RESOLVED)


async def test_what_another_console_types_is_not_offered_and_not_taken_up() -> None:
    async with app_on(quiet()).run_test(size=(80, 24), notifications=True) as pilot:
        app = await ready(pilot)
        one, theirs = Incident("", "slow job", resolution="half"), writer(os.getppid())
        app.library.save_draft("hand/gpu-001", one, writer=theirs)
        app.library.save_draft("hand/gpu-002", one, writer=f"{theirs}1")
        app.library.save_draft("hand/gpu-003", one, writer=writer())
        elsewhere = {draft.key: draft.is_elsewhere(draft.saved) for draft in app.library.drafts()}
        assert elsewhere == {"hand/gpu-001": True, "hand/gpu-002": False, "hand/gpu-003": False}
        await pilot.press("I")
        await on(pilot, IncidentsScreen)
        await until(pilot, lambda: any("being typed elsewhere" in row for row in visible(app)))
        app.record_by_hand("gpu-001")
        await on(pilot, FormScreen)
        assert "another console is writing about it too" in line(app, "top")
        await pilot.press("x")
        await until(pilot, lambda: len(app.library.drafts()) == 4)
        kept = {draft.key: draft for draft in app.library.drafts()}
        assert kept["hand/gpu-001"].incident.resolution == "half", "what the other one types is not written over"
        await pilot.press("escape")
        await until(pilot, lambda: not {d.key: d for d in app.library.drafts()}[f"hand/gpu-001 +{os.getpid()}"].writer)


async def test_what_is_typed_is_kept_and_offered_again() -> None:
    async with app_on(quiet()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        await pilot.press("I")
        await on(pilot, IncidentsScreen)
        await pilot.press("ctrl+n")
        await on(pilot, FormScreen)
        await pilot.press("h", "a", "l", "f")
        await until(pilot, app.library.drafts)
        assert app.library.drafts()[0].incident.resolution == "half"
        await pilot.press("enter")
        assert isinstance(app.screen, FormScreen), "an incident has a title"
        await pilot.press("x")
        # The connection is lost: what was typed last is kept on the way out.
    assert app.library.drafts()[0].incident.title == "x"
    async with app_on(quiet()).run_test(size=(80, 24), notifications=True) as pilot:
        app = await ready(pilot)
        await until(pilot, lambda: any("not recorded yet" in note.message for note in app._notifications))
        await pilot.press("I")
        await on(pilot, IncidentsScreen)
        await until(pilot, lambda: any("kept" in row for row in visible(app)))
        await pilot.press("enter")
        await on(pilot, FormScreen)
        assert "taken up as it was" in line(app, "top")
        await pilot.press("ctrl+s")
        await on(pilot, IncidentsScreen)
        assert [(one.title, one.resolution) for one in app.library.all()] == [("x", "half")]
        assert app.library.drafts() == []


async def test_it_is_searched_as_one_types(tmp_path: Any) -> None:
    app = app_on(fleet(8))
    app.library.create(OLD)
    app.library.create(replace(OLD, id="INC-2026-03-02-aaaaa", title="gpu-001 hot", resolution="", status=Status.OPEN))
    (tmp_path / "incidents" / "INC-broken.md").write_text("---\nstatus: [\n")
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("I")
        await on(pilot, IncidentsScreen)
        await until(pilot, lambda: "2 · 1 with faults" in line(app, "top"))
        await pilot.press(*"光模")
        await until(pilot, lambda: "1 of 2" in line(app, "top"))
        assert OLD.id in visible(app)[0]
        assert "fixed by 换光模块" in line(app, "detail")
        await pilot.press("enter")
        await on(pilot, IncidentScreen)
        await until(pilot, lambda: any("swapped the optic" in row for row in visible(app)))
        await pilot.press("escape")
        await on(pilot, IncidentsScreen)
        await pilot.press("escape", "tab")
        await until(pilot, lambda: "gpu-001 hot" in visible(app)[0] and "1 of 2" in line(app, "top"))
        await pilot.press("shift+tab", "tab", "tab", "tab", "tab")
        await until(pilot, lambda: any("INC-broken.md" in row for row in visible(app)))
        await pilot.press("escape", "escape")
        assert app.screen is app.fleet_screen


async def test_it_is_closed_with_a_line_and_edited_without_losing_what_others_wrote(tmp_path: Any) -> None:
    app = app_on(fleet(8))
    one = app.library.create(replace(OLD, status=Status.OPEN, resolution=""))
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        app.open_incident(one.id)
        await on(pilot, IncidentScreen)
        await until(pilot, lambda: any("damaged symbols" in row for row in visible(app)))
        await pilot.press("c")
        await pilot.pause(0.1)
        await pilot.press(*"riser", "enter")
        await until(pilot, lambda: app.library.get(one.id).resolution == "riser")
        assert app.library.get(one.id).status is Status.RESOLVED
        await pilot.press("e")
        await on(pilot, FormScreen)
        await pilot.press("!")
        path = tmp_path / "incidents" / f"{one.id}.md"
        path.write_text(path.read_text().replace("resolution: riser", "resolution: theirs"))
        await pilot.press("ctrl+s")
        await on(pilot, ConflictScreen)
        said = [plain(row) for row in app.screen.query_one("#values")._fixed]  # type: ignore[attr-defined]
        assert [row.split() for row in said[:3]] == [
            ["resolution", "both", "changed", "it"], ["file", "now", "theirs"], ["yours", "riser!"],
        ]  # fmt: skip
        await pilot.press("escape")
        await on(pilot, FormScreen)
        assert "theirs" in path.read_text(), "nothing is written over without being asked"
        await pilot.press("ctrl+s")
        await on(pilot, ConflictScreen)
        await pilot.press("m")
        await on(pilot, IncidentScreen)
        assert app.library.get(one.id).resolution == "riser!"


async def test_a_node_shows_its_history_and_what_comes_again() -> None:
    app = app_on(fleet(8))
    for day in (1, 5, 9):
        began = SystemClock().wall() - day * 86_400
        times = Times(began, began, recorded=began)
        app.library.create(replace(OLD, id=f"INC-2026-03-0{day}-aaaaa", times=times, fleet=""))
    async with app.run_test(size=(100, 60)) as pilot:
        await ready(pilot)
        app.open_node("gpu-007")
        await on(pilot, NodeScreen)
        await until(pilot, lambda: any("History" in row and "3 incidents" in row for row in visible(app)))
        assert any("3 times" in row for row in visible(app) if "mlx5_3" in row), "the port comes again"
        await pilot.press("i")
        await on(pilot, FormScreen)
        assert app.screen.query_one("#places").value.startswith("gpu-007")  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_hostile_words_leave_the_screens_whole(size: tuple[int, int]) -> None:
    evil = " ".join(EVIL)
    app = app_on(sick_link(evil=evil))
    app.library.create(replace(OLD, title=f"t {evil}", resolution=evil, body=f"## {evil}\n{evil}\n", tags=(evil,)))
    async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
        await ready(pilot)
        await pilot.press("I")
        await on(pilot, IncidentsScreen)
        await until(pilot, lambda: OLD.id in visible(app)[0])
        await pilot.press("enter")
        await on(pilot, IncidentScreen)
        await until(pilot, lambda: any("optic" in row for row in visible(app)))
        await pilot.press("e")
        await on(pilot, FormScreen)
        await pilot.press("tab", "tab", "down")
        assert all(strip.text.isprintable() for strip in app.screen._compositor.render_strips())
        await pilot.press("escape")
        await on(pilot, IncidentScreen)


async def test_a_library_that_cannot_be_read_costs_only_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    broken = Library(tmp_path / "file", cache=tmp_path / "c", seeds=False, drafts=tmp_path / "d")
    app = app_on(fleet(8))
    monkeypatch.setattr(app, "_library", broken)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("I")
        await on(pilot, IncidentsScreen)
        await until(pilot, lambda: any("file: Not" in row for row in visible(app)))
        await pilot.press("escape")
        assert app.screen is app.fleet_screen


def test_the_editor_is_the_users_and_a_fault_stands_where_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "nano -w 'a b'")
    assert editor() == ["nano", "-w", "a b"]
    monkeypatch.setenv("VISUAL", "'broken")
    assert editor() == ["nano", "-w", "a b"]
    monkeypatch.delenv("EDITOR")
    assert editor() == ["vi"]
    assert _with_fault("---\nid: x\n", "") == "---\nid: x\n"
    lines = _with_fault("---\nid: x\n", "f:2:1: bad").splitlines()
    assert lines == ["---", "# mend this: f:2:1: bad (this line not counted)", "id: x"]


async def test_without_a_terminal_there_is_no_editor_and_nothing_is_lost() -> None:
    app = app_on(fleet(8))
    one = app.library.create(OLD)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await ready(pilot)
        app.open_incident(one.id)
        await on(pilot, IncidentScreen)
        await until(pilot, lambda: any("damaged" in row for row in visible(app)))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: any("no editor" in note.message for note in app._notifications))
        assert app.library.get(one.id).title == OLD.title


@pytest.mark.parametrize(("size", "key"), [((80, 24), "i"), ((120, 40), "I")], ids=["form-narrow", "list-wide"])
def test_they_look_as_they_did(
    snap_compare: Any, size: tuple[int, int], key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    async def before(pilot: Pilot[Any]) -> None:
        app = await ready(pilot)
        app.open_finding(next(iter(app.session.snapshot().findings)).id)
        await pilot.pause(0.1)
        await pilot.press(key)
        await on(pilot, FormScreen if key == "i" else IncidentsScreen)
        if key == "I":
            await until(pilot, lambda: OLD.id in visible(app)[0])
            await pilot.press(*"opt")
            await until(pilot, lambda: "1 of 3" in line(app, "top"))
        await pilot.pause(0.1)

    app = app_on(sick_link())
    app.library.create(OLD)
    for number, status in enumerate((Status.OPEN, Status.MITIGATED), 2):
        one = replace(OLD, id=f"INC-2026-02-0{number}-aaaaa", title="gpu-001 hot", resolution="", status=status)
        app.library.create(replace(one, times=Times(WALL - number * 1e6), component="gpu", root_cause="gpu_thermal"))
    assert snap_compare(app, terminal_size=size, run_before=before)
