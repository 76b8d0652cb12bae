"""The findings pane, the night's list and the card of a finding."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.analysis.history import History
from stethoscope.model.finding import Fact, Finding, Severity
from stethoscope.paths import bundled
from stethoscope.session.night import NightKeeper
from stethoscope.specs.load import load, loads
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule import Rule, read_rules
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.finding_card import Known, card_markdown, card_rows, card_text, where_text
from stethoscope.ui.present.finding_list import fits, list_rows, list_title
from stethoscope.ui.present.finding_rule import rule_rows
from stethoscope.ui.present.finding_words import sure_words
from stethoscope.ui.present.findings import finding_rows
from stethoscope.ui.present.spans import ASCII, UNICODE, plain, row_width
from tests.builders import MONO, WALL, fleet
from tests.ui.consoles import StillSession
from tests.ui.scenes import EVIL, finding, hostile, troubled
from tests.ui.test_console import app_on, ready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.present.spans import Row

BEFORE = "2026-03-14T01:50:07Z"
RULE = """
rule_id: link
description: A port counts symbol errors, although its link stays up.
severity: P1
confidence: 0.9
trigger:
  - {metric: ib_symbol_error, operator: ">", threshold: 0.033, aggregate: rate, window: 60s}
"""


def texts(rows: Iterable[Row]) -> list[str]:
    """Return rows as text, without blanks at their ends."""
    return [plain(row).rstrip() for row in rows]


def nightly(snapshot: FleetSnapshot | None = None) -> tuple[FleetSnapshot, NightKeeper]:
    """Return a fleet in trouble at night: one finding is acknowledged, one snoozed, one noted, and two have cleared."""
    os.environ["LOGNAME"] = "kim"
    now = snapshot or troubled()
    night = NightKeeper()
    gone = [
        finding("P1", "gpu-031/ib/mlx5_0", "link down", "2026-03-14T01:30:00Z", "down"),
        finding("P0", "gpu-040", "driver not answering", "2026-03-14T01:40:00Z", "driver"),
    ]
    night.take(tuple(gone), WALL - 1500)
    over = [replace(one, state="cleared", cleared_at=BEFORE) for one in gone]
    night.take(tuple(over), WALL - 1440)
    cleared = replace(gone[0], since="2026-03-14T02:05:00Z", state="cleared", cleared_at="2026-03-14T02:09:00Z")
    night.take((replace(cleared, state="active", cleared_at=None),), WALL - 500)
    findings = night.take((*now.findings, cleared), WALL - 25)
    night.acknowledge("driver:gpu-009", WALL - 20)
    night.snooze("thermal:gpu-011/gpu/4", WALL - 20, WALL + 1780)
    night.note("link:gpu-007/ib/mlx5_3", WALL - 15, "optic reseated, watching")
    return replace(now, findings=findings, night=night.entries), night


class NightSession(StillSession):
    """A session at night."""

    def __init__(self, snapshot: FleetSnapshot | None = None) -> None:
        """Stand at the moment of that night."""
        made, night = nightly(snapshot)
        super().__init__(made)
        self.night = night  # type: ignore[misc]

    def rule(self, id_: str) -> Rule | None:
        """Return the only rule that there is."""
        [rule] = read_rules(loads(RULE, "playbooks/rules/fabric.yaml"), load_catalogue(), {})
        return rule if id_ == rule.id else None


# ---- the pane


def test_the_pane_shows_what_is_loud_before_what_somebody_has_seen() -> None:
    snapshot, _ = nightly()
    rows = texts(finding_rows(assess(snapshot, MONO), WALL, 140, 8, UNICODE))
    assert [row.split()[2] for row in rows] == [
        "gpu-002/gpu/2", "gpu-007/ib/mlx5_3", "gpu-014", "gpu-020/gpu/2", "gpu-009", "gpu-011/gpu/4",
        "gpu-031/ib/mlx5_0",
    ]  # fmt: skip
    assert rows[4].endswith("GPU driver not answering, 3 tasks in D state · acknowledged by kim 02:13:47")
    assert rows[5].endswith("snoozed until 02:43:47")
    assert rows[6].endswith("link down · cleared 02:09:00 after 4 m")
    assert rows[6].startswith(" · P1 ")


def test_what_does_not_fit_the_pane_is_counted() -> None:
    snapshot, _ = nightly()
    rows = texts(finding_rows(assess(snapshot, MONO), WALL, 80, 2, UNICODE))
    assert rows[1].endswith("+2 more · 1 acknowledged · 1 snoozed")
    rows = texts(finding_rows(assess(snapshot, MONO), WALL, 140, 5, UNICODE))
    assert rows[4].endswith("1 snoozed")


def test_findings_that_share_a_cause_stand_together() -> None:
    shared = [
        replace(finding("P1", f"gpu-{n:03}", "lost", "2026-03-14T02:11:07Z", f"r{n}"), cause="leaf/leaf-01-3")
        for n in (3, 1)
    ]
    alone = finding("P1", "gpu-002", "hot", "2026-03-14T02:10:07Z", "hot")
    explains = replace(shared[0], explained=11)
    snapshot = fleet(4, findings=[explains, alone, shared[1]])
    rows = texts(finding_rows(assess(snapshot, MONO), WALL, 140, 5, UNICODE))
    assert [row.split()[2] for row in rows] == ["gpu-002", "gpu-001", "gpu-003"]
    assert rows[1].endswith("┐ one cause?")
    assert rows[2].endswith("┘")
    assert "likely common cause leaf/leaf-01-3, explains 11 more" in rows[2]
    narrow = texts(finding_rows(assess(snapshot, MONO), WALL, 80, 5, UNICODE))
    assert all(len(row) <= 80 for row in narrow)
    assert narrow[1].endswith("┐")


@pytest.mark.parametrize("cells", [40, 80, 120, 200])
def test_no_row_is_wider_than_the_screen(cells: int) -> None:
    snapshot, night = hostile(), NightKeeper()
    night.take(snapshot.findings, WALL)
    for id_ in list(night.entries)[:2]:
        night.acknowledge(id_, WALL)
        night.note(id_, WALL, " ".join(EVIL))
    snapshot = replace(snapshot, night=night.entries)
    for rows in (
        finding_rows(assess(snapshot, MONO), WALL, cells, 20, ASCII),
        [row.row for row in list_rows(night.entries.values(), WALL, ASCII, cells)],
        [row for entry in night.entries.values() for row in card_rows(entry, Known(snapshot, WALL), ASCII, cells)],
    ):
        assert all(row_width(row) <= cells for row in rows)


# ---- the list


def test_the_list_has_sections() -> None:
    _, night = nightly()
    rows = list_rows(night.entries.values(), WALL, UNICODE, 120)
    assert [plain(row.row).split() for row in rows if not row.id] == [
        ["Active", "4"], ["Acknowledged", "1"], ["Snoozed", "1"], ["Cleared", "2"],
    ]  # fmt: skip
    by_id = {row.id: plain(row.row) for row in rows if row.id}
    assert "1 note" in by_id["link:gpu-007/ib/mlx5_3"]
    assert "twice tonight" in by_id["down:gpu-031/ib/mlx5_0"]
    assert by_id["driver:gpu-040"].startswith(" · P0")
    newest = [row.id for row in list_rows(night.entries.values(), WALL, UNICODE, 120, sort="newest") if row.id]
    assert newest[:2] == ["bus:gpu-002/gpu/2", "reach:gpu-014"]


def test_what_no_console_has_seen_for_long_says_when_it_was() -> None:
    _, night = nightly()
    later = {row.id: plain(row.row) for row in list_rows(night.entries.values(), WALL + 300, UNICODE, 160) if row.id}
    assert "last seen 02:13:42" in later["reach:gpu-014"]
    assert "acknowledged" not in later["driver:gpu-009"]
    now = {row.id: plain(row.row) for row in list_rows(night.entries.values(), WALL, UNICODE, 160) if row.id}
    assert "last seen" not in now["reach:gpu-014"]


def test_what_is_held_stays_in_its_section() -> None:
    _, night = nightly()
    rows = list_rows(night.entries.values(), WALL, UNICODE, 120, held={"driver:gpu-009": "loud"})
    [held] = [plain(row.row) for row in rows if row.section == "loud" and row.id == "driver:gpu-009"]
    # Below a heading that does not say it, the whole of it stands.
    assert "acknowledged by " in held


def test_words_choose_findings() -> None:
    _, night = nightly()
    entry = night.entries["link:gpu-007/ib/mlx5_3"]
    assert fits(entry, "GPU-007 sick p1")
    assert fits(entry, "reseated")
    assert not fits(entry, "gpu-007 lost")
    assert [row.id for row in list_rows(night.entries.values(), WALL, UNICODE, 120, words="gpu-040") if row.id] == [
        "driver:gpu-040"
    ]
    [row] = list_rows(night.entries.values(), WALL, UNICODE, 120, words="nowhere")
    assert "escape clears" in plain(row.row)
    [row] = list_rows([], WALL, UNICODE, 120)
    assert plain(row.row).strip() == "nothing was found tonight"


def test_the_title_counts_and_fits() -> None:
    _, night = nightly()
    title = plain(list_title(night.entries.values(), WALL, "prod-a", 120, UNICODE, sort="worst", words="gpu"))
    assert "4 active · 1 acknowledged · 1 snoozed · 2 cleared" in title
    assert 'worst first   filter "gpu"' in title
    for cells in (40, 80):
        row = list_title(night.entries.values(), WALL, "prod-a", cells, UNICODE, sort="worst", words="")
        assert len(plain(row)) <= max(cells, 75)


# ---- the card


def with_history(snapshot: FleetSnapshot) -> History:
    """Return ten minutes of samples in which the port's errors begin after five."""
    history = History(snapshot.catalogue)
    for step in range(61):
        mono = snapshot.mono - 600 + 10 * step
        rate = 0.0 if step < 30 else 41.0
        earlier = troubled()
        from stethoscope.model.metric import Scope

        table = earlier.tables[Scope.PORT]
        values = table.values.copy()
        values[table.index["ib_symbol_error"]] = rate
        tables = {**earlier.tables, Scope.PORT: replace(table, values=values)}
        history.take(replace(earlier, tables=tables, mono=mono))
    return history


