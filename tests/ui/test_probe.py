"""On-demand probes in the console: chosen, previewed, run and read by keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual import events

from stethoscope.collect.command import Answer
from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report
from stethoscope.session import probe_result
from stethoscope.session.ondemand import preview_of
from stethoscope.session.probe_run import ProbeRun
from stethoscope.specs.probes import load_manifest
from stethoscope.ui.app import StethoscopeApp
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.probe import preview_rows, probe_rows, result_rows, run_rows, value_words
from stethoscope.ui.present.spans import ASCII, UNICODE, Tone, plain, to_ascii
from stethoscope.ui.screens.ask import AskScreen
from stethoscope.ui.screens.finder import FinderScreen
from stethoscope.ui.screens.node import NodeScreen
from stethoscope.ui.screens.probe import ProbePreviewScreen, ProbeResultScreen
from stethoscope.ui.widgets.rows import Lines, RowsView
from tests.builders import fleet
from tests.session.asked import framed, ok, runs_on
from tests.ui.consoles import StillSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from stethoscope.model.fleet import FleetSnapshot

PROBES = {probe.id: probe for probe in load_manifest().ondemand}
LIGHT = Report(
    "mlxlink",
    (
        Item("mlx5_3:1", "lanes", 4, "lanes"),
        Item("mlx5_3:1", "rx_power_lane_2", -9.5, "dBm", "critical"),
        Item("mlx5_3:1", "temperature", 61.0, "C", "warning"),
        Item("mlx5_3:1", "fec", Missing(Reason.UNSUPPORTED)),
    ),
    ("Bad signal integrity",),
    ("new field",),
)


@pytest.fixture(autouse=True)
def parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every output be read as LIGHT."""
    monkeypatch.setattr(probe_result, "reader", lambda _name: lambda *_args, **_named: LIGHT)


class Console:
    """The console on a fleet whose nodes answer."""

    def __init__(self, snapshot: FleetSnapshot, answer: Callable[[str, str], Answer] = ok) -> None:
        session = StillSession(snapshot)
        self.runs, self.source = runs_on(snapshot, answer)
        session.ondemand = self.runs  # type: ignore[attr-defined]

        async def open_session() -> StillSession:
            return session

        self.app = StethoscopeApp(open_session, "test")


async def on_node(pilot: Pilot[None], name: str = "gpu-001") -> StethoscopeApp:
    app = pilot.app
    assert isinstance(app, StethoscopeApp)
    for _ in range(3000):
        if app.session is not None:
            break
        await pilot.pause(0.01)
    app.open_node(name)
    await until(pilot, NodeScreen)
    return app


async def until(pilot: Pilot[None], kind: type, true: Callable[[], bool] = lambda: True) -> None:
    """Wait until a screen of this kind is in front and something holds."""
    for _ in range(3000):
        await pilot.pause(0.01)
        if isinstance(pilot.app.screen, kind) and true():
            pilot.app.pull()  # type: ignore[attr-defined]
            await pilot.pause()
            return
    raise AssertionError(f"{pilot.app.screen} is in front")


async def choose(pilot: Pilot[None], *words: str) -> None:
    """Take from one list after the other what fits a word."""
    for word in words:
        await until(pilot, FinderScreen)
        await pilot.press(*word, "enter")
        await pilot.pause()


def text(app: StethoscopeApp) -> str:
    view = app.screen.query_one(RowsView)
    return "\n".join(plain(view.line(index)).rstrip() for index in range(view.line_count()))


def top(app: StethoscopeApp) -> str:
    return plain(app.screen.query_one("#top", Lines).rows[0])


