"""The console on a recording: the mark, the time, and what the keys do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from stethoscope.session.open import session_maker
from stethoscope.session.replay import ReplaySession, ReplayState
from stethoscope.store.tape import open_tape
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.keys import KEYS, footer_of, keys_of
from stethoscope.ui.present.replay import replay_marks, replay_word
from stethoscope.ui.present.spans import UNICODE, plain, width
from stethoscope.ui.screens.finder import everything
from stethoscope.ui.screens.help import help_rows
from stethoscope.ui.widgets.rows import Lines
from tests.builders import fleet
from tests.store.made import STARTED, record
from tests.ui.consoles import StillSession
from tests.ui.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "night.sthr"
    record(path, "at: 100s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2", until_s=160)
    return path


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (ReplayState(8, False, False, False, 0.3, 1), "8x"),
        (ReplayState(0.25, False, False, False, 0.3, 1), "1/4x"),
        (ReplayState(1, True, False, False, 0.3, 1), "paused"),
        (ReplayState(1, True, True, False, 0.3, 1), "seeking"),
        (ReplayState(1, False, False, True, 1.0, 1), "end"),
    ],
)
def test_the_mark_says_how_it_moves(state: ReplayState, word: str) -> None:
    assert replay_word(state) == word
    long, short = replay_marks(state, STARTED)
    assert plain(long) == f" REPLAY  {word}  {state.share:.0%}  2026-03-14 02:14:07 UTC "
    assert plain(short) == f" REPLAY  {word} 02:14:07 "


def test_keys_of_a_replay_are_shown_there_alone() -> None:
    replay_keys = {key.id for key in KEYS if key.replay}
    assert len(replay_keys) == 9
    assert not replay_keys & {key.id for key in keys_of("fleet")}
    assert replay_keys <= {key.id for key in keys_of("node", replay=True)}
    words = [f"{key} {word}" for key, word in footer_of("fleet", replay=True)]
    assert words == ["enter node", "space pause", ", back 10 s", ". on 10 s", "n next change", "? keys"]
    assert not [row for row in help_rows(UNICODE, 80) if "next change" in plain(row)]
    assert any("Play at twice the speed" in plain(row) for row in help_rows(UNICODE, 80, replay=True))
    for replay in (False, True):
        bound = [name for key in keys_of("fleet", replay=replay) for name in key.keys if key.action]
        assert len(bound) == len(set(bound))


def top(app: StethoscopeApp) -> str:
    return plain(app.screen.query_one("#top", Lines).rows[0])


async def until(pilot: Pilot[None], app: StethoscopeApp, true) -> str:  # type: ignore[no-untyped-def]
    for _ in range(3000):
        app.pull()
        await pilot.pause(0.005)
        if true(top(app)):
            return top(app)
    raise AssertionError(top(app))


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_the_keys_move_in_time(recording: Path, size: tuple[int, int]) -> None:
    session = ReplaySession(open_tape(recording), session_maker(), at=60)

    async def open_session() -> ReplaySession:
        return session

    app = StethoscopeApp(open_session, "replay")
    async with app.run_test(size=size) as pilot:
        # Pause would end the way to where it begins.
        await until(pilot, app, lambda text: "REPLAY" in text and "live" in text and not session.state.seeking)
        await pilot.press("space")
        first = await until(pilot, app, lambda text: "paused" in text)
        assert width(first) <= size[0]
        stands = session.clock.monotonic()
        # It played on until the key was heard; the mark says the second at which it stands.
        assert stands >= 60
        assert f"{datetime.fromtimestamp(STARTED + stands, UTC):%H:%M:%S}" in first
        await pilot.press("full_stop")
        await until(pilot, app, lambda text: "paused" in text and session.clock.monotonic() == stands + 10)
        await pilot.press("comma", "comma")
        await until(pilot, app, lambda text: "paused" in text and session.clock.monotonic() == stands - 10)
        await pilot.press("greater_than_sign")
        await until(pilot, app, lambda text: "paused" in text and session.clock.monotonic() == stands + 50)
        await pilot.press("less_than_sign")
        await until(pilot, app, lambda text: "paused" in text and session.clock.monotonic() == stands - 10)
        await pilot.press("n")
        await until(pilot, app, lambda text: "paused" in text and "✖" in text)
        assert 100 <= session.clock.monotonic() <= 102
        await pilot.press("at", *"+50s", "enter")
        await until(pilot, app, lambda text: "✖" not in text and session.clock.monotonic() == 50)
        await pilot.press("at", *"later", "enter")
        await pilot.pause()
        assert session.clock.monotonic() == 50
        await pilot.press("plus", "plus", "minus", "equals_sign", "space")
        await until(pilot, app, lambda text: " 4x" in text)
        choices, _ = everything(app)
        assert "replay: next change" in [title for title, _, _ in choices]
        await pilot.press("enter")
        await until(pilot, app, lambda text: "gpu-00" in text and "REPLAY" in text)
        await pilot.press("space")
        await until(pilot, app, lambda text: "paused" in text)


async def test_without_a_replay_its_keys_do_nothing() -> None:
    session = StillSession(fleet(2))

    async def open_session() -> StillSession:
        return session

    app = StethoscopeApp(open_session, "test")
    async with app.run_test() as pilot:
        await until(pilot, app, lambda text: "live" in text)
        await pilot.press("n", "comma", "at", "plus")
        assert app.screen is app.fleet_screen
        assert "REPLAY" not in top(app)
        choices, _ = everything(app)
        assert not [title for title, _, _ in choices if title.startswith("replay")]


async def test_a_notice_of_the_session_is_told_once() -> None:
    class Telling(StillSession):
        told = 0

        def take_notices(self) -> list[str]:
            self.told += 1
            return ["recording stopped: [/x] No space left on device"] if self.told == 1 else []

    session = Telling(fleet(2))

    async def open_session() -> StillSession:
        return session

    app = StethoscopeApp(open_session, "test")
    async with app.run_test(notifications=True) as pilot:
        await until(pilot, app, lambda text: "live" in text)
        assert [notice.message for notice in app._notifications] == ["recording stopped: [/x] No space left on device"]


def test_replay_in_a_terminal_of_80x24(recording: Path, tmp_path: Path) -> None:
    arguments = ["-m", "stethoscope", "replay", str(recording), "--at", "+50s"]
    with Terminal(arguments, HOME=str(tmp_path)) as terminal:
        text = terminal.wait(lambda text: "REPLAY" in text and "02:14:5" in text)
        lines = text.splitlines()
        assert lines[0].startswith(" twin SIM 6n 48g · 6 live")
        assert "REPLAY  1x" in lines[0]
        assert all(len(line) <= 80 for line in lines)
        assert ", back 10 s" in lines[-1]
        terminal.send("n")
        terminal.wait("fell off the bus")
        terminal.send("  ")
        terminal.send("?")
        terminal.wait("in this replay")
        terminal.send("\x1b")
        terminal.settle()
        terminal.send("@")
        terminal.wait("time: 02:14:07")
        terminal.send("+10s\r")
        terminal.wait(lambda text: "02:14:1" in text and "fell off" not in text)
        terminal.send("q")
        assert terminal.finish() == 0
        assert b"Traceback" not in terminal.raw


def test_watch_records_and_says_when_it_cannot(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Terminal(["-m", "stethoscope"], columns=100, HOME=str(tmp_path), XDG_STATE_HOME=str(state)) as terminal:
        terminal.wait("live")
        terminal.send("q")
        assert terminal.finish() == 0
    (file,) = state.glob("stethoscope/recordings/*/*.sthr")
    assert open_tape(file).reels[0].recording.closed
    (tmp_path / "taken").write_text("a file")
    blocked = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "taken")}
    with Terminal(["-m", "stethoscope"], columns=100, **blocked) as terminal:
        terminal.wait("recording stopped: Not a directory")
        terminal.wait("live")
        terminal.send("q")
        assert terminal.finish() == 0
    with Terminal(["-m", "stethoscope", "watch", "--no-record"], columns=100, **blocked) as terminal:
        terminal.wait("live")
        assert "recording stopped" not in terminal.settle()
        terminal.send("q")
        assert terminal.finish() == 0
    assert (tmp_path / "taken").read_text() == "a file"