def test_the_card_says_all_that_is_known() -> None:
    snapshot, night = nightly()
    entry = night.entries["link:gpu-007/ib/mlx5_3"]
    fact = Fact(
        "ib_symbol_error rate 60s", 41.0, "at most 0.033/s", "gpu-007/ib/mlx5_3", "2026-03-14T02:14:05Z", "sysfs"
    )
    more = replace(
        entry.finding,
        since="2026-03-14T02:09:07Z",
        evidence=(fact,),
        confidence=0.9,
        cause="leaf/leaf-01-3",
        explained=2,
        root_cause="ib_link_fault",
        message="Node gpu-007: check the link",
        held=("POST http://pager/",),
        offers=("triage",),
    )
    entry = replace(entry, finding=more, spans=((WALL - 1500, WALL - 1410), (WALL - 300, None)), times=2)
    known = Known(snapshot, WALL, with_history(snapshot), NightSession().rule)
    text = card_text(entry, known, UNICODE, 110)
    for said in (
        "▲ P1   gpu-007/ib/mlx5_3  sick link: symbol errors +41/s",
        "since    02:09:07 UTC, for 5 m",
        "twice tonight; before: 01:49:07 for 90 s",
        "sure     0.90  very likely",
        "likely leaf/leaf-01-3, which these places share",
        "ib_link_fault",
        "2 other findings that are not listed",
        "symbol errors 41/s over 60s, expected at most 0.033/s",
        "2 s old · 10 min ▁▁▁▁▁▁▁▁▁▁|██████████████ 0..41/s",
        "| marks 02:09:07, since when it is so",
        "alert    Node gpu-007: check the link",
        "POST http://pager/  (not called",
        "rule     link: A port counts symbol errors, although its link stays up.",
        "fabric.yaml:",
        "notes    02:13:52 kim: optic reseated, watching",
    ):
        assert said in text, said
    narrow = card_text(entry, known, ASCII, 80)
    assert all(len(row) <= 80 for row in narrow.splitlines())
    assert "|" in narrow