async def test_from_the_node_to_the_values() -> None:
    console = Console(fleet(2))
    async with console.app.run_test(size=(100, 40)) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await until(pilot, FinderScreen)
        choices = app.screen.found  # type: ignore[attr-defined]
        assert choices[0][:2] == (
            "mlxlink",
            "port and module, as the adapter measures them · 3 s · harmless · better as root",
        )
        await choose(pilot, "mlxlink", "mlx5_3")
        await until(pilot, ProbePreviewScreen)
        said = text(app)
        assert console.source.asked == [], "nothing runs before it was seen"
        assert '   run_root "$tool" -d "$1" -p "$2" -m -c' in said
        assert "gpu-001 mlx5_3 1  as root, or with sudo -n, else without" in said
        assert " costs      3 s · harmless · better as root; ended after 40 s" in said
        await pilot.press("enter")
        await until(pilot, ProbeResultScreen, lambda: bool(app.screen.results))  # type: ignore[attr-defined]
        assert [node for node, _, _ in console.source.asked] == ["gpu-001"]
        lines = text(app).split("\n")
        assert lines[0].startswith(" · gpu-001/ib/mlx5_3  mlxlink  ok  02:14:07 UTC, took ")
        assert lines[2].split() == ["✖", "mlx5_3:1", "rx", "power", "lane", "2", "-9.5", "dBm"]
        assert lines[3].split() == ["▲", "mlx5_3:1", "temperature", "61", "C"]
        assert lines[4] == " ▲ Bad signal integrity"
        assert " $ tool" in lines
        assert "   not read: new field" in lines
        assert "   fine" in lines
        await pilot.press("escape")
        await until(pilot, NodeScreen)


async def test_leaving_while_it_runs_and_finding_it_later() -> None:
    console = Console(fleet(2))
    console.source.gate.clear()
    async with console.app.run_test(size=(100, 40)) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await choose(pilot, "ibstat")
        await until(pilot, ProbePreviewScreen)
        await pilot.press("enter")
        await until(pilot, ProbeResultScreen)
        assert top(app).startswith(" asking gpu-001 for ibstat, 0 back, ")
        await pilot.press("escape")
        await until(pilot, NodeScreen)
        await pilot.press("o")
        await choose(pilot, "now")
        await until(pilot, ProbeResultScreen)
        assert top(app).startswith(" asking gpu-001 for ibstat")
        await pilot.press("escape")
        console.source.gate.set()
        await until(pilot, NodeScreen, lambda: bool(console.runs.results))
        await pilot.press("o")
        await until(pilot, FinderScreen)
        assert ("read: ibstat", "0.0 s ago, ok, 3 wrong") in [
            choice[:2]
            for choice in app.screen.found  # type: ignore[attr-defined]
        ]
        await choose(pilot, "read")
        await until(pilot, ProbeResultScreen)
        assert "rx power lane 2" in text(app)


async def test_all_ports_one_after_the_other() -> None:
    console = Console(fleet(2))
    async with console.app.run_test(size=(100, 40)) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await choose(pilot, "mlxlink", "all")
        await until(pilot, ProbePreviewScreen)
        assert "and 7 more, each with its own arguments" in text(app)
        await pilot.press("enter")
        await until(pilot, ProbeResultScreen, lambda: len(app.screen.results) == 8)  # type: ignore[attr-defined]
        assert text(app).split("\n")[0] == " · gpu-001 (8 runs)  ok"


async def test_a_busy_gpu_needs_a_second_word() -> None:
    console = Console(fleet(2))
    async with console.app.run_test(size=(100, 40)) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await choose(pilot, "dcgm")
        await until(pilot, ProbePreviewScreen)
        assert "▲ gpu-001  refused: busy: GPU 0-7" in text(app)
        assert top(app).endswith("refused, F runs it anyway ")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ProbePreviewScreen)
        await pilot.press("F", *"no", "enter")
        await until(pilot, ProbePreviewScreen)
        assert console.source.asked == []
        await pilot.press("F", *"yes", "enter")
        await until(pilot, ProbeResultScreen, lambda: bool(app.screen.results))  # type: ignore[attr-defined]
        assert "run although it was refused" in text(app)
        assert len(console.source.asked) == 1


