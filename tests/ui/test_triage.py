"""The guided triage: the questions and the verdict as rows, and driven by keys."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.analysis.triage_ask import ACCEPTED, Answer, Asked, ask
from stethoscope.model.finding import Fact
from stethoscope.model.verdict import Wanted
from stethoscope.session.attending import Attending
from stethoscope.session.guided import read_said
from stethoscope.session.view_state import ViewState
from stethoscope.specs.playbook import load_playbooks
from stethoscope.ui.present.spans import ASCII, UNICODE, plain, row_width
from stethoscope.ui.present.triage import Around, step_rows, triage_title
from stethoscope.ui.present.verdict import verdict_markdown, verdict_rows, verdict_text
from stethoscope.ui.screens.finder import FinderScreen
from stethoscope.ui.screens.triage import TriageScreen
from stethoscope.ui.screens.verdict import VerdictScreen
from tests.builders import WALL, fleet
from tests.ui.scenes import EVIL
from tests.ui.test_console import app_on, line, ready, visible
from tests.ui.triage_scenes import EVERYTHING_EVIL, LINK, quiet, scene, sick_link

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from textual.pilot import Pilot

    from stethoscope.ui.present.spans import Row

AROUND = Around(fleet(1).catalogue, WALL, {"mlxlink": "3 s · harmless"})


def texts(rows: Iterable[Row]) -> list[str]:
    return [plain(row).rstrip() for row in rows]


@pytest.fixture(scope="module")
def sick() -> Asked:
    return ask(scene(sick_link()), load_playbooks(), {("slow", "scope"): Answer("all alike", ACCEPTED)})


def test_a_question_with_its_facts_on_a_wide_terminal(sick: Asked) -> None:
    said = texts(step_rows(sick, AROUND, UNICODE, 140))
    assert said[0] == " scope: all alike > communication ? > verdict"
    assert said[2].startswith(" 2  Does the traffic go over the fabric")
    assert said[4].split() == ["value", "expected", "where", "age"]
    sign, *_ = (text for text in said if "symbol errors" in text)
    assert sign.split() == ["+", "symbol", "errors", "41/s", "below", "10.1/h", LINK, "3", "m"]
    assert any("I would say: no. gpu-007/ib/mlx5_3: symbol errors +41/s" in text for text in said)
    assert any(text.startswith("    m mlxlink at gpu-007/ib/mlx5_3: low light") for text in said)
    assert any("by hand at gpu-007" in text for text in said), "this console does not run ibdiagnet"


def test_a_question_on_a_narrow_terminal_and_why(sick: Asked) -> None:
    rows = step_rows(sick, AROUND, ASCII, 80, why=True)
    said = texts(rows)
    assert max(map(row_width, rows)) <= 80
    assert "    + symbol errors: 41/s" in said
    assert "      expected below 10.1/h | gpu-007/ib/mlx5_3 | 3 m ago" in said
    assert any(text.startswith('      + "no" when layer of what is found so far') for text in said)


def test_what_a_lost_node_said_is_not_known_any_more(sick: Asked) -> None:
    around = AROUND._replace(lost={"gpu-007": WALL - 3})
    said = texts(step_rows(sick, around, UNICODE, 80))
    assert "    ? symbol errors: unknown: lost 3 s ago, was 41/s" in said
    assert any(text.startswith("    + throughput lost") for text in said), "that is of the job"
    assert not any(text.startswith("    m ") for text in said)
    assert any("not now: gpu-007 does not" in text for text in said)
    wide = texts(step_rows(sick, around, UNICODE, 200))
    assert any(text.strip() == "unknown: lost 3 s ago, was 41/s" for text in wide)
    since = AROUND._replace(lost={"gpu-007": WALL - 300})
    assert "    + symbol errors: 41/s" in texts(step_rows(sick, since, UNICODE, 80)), "it was seen after that"


def test_the_verdict_says_all_of_it(sick: Asked) -> None:
    said = texts(verdict_rows(sick, AROUND, UNICODE, 120))
    assert said[0].startswith(" ▲ P1  gpu-007/ib/mlx5_3: symbol errors +41/s")
    assert said[0].split()[-2] == "ib_link_fault"
    assert "felt by job/4242" in said[1]
    labels = [text[1:11].strip() for text in said if text[1:11].strip() and text[1] != " "]
    assert [label for label in ("because", "not", "settle", "do", "the way") if label in labels] == [
        "because", "not", "settle", "do", "the way",
    ]  # fmt: skip
    assert any(text.endswith("all alike (you agreed)") for text in said)


def test_nothing_wrong_is_said_plainly() -> None:
    healthy = ask(scene(quiet(), slow=False), load_playbooks(), {})
    assert texts(verdict_rows(healthy, AROUND, UNICODE, 100))[0].startswith(" ·  Nothing is wrong that can be seen")
    assert any("I would say: no. Nothing is wrong." in text for text in texts(step_rows(healthy, AROUND, UNICODE, 90)))


def test_evil_words_stay_words(sick: Asked) -> None:
    evil = Fact(EVERYTHING_EVIL, EVERYTHING_EVIL, EVERYTHING_EVIL, EVERYTHING_EVIL, EVERYTHING_EVIL, EVERYTHING_EVIL)
    verdict = replace(
        sick.found.verdict, root_cause=EVERYTHING_EVIL, summary=EVERYTHING_EVIL, supports=(evil,), contradicts=(evil,)
    )
    wanted = (Wanted(EVERYTHING_EVIL, "mlxlink", EVERYTHING_EVIL), Wanted("a", EVERYTHING_EVIL, "b", EVERYTHING_EVIL))
    found = replace(sick.found, verdict=verdict, alternatives=(verdict,), wanted=wanted)
    asked = replace(sick, found=found, place=EVERYTHING_EVIL)
    text = verdict_text(asked, AROUND, ASCII)
    markdown = verdict_markdown(asked, EVERYTHING_EVIL, AROUND, ASCII)
    for said in (text, markdown):
        assert not any(letter in said for letter in "\x1b\x9b\x07\x00\u202e")
    assert markdown.count("```") == 2
    for cells in (60, 80, 200):
        for row in (*verdict_rows(asked, AROUND, UNICODE, cells), triage_title(asked, EVERYTHING_EVIL, WALL, cells)):
            assert row_width(row) <= max(cells, row_width(triage_title(asked, EVERYTHING_EVIL, WALL, cells)))


def test_what_was_kept_is_read_with_care() -> None:
    good = {"flow": "slow", "step": "scope", "answer": "all alike", "how": "accepted", "at": WALL - 60}
    bad: list[Any] = [
        {**good, "step": "old", "at": WALL - 86_400},
        {**good, "step": "how", "how": "guessed"},
        {**good, "step": "evil", "answer": EVIL[0]},
        {**good, "step": "type", "at": "now"},
        "no answer",
    ]
    assert list(read_said({"said": [good, *bad]}, WALL)) == [("slow", "scope")]
    assert read_said({"said": 7}, WALL) == {}


def test_a_watch_begins_anew_when_time_goes_back() -> None:
    attending, snapshot = Attending(), sick_link()
    attending.look(snapshot)
    attending.look(replace(snapshot, mono=snapshot.mono + 30))
    assert attending.watched_s(replace(snapshot, mono=snapshot.mono + 30)) == 30
    attending.look(replace(snapshot, mono=snapshot.mono - 100))
    assert attending.watched_s(snapshot) == 100


def test_a_large_fleet_is_not_pictured_for_a_watch_that_is_not_due() -> None:
    attending, snapshot = Attending(), sick_link()
    assert attending.is_due(snapshot.mono)
    attending.look(snapshot)
    assert [attending.is_due(snapshot.mono + after_s) for after_s in (-1, 1, 3)] == [True, False, True]
    attending.look(replace(snapshot, mono=snapshot.mono + 30, nodes=snapshot.nodes * 9))
    assert [attending.is_due(snapshot.mono + after_s) for after_s in (31, 39, 41)] == [False, False, True]


# ---- with keys


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait for what is asked beside the loop."""
    for _ in range(500):
        await asyncio.sleep(0.01)
        pilot.app.pull()  # type: ignore[attr-defined]
        await pilot.pause()
        if condition():
            return
    raise AssertionError("it did not come")