def test_many_places_are_folded() -> None:
    many = Finding(
        "r@fleet", "r", Severity.P1, tuple(f"gpu-{n:03}/gpu/{g}" for n in range(1, 9) for g in range(2)),
        "gpu-[001-008]", BEFORE, "hot",
    )  # fmt: skip
    assert where_text(many) == "gpu-[001-008]: 8 nodes, 16 places"
    assert where_text(replace(many, where=("a", "b"))) == "a, b"


def test_markdown_holds_no_markup_of_others() -> None:
    snapshot, night = nightly()
    entry = night.entries["link:gpu-007/ib/mlx5_3"]
    entry = replace(entry, finding=replace(entry.finding, summary="[x](http://y) ``` <b>*", message="```\x1b[31m"))
    text = card_markdown(entry, Known(snapshot, WALL), UNICODE)
    assert text.startswith("# P1 gpu-007/ib/mlx5\\_3: \\[x\\](http://y) \\`\\`\\` \\<b\\>\\*\n")
    assert text.count("```") == 2
    assert "\x1b" not in text


def test_a_confidence_has_words() -> None:
    assert [sure_words(value) for value in (1.0, 0.9, 0.75, 0.5, 0.2)] == [
        "as good as certain", "very likely", "likely", "rather yes than no", "a guess",
    ]  # fmt: skip