async def test_what_is_refused_is_said_on_a_narrow_terminal_too() -> None:
    console = Console(fleet(2))
    async with console.app.run_test(size=(80, 24), notifications=True) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await choose(pilot, "dcgm")
        await until(pilot, ProbePreviewScreen)
        assert top(app).startswith(" dcgm_diag_r1  on gpu-001 ")
        assert top(app).endswith(" refused, F runs it anyway ")
        keys = plain(app.screen.query_one("#keys", Lines).rows[0])
        assert keys.startswith(" F run anyway   ")
        assert "enter" not in keys
        assert max(len(line) for line in text(app).splitlines()) < 80
        assert "…" not in text(app)
        await pilot.press("F")
        await until(pilot, AskScreen)
        assert [plain(row) for row in app.screen.query_one("#why", Lines).rows] == [" busy: GPU 0-7"]
        await pilot.press("enter")
        await until(pilot, ProbePreviewScreen)
        assert [one.message for one in app._notifications] == ["nothing was run"]


@pytest.mark.parametrize("width", [80, 200])
async def test_what_is_typed_in_one_burst_goes_where_it_would_go_slowly(width: int) -> None:
    console = Console(fleet(2))
    async with console.app.run_test(size=(width, 40)) as pilot:
        app = await on_node(pilot)
        for key in ("o", *"ibstat", "enter", "enter"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(pilot, ProbeResultScreen, lambda: bool(app.screen.results))  # type: ignore[attr-defined]
        assert [result.probe for result in app.screen.results] == ["ibstat"]  # type: ignore[attr-defined]
        assert len(console.source.asked) == 1


async def test_what_cannot_be_run_is_said_and_nothing_opens() -> None:
    console = Console(replace(fleet(2), read_only=True))
    async with console.app.run_test(size=(100, 40), notifications=True) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await pilot.pause(0.1)
        assert isinstance(app.screen, NodeScreen)
        assert [notice.message for notice in app._notifications] == [
            "--read-only allows no command but the stream probe"
        ]
        await pilot.press("escape")


async def test_hostile_output_is_text() -> None:
    def hostile(_node: str, _line: str) -> Answer:
        return Answer(0, framed(("tool", "\x1b[31mred [b]bold[/b] \x07", 0)), "")

    console = Console(fleet(2), hostile)
    async with console.app.run_test(size=(60, 20)) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await choose(pilot, "ibstat")
        await until(pilot, ProbePreviewScreen)
        await pilot.press("enter")
        await until(pilot, ProbeResultScreen, lambda: bool(app.screen.results))  # type: ignore[attr-defined]
        assert "   red [b]bold[/b]" in text(app)
        await pilot.press("pagedown", "down", "k", "pageup", "y", "escape")
        await until(pilot, NodeScreen)


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (-9.5, "dBm", "-9.5 dBm"),
        (123456789, "", "123456789"),
        (True, "", "yes"),
        (False, "", "no"),
        ("Active", "", "Active"),
        (Missing(Reason.PERMISSION), "dBm", "? permission"),
        (0, "errors", "0 errors"),
    ],
)
def test_a_value_in_words(value: object, unit: str, words: str) -> None:
    assert value_words(Item("", "x", value, unit)) == words  # type: ignore[arg-type]


@pytest.mark.parametrize("probe", PROBES.values(), ids=lambda probe: probe.id)
def test_every_probe_can_be_shown_in_ascii(probe) -> None:  # type: ignore[no-untyped-def]
    from stethoscope.collect.ondemand import about, commands_of

    rows = probe_rows(probe, commands_of(probe.id), about(probe.id), 80, ASCII)
    assert all(to_ascii(plain(row)).isascii() for row in rows)


async def test_nodes_that_stand_alike_are_folded() -> None:
    snapshot = fleet(4)
    runs, _ = runs_on(snapshot)
    rows = preview_rows(runs.preview("ibstat", [node.name for node in snapshot.nodes]), 100, UNICODE)
    assert any("gpu-[001-004]  as the user who logged in" in plain(row) for row in rows)