def watched(app: Any) -> None:
    """Let the console have watched the fleet for a while."""
    now = app.session.snapshot()
    for age_s in (80, 60, 40, 20, 0):
        app._attending.look(replace(now, mono=now.mono - age_s, wall=now.wall - age_s))


def asking(app: Any) -> bool:
    return isinstance(app.screen, TriageScreen) and app.screen.guide.asked is not None


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


async def test_from_a_key_to_the_verdict_and_into_a_file(state: Path) -> None:
    async with app_on(sick_link()).run_test(size=(100, 40), notifications=True) as pilot:
        app = await ready(pilot)
        app.fleet_screen.memory = ViewState("prod-a")
        watched(app)
        await pilot.press("t")
        await until(pilot, lambda: asking(app))
        assert "A job is slower and nothing failed" in line(app, "top")
        await pilot.press("o")
        assert isinstance(app.screen, FinderScreen)
        await pilot.press(*"all", "enter")
        await until(pilot, lambda: asking(app) and app.screen.guide.asked.at == 1)
        await pilot.press("w")
        assert any("why: the flow slow (flow_slow.yaml)" in text for text in visible(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, VerdictScreen))
        assert "ib_link_fault" in "\n".join(visible(app))
        await pilot.press("w")
        saved = list((state / "stethoscope" / "saved").glob("verdict-ib_link_fault-*.md"))
        assert len(saved) == 1
        assert saved[0].stat().st_mode & 0o777 == 0o600
        assert saved[0].read_text().startswith("# P1 ib\\_link\\_fault: gpu-007/ib/mlx5\\_3")
        # The last answer is taken back, and the question is there again.
        await pilot.press("b")
        await until(pilot, lambda: asking(app) and app.screen.guide.step.id == "communication")
    # Another console goes on where this one was left.
    async with app_on(sick_link()).run_test(size=(100, 40)) as pilot:
        app = await ready(pilot)
        app.fleet_screen.memory = ViewState("prod-a")
        watched(app)
        await pilot.press("t")
        await until(pilot, lambda: asking(app))
        assert app.screen.guide.step.id == "communication"  # type: ignore[attr-defined]
        assert any("resumed with your answers since" in text for text in visible(app))