def test_every_rule_that_ships_has_a_page() -> None:
    catalogue, causes = load_catalogue(), load_root_causes()
    files = sorted((bundled("playbooks") / "rules").glob("*.yaml"))
    assert files
    for rule in [rule for path in files for rule in read_rules(load(path), catalogue, causes)]:
        lines = texts(rule_rows(rule, catalogue, 100))
        assert any(line.startswith(" asks") for line in lines), rule.id


# ---- the screens


def visible(app: Any) -> list[str]:
    """Return the lines of the screen."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def app_at_night() -> Any:
    """Return the console on that night."""
    app = app_on(troubled())
    session = NightSession()

    async def open_session() -> NightSession:
        return session

    app._open_session = open_session
    app.clock = session.clock
    return app


async def test_findings_are_acknowledged_and_stay_under_the_cursor() -> None:
    async with app_at_night().run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        await pilot.press("F")
        await pilot.pause(0.1)
        app.pull()
        await pilot.pause()
        rows = visible(app)
        assert "Findings" in rows[0]
        assert rows[2].split() == ["Active", "4"]
        assert "gpu-002/gpu/2" in rows[3]
        assert any("fell off the bus (Xid 79)" in row for row in rows[19:]), rows
        await pilot.press("a")
        await pilot.pause(0.1)
        night = app.session.night
        assert night.entries["bus:gpu-002/gpu/2"].acknowledged is not None
        assert "gpu-002/gpu/2" in visible(app)[3], "it stays under the cursor"
        await pilot.press("j")
        await pilot.pause(0.1)
        rows = visible(app)
        assert "gpu-007/ib/mlx5_3" in rows[3], "and goes where it belongs when the cursor leaves it"
        await pilot.press("z", *"chang", "enter")
        await pilot.pause(0.1)
        entry = night.entries["link:gpu-007/ib/mlx5_3"]
        assert entry.snoozed is not None
        assert entry.snoozed.until is None
        await pilot.press("n", *"cable", "enter")
        await pilot.pause(0.1)
        assert [note.text for note in night.entries["link:gpu-007/ib/mlx5_3"].notes][-1] == "cable"
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert "Finding " in visible(app)[0]
        await pilot.press("e")
        await pilot.pause(0.1)
        assert "Rule  link" in visible(app)[0]
        await pilot.press("escape", "escape", "slash", *"gpu-040", "enter")
        await pilot.pause(0.1)
        assert "gpu-040" in visible(app)[3]
        await pilot.press("escape", "escape")
        await pilot.pause(0.1)
        assert app.screen is app.fleet_screen


async def test_a_node_leads_to_the_card_of_its_finding() -> None:
    async with app_at_night().run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        app.open_node("gpu-007")
        await pilot.pause(0.2)
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert "Finding " in visible(app)[0]
        await pilot.press("o")
        await pilot.pause(0.2)
        assert "gpu-007" in visible(app)[0]
        await pilot.press("F")
        await pilot.pause(0.2)
        rows = visible(app)
        assert 'filter "gpu-007"' in rows[0]
        assert rows[2].split() == ["Active", "1"]


async def test_hostile_findings_leave_the_screen_whole() -> None:
    async with app_on(hostile()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        for keys in (("F",), ("j", "a"), ("enter",), ("y",)):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            app.pull()
            await pilot.pause()
            rows = [strip.text for strip in app.screen._compositor.render_strips()]
            assert all(row.isprintable() for row in rows)
            assert len(rows) == 24


@pytest.mark.parametrize(
    ("size", "keys"),
    [
        pytest.param((80, 24), ("F", "down"), id="list-narrow"),
        pytest.param((200, 60), ("F", "down"), id="list-wide"),
        pytest.param((100, 40), ("F", "down", "enter"), id="card"),
    ],
)
def test_it_looks_as_it_did(snap_compare: Any, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    async def before(pilot: Any) -> None:
        app = await ready(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.1)
        app.pull()
        await pilot.pause()

    assert snap_compare(app_at_night(), terminal_size=size, run_before=before)