async def test_many_results_begin_with_how_they_went() -> None:
    def answer(node: str, line: str) -> Answer:
        if node == "gpu-002":
            return Answer(127, b"", "stethoscope-probe: not installed: ibstat\n")
        return ok(node, line)

    runs, _ = runs_on(fleet(3), answer)
    preview = runs.preview("ibstat", ["gpu-001", "gpu-002", "gpu-003"])
    batch = runs.start(preview)
    assert batch.task is not None
    await batch.task
    rows = run_rows(ProbeRun(preview, tuple(batch.results), ("gpu-001",)), 100, UNICODE)
    assert [plain(row) for row in rows[:2]] == [
        " ▲ gpu-002  ibstat is not installed on the node",
        " · gpu-[001,003]  ok",
    ]
    assert rows[0][-1].tone is Tone.WARNING


async def test_a_single_result_says_why_there_is_nothing() -> None:
    runs, _ = runs_on(fleet(1), lambda *_: Answer(127, b"", "stethoscope-probe: not installed: ibstat\n"))
    batch = runs.start(runs.preview("ibstat", ["gpu-001"]))
    assert batch.task is not None
    await batch.task
    rows = result_rows(batch.results[0], 80, UNICODE)
    assert [plain(row) for row in rows] == [
        " ▲ gpu-001  ibstat  not installed  02:14:07 UTC, took 0 s",
        "   ibstat is not installed on gpu-001",
    ]


async def test_a_flood_of_lines_is_shown_in_part_and_saved_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.ui.screens.probe.MOST_LINES", 3)
    long = "x" * 100_000
    console = Console(fleet(2), lambda *_: Answer(0, framed(("ibstat", f"{long}\n1\n2\n3\n4", 0)), ""))
    async with console.app.run_test(size=(80, 24)) as pilot:
        app = await on_node(pilot)
        await pilot.press("o")
        await choose(pilot, "ibstat")
        await until(pilot, ProbePreviewScreen)
        await pilot.press("enter")
        await until(pilot, ProbeResultScreen, lambda: bool(app.screen.results))  # type: ignore[attr-defined]
        assert text(app).splitlines()[-3:] == ["   1", "   2", "   and 2 more lines, which w saves"]
        saved = app.screen.text().splitlines()  # type: ignore[attr-defined]
        assert saved[-5:] == [f"   {long}", "   1", "   2", "   3", "   4"]


async def test_what_was_not_run_took_no_time() -> None:
    runs, _ = runs_on(fleet(1))
    batch = runs.start(runs.preview("dcgm_diag_r1", ["gpu-001"]))
    assert batch.task is not None
    await batch.task
    rows = result_rows(batch.results[0], 80, UNICODE)
    assert [plain(row) for row in rows] == [" ▲ gpu-001  dcgm_diag_r1  refused  02:14:07 UTC", "   busy: GPU 0-7"]


async def test_lanes_and_links_stand_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    items = (
        Item("", "state", "Active"),
        *(Item(f"lane/{lane}", "rx_power", power, "dBm") for lane, power in enumerate((1.8, 1.9, -9.5, 2.1))),
        *(Item(f"lane/{lane}", "tx_fault", 0) for lane in range(4)),
        Item("lane/2", "odd", "yes"),
        Item("", "fw", "28.39"),
    )
    report = Report("x", items)
    monkeypatch.setattr(probe_result, "reader", lambda _name: lambda *_args, **_named: report)
    runs, _ = runs_on(fleet(1))
    batch = runs.start(runs.preview("mlxlink", ["gpu-001/ib/mlx5_3"]))
    assert batch.task is not None
    await batch.task
    rows = [plain(row).split() for row in result_rows(batch.results[0], 80, UNICODE, raw=False)]
    assert rows[2:] == [
        ["gpu-001/ib/mlx5_3"],
        ["state", "Active"],
        ["fw", "28.39"],
        [],
        ["lane/*", "(4)"],
        ["rx", "power", "1.8", "1.9", "-9.5", "2.1", "dBm"],
        ["tx", "fault", "0", "(all", "4)"],
        ["lane/2", "odd", "yes"],
    ]


def test_a_preview_of_nothing() -> None:
    rows = preview_rows(preview_of(PROBES["ibstat"], ()), 80, UNICODE)
    assert not any("command line" in plain(row) for row in rows)


def test_a_recording_offers_no_probe() -> None:
    assert ("o", "probe") in footer_of("node")
    assert ("o", "probe") not in footer_of("node", replay=True)