async def test_keys_where_nothing_is_wrong_or_can_be_run() -> None:
    async with app_on(quiet()).run_test(size=(80, 24), notifications=True) as pilot:
        app = await ready(pilot)
        await pilot.press("t")
        await until(pilot, lambda: asking(app))
        assert any("Nothing is wrong." in text for text in visible(app))
        for key in ("m", "s", "b", "b", "w", "o", "escape", "enter"):
            await pilot.press(key)
        await until(pilot, lambda: asking(app))
        assert any("All questions are answered." in text for text in visible(app))
        await pilot.press("v")
        assert isinstance(app.screen, VerdictScreen)
        await pilot.press("c", "m", "escape", "escape")
        assert app.screen is app.fleet_screen


async def test_an_evil_fleet_can_be_asked_about() -> None:
    async with app_on(sick_link(evil=EVERYTHING_EVIL)).run_test(size=(80, 24), notifications=True) as pilot:
        app = await ready(pilot)
        await pilot.press("t")
        await until(pilot, lambda: asking(app))
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, VerdictScreen))
        assert not any(letter in text for text in visible(app) for letter in "\x1b\x9b\x00\u202e")


def shown(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    async def before(pilot: Pilot[None]) -> None:
        app = await ready(pilot)
        watched(app)
        await pilot.press("t")
        await until(pilot, lambda: asking(app))
        await pilot.press(*keys)
        await until(pilot, lambda: not keys or isinstance(app.screen, VerdictScreen))

    return before


@pytest.mark.parametrize("keys", [pytest.param((), id="step-narrow"), pytest.param(("v",), id="verdict-narrow")])
def test_the_triage_looks_as_it_did(snap_compare: Any, keys: tuple[str, ...]) -> None:
    assert snap_compare(app_on(sick_link()), terminal_size=(80, 24), run_before=shown(*keys))
