"""From a snapshot to rows: order, levels, words and numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.model.finding import Fact, Severity
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.ui.present.assess import assess, freshness, peers_median, what_is_wrong
from stethoscope.ui.present.cursor import cursor_line
from stethoscope.ui.present.findings import finding_rows
from stethoscope.ui.present.grid import FOLD, FleetGrid, Target
from stethoscope.ui.present.heat import HeatScale
from stethoscope.ui.present.legend import legend_line
from stethoscope.ui.present.lines import top_line, unseen_line
from stethoscope.ui.present.numbers import cell_text, common_unit, fact_text, number, total_text, value_text
from stethoscope.ui.present.peers import Peers
from stethoscope.ui.present.row_levels import metric_levels
from stethoscope.ui.present.spans import ASCII, UNICODE, Level, Span, cut, pad, plain, spread, to_ascii, width
from stethoscope.ui.present.view import View
from tests.builders import MONO, WALL, catalogue, fleet
from tests.ui.scenes import finding, healthy, troubled


def grid_of(
    snapshot, *, metric="gpu_sm_clock", cells=200, height=50, pinned=None, mono=MONO, glyphs=UNICODE, **options
):  # type: ignore[no-untyped-def]
    grid = FleetGrid(View(metric, **options), glyphs)
    grid.update(assess(snapshot, mono), WALL, cells, height, pinned)
    return grid


def texts(grid: FleetGrid, lines: int = 100) -> list[str]:
    return [plain(grid.row(index, None)) for index in range(min(lines, len(grid.lines)))]


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("gpu_sm_clock", 1410, "1410 MHz"),
        ("gpu_temp", 88, "88 °C"),
        ("gpu_temp_margin", -3, "-3 °C"),
        ("gpu_power_draw", 640.4, "640 W"),
        ("gpu_fb_used", 70_000, "68.4 GiB"),
        ("gpu_pcie_rx", 4_000_000, "4 GB/s"),
        ("gpu_pcie_rx", 900, "900 KB/s"),
        ("ib_symbol_error", 41, "41/s"),
        ("ib_symbol_error", 0.03, "108/h"),
        ("ib_symbol_error", 0, "0/s"),
        ("ib_port_xmit_data", 5_000_000_000, "160 Gb/s"),
        ("nvlink_rx", 4_000_000, "4.1 GB/s"),
        ("ib_port_state", 4, "Active"),
        ("ib_port_state", 9, "code 9"),
        ("gpu_clocks_event_reasons", 0, "none"),
        ("gpu_clocks_event_reasons", 0x44, "power cap, HW thermal"),
        ("gpu_clocks_event_reasons", 0x1000, "bit 0x1000"),
        ("cpu_iowait", 0.14, "0.14 %"),
        ("mem_available", 1_800_000, "1.7 TiB"),
        ("node_data_age", 3.21, "3.2 s"),
        ("gpu_sm_clock", Missing(Reason.HUNG), "hung"),
        ("ib_symbol_error", Missing(Reason.SATURATED), "saturated"),
    ],
)
def test_a_value_is_written_with_its_unit(metric: str, value: float | Missing, expected: str) -> None:
    assert value_text(catalogue()[metric], value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (1980, "1980"),
        (12.34, "12.3"),
        (1.26, "1.3"),
        (0.5, "0.5"),
        (0.034, "0.03"),
        (0.0028, "0.003"),
        (1e-7, "1e-7"),
    ],
)
def test_numbers_are_short(value: float, expected: str) -> None:
    assert number(value) == expected


def test_a_cell_is_in_the_unit_of_the_headline() -> None:
    metric = catalogue()["gpu_pcie_rx"]
    divisor, unit = common_unit(metric, 2_000_000)
    assert (divisor, unit, cell_text(metric, 1_200_000, divisor)) == (1e6, "GB/s", "1.2")


def test_totals_of_data_are_bytes_and_large_counts_are_short() -> None:
    assert total_text(catalogue()["ib_link_downed"], 1254) == "1,254"
    assert total_text(catalogue()["ib_port_xmit_wait"], 2_040_000_000) == "2.0 G"
    assert total_text(catalogue()["ib_port_xmit_data"], 250_000_000_000) == "1 TB"
    assert total_text(catalogue()["nvlink_tx"], 1_000_000) == "1.02 GB"


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (
            Fact("ib_symbol_error rate 60 s", 40.07, "at most 0.033/s", "n/ib/mlx5_3", "", "probe"),
            "symbol errors 40/s over 60 s, expected at most 0.033/s",
        ),
        (
            Fact("ib_link_downed delta 5 s", 2, "at most 0 events", "n", "", ""),
            "link downs 2 events in 5 s, expected at most 0 events",
        ),
        (Fact("node_data_age", 15.2, "at most 15 s", "n", "", ""), "data age just over 15 s, expected at most 15 s"),
        (Fact("node_data_age", 16.2, "at most 15 s", "n", "", ""), "data age 16 s, expected at most 15 s"),
        (Fact("gpu_sm_clock", 1100, "peers 1980 MHz", "n", "", ""), "SM clock 1100 MHz, peers 1980 MHz"),
        (Fact("ib_port_rcv_errors", 2.6, "none", "n/ib/mlx5_3", "", "probe"), "receive errors 2.6/s, none expected"),
        (Fact("gpu_temp", "lost", "a value", "n", "", ""), "GPU temperature: no value (lost)"),
        (Fact("xid", "NVRM: Xid 79", "none", "n", "", "kernel log"), "NVRM: Xid 79"),
    ],
)
def test_evidence_is_said_in_words(fact: Fact, text: str) -> None:
    assert fact_text(fact, catalogue()) == text


def test_ascii_keeps_columns_and_leaves_no_gap_in_a_sentence() -> None:
    assert to_ascii("87 °C, expected below 83 °C") == "87 C, expected below 83 C  "
    assert to_ascii("gpu 0  87 °C   1980 MHz") == "gpu 0  87 C    1980 MHz"


def test_a_healthy_node_unlike_its_peers_is_not_folded_with_them() -> None:
    idle = {(f"gpu-020/gpu/{index}", "gpu_sm_clock"): 345 for index in range(8)}
    grid = grid_of(fleet(nodes=40, set=idle), height=10)
    assert grid.lines[0] == "gpu-020"
    assert texts(grid)[0].endswith("unlike its peers")
    assert "gpu-020" not in grid.folded
    assert len(grid.folded) == 31


def unused(*nodes: str) -> dict[tuple[str, str], float]:
    values = (("gpu_sm_clock", 345.0), ("gpu_util", 0.0))
    return {(f"{node}/gpu/{index}", name): value for node in nodes for index in range(8) for name, value in values}


def test_nodes_without_a_gpu_in_use_are_folded_by_themselves_when_not_all_fit() -> None:
    snapshot = fleet(nodes=40, set=unused("gpu-020", "gpu-033"))
    grid = grid_of(snapshot, height=10)
    assert grid.idle == ["gpu-020", "gpu-033"]
    assert len(grid.lines) == 10
    assert texts(grid)[8].startswith(" · 2 idle       345  345")
    assert texts(grid)[8].endswith("no GPU in use")
    assert texts(grid)[9].startswith(" · 30 more     1980 1980")
    roomy = grid_of(snapshot, height=50)
    assert roomy.lines == [f"gpu-{number:03}" for number in range(1, 41)]
    assert texts(roomy)[19].endswith("no GPU in use")


def test_a_node_counts_as_unlike_its_peers_after_eight_seconds_and_never_with_many() -> None:
    peers = Peers()
    metric = catalogue()["gpu_sm_clock"]

    def see(*odd: str, at: float) -> list[bool]:
        values = {(f"{node}/gpu/0", "gpu_sm_clock"): 900.0 for node in odd}
        peers.update(assess(fleet(nodes=8, set=values), MONO + at), metric, 780.0)
        return peers.odd.tolist()

    assert not any(see(at=0))
    assert not any(see("gpu-002", at=1))
    assert not any(see("gpu-002", at=8.9))
    assert see("gpu-002", at=9) == [False, True] + [False] * 6
    assert not any(see(at=10))
    assert not any(see("gpu-001", "gpu-002", "gpu-003", at=20))
    assert not any(see("gpu-001", "gpu-002", "gpu-003", at=40))


def test_text_is_measured_in_cells() -> None:
    assert (width("abc"), width("全界"), width("e\u0301")) == (3, 4, 1)
    assert cut("全界全", 4) == "全…"
    assert pad("全", 4) == "全  "
    assert plain(spread((Span("a"),), (Span("b"),), 9)) == "a       b"


def test_worst_nodes_come_first_and_healthy_ones_keep_their_order() -> None:
    grid = grid_of(troubled())
    assert grid.lines[:8] == ["gpu-002", "gpu-009", "gpu-014", "gpu-011", "gpu-007", "gpu-016", "gpu-020", "gpu-018"]
    assert grid.lines[8:10] == ["gpu-001", "gpu-003"]


def test_what_does_not_fit_is_folded_into_one_line() -> None:
    grid = grid_of(healthy(64), height=20)
    assert len(grid.lines) == 20
    assert grid.lines[-1] == FOLD
    assert texts(grid)[-1].split()[:3] == ["·", "45", "more"]
    assert texts(grid)[-1].endswith("like their peers")


def test_sick_nodes_are_never_folded() -> None:
    sick = {(f"gpu-{n:03}/gpu/0", "gpu_temp"): 95.0 for n in range(1, 31)}
    grid = grid_of(fleet(40, set=sick), height=20)
    assert len(grid.lines) == 31
    assert len(grid.folded) == 10


def test_all_healthy_can_be_folded_or_none() -> None:
    assert grid_of(healthy(64), fold="all").lines == [FOLD]
    assert len(grid_of(healthy(64), height=20, fold="none").lines) == 64


def test_the_filter_takes_a_part_of_a_name_or_a_pattern() -> None:
    assert grid_of(healthy(64), filter="00").lines == [f"gpu-00{n}" for n in range(1, 10)]
    assert grid_of(healthy(64), filter="gpu-0[1-2]0").lines == ["gpu-010", "gpu-020"]
    assert grid_of(healthy(64), filter="GPU-064").lines == ["gpu-064"]
    assert grid_of(healthy(64), filter="nothing").lines == []


def test_sorting_by_value_begins_with_the_worst_value() -> None:
    snapshot = fleet(4, set={("gpu-003/gpu/1", "gpu_temp"): 80.0, ("gpu-002/gpu/1", "gpu_temp"): 75.0})
    assert grid_of(snapshot, metric="gpu_temp", sort="value").lines == ["gpu-003", "gpu-002", "gpu-001", "gpu-004"]


def test_rows_settle_every_few_seconds_and_never_under_the_cursor() -> None:
    grid = grid_of(healthy(8))
    sick = fleet(8, set={("gpu-007/gpu/0", "gpu_temp"): 95.0}, name="prod-a")
    grid.update(assess(sick, MONO + 1), WALL, 200, 50, "gpu-003")
    assert grid.lines[0] == "gpu-001"
    grid.update(assess(sick, MONO + 4), WALL, 200, 50, "gpu-003")
    assert grid.lines[0] == "gpu-007"
    assert grid.lines[2] == "gpu-003"
    assert sorted(grid.lines) == sorted(node.name for node in sick.nodes)


def test_the_row_under_the_cursor_stays_even_when_it_becomes_the_worst() -> None:
    grid = grid_of(healthy(8))
    sick = fleet(8, set={("gpu-005/gpu/0", "gpu_temp"): 95.0}, name="prod-a")
    grid.update(assess(sick, MONO + 4), WALL, 200, 50, "gpu-005")
    assert grid.lines[4] == "gpu-005"


def test_missing_is_never_a_number() -> None:
    snapshot = fleet(1, set={("gpu-001/gpu/0", "gpu_sm_clock"): Reason.UNSUPPORTED}, lost=["gpu-001/gpu/3"])
    row = texts(grid_of(snapshot))[0]
    assert row.split()[2:6] == ["?", "1980", "1980", "–"]


def test_a_lost_or_stale_node_shows_no_values() -> None:
    grid = grid_of(troubled())
    rows = dict(zip(grid.lines, texts(grid), strict=True))
    assert rows["gpu-014"].split()[2:10] == ["–"] * 8
    assert rows["gpu-016"].split()[2:10] == ["~"] * 8
    assert rows["gpu-009"].split()[2:10] == ["‖"] * 8
    assert "unreachable 95 s" not in rows["gpu-014"]
    assert "cannot be reached" in rows["gpu-014"]


def test_narrow_screens_show_blocks_and_the_sentence() -> None:
    grid = grid_of(troubled(), cells=80, height=16)
    rows = dict(zip(grid.lines, texts(grid), strict=True))
    assert rows["gpu-007"] == "▲ gpu-007   ████████ ···▲···· ib/mlx5_3 sick link: symbol errors +41/s"
    assert rows["gpu-011"].startswith("▲ gpu-011   ████▲███ ········ gpu/4 thermal")
    assert all(width(row) <= 80 for row in rows.values())


def test_a_stale_node_shows_no_value_of_its_own() -> None:
    grid = grid_of(troubled(), metric="cpu_iowait")
    rows = dict(zip(grid.lines, texts(grid), strict=True))
    assert rows["gpu-016"].split()[:3] == ["~", "gpu-016", "~"]
    assert rows["gpu-001"].split()[:3] == ["·", "gpu-001", "0.1"]


@pytest.mark.parametrize("cells", [40, 60, 80, 100, 132, 200, 300])
@pytest.mark.parametrize(
    "metric", ["gpu_sm_clock", "ib_symbol_error", "cpu_iowait", "gpu_clocks_event_reasons", "nvlink_rx"]
)
def test_rows_fit_and_their_columns_stand_below_each_other(cells: int, metric: str) -> None:
    grid = grid_of(troubled(), cells=cells, metric=metric)
    assert grid.layout is not None
    for line, key in enumerate(grid.lines):
        row = grid.row(line, None)
        assert width(plain(row)) <= max(cells, grid.layout.before_what)
        if key in ("gpu-002", "gpu-007") and cells - grid.layout.before_what > 6:
            before = plain(row)[: plain(row).index("gpu/2" if key == "gpu-002" else "ib/ml")]
            assert width(before) == grid.layout.before_what


def test_ascii_rows_are_ascii() -> None:
    for cells in (80, 200):
        grid = grid_of(troubled(), glyphs=ASCII, cells=cells)
        rows = [
            *texts(grid),
            plain(top_line(grid.assessment, WALL, cells, ASCII, paused=True)),
            plain(legend_line(grid, cells)),
        ]  # type: ignore[arg-type]
        assert [row for row in map(to_ascii, rows) if not row.isascii()] == []


def test_the_top_line_counts() -> None:
    line = plain(top_line(assess(troubled(), MONO), WALL, 200, UNICODE, paused=False))
    assert (
        "prod-a  SIMULATED  64 nodes · 512 GPUs · 61 live · 1 hung · 1 lost · 1 stale · 1 connecting   data 2 s" in line
    )
    assert "✖ 2  ▲ 3  • 1" in line
    assert line.endswith("02:14:07 UTC ")
    narrow = plain(top_line(assess(troubled(), MONO), WALL, 80, UNICODE, paused=True))
    assert narrow.startswith(" prod-a SIM 64n 512g · 61 live ‖1 –1 ~1 ?1 · 2 s · ✖2 ▲3 •1")
    assert "PAUSED" in narrow


def test_the_findings_pane_is_worst_first_and_counts_the_rest() -> None:
    rows = [plain(row) for row in finding_rows(assess(troubled(), MONO), WALL, 80, 2, UNICODE)]
    assert rows[0].split()[:3] == ["✖", "P0", "gpu-009"]
    assert "41 s" in rows[0]
    assert rows[1].rstrip().endswith("+4 more")
    assert all(len(row) <= 80 for row in rows)


def test_what_cannot_be_seen_is_said() -> None:
    row = unseen_line(assess(troubled(), MONO), 100, UNICODE)
    assert row is not None
    assert plain(row) == " ? kernel log not seen on 3 nodes: permission"
    assert unseen_line(assess(healthy(4), MONO), 100, UNICODE) is None


def explain(snapshot, key: str, target: Target, metric: str = "gpu_sm_clock") -> str:  # type: ignore[no-untyped-def]
    return plain(cursor_line(grid_of(snapshot, metric=metric), key, target, WALL, 300))


def test_the_cursor_line_compares_with_peers_and_names_the_finding() -> None:
    line = explain(troubled(), "gpu-011", Target(Scope.GPU, 4))
    assert "gpu-011/gpu/4  SM clock 1410 MHz · peers 1980 MHz · throttle HW thermal · 88 °C · margin -3 °C" in line
    assert "P1 thermal: 88 °C, 570 MHz under peers" in line
    port = explain(troubled(), "gpu-007", Target(Scope.PORT, 3))
    assert "gpu-007/ib/mlx5_3  Active · 400 Gb/s · symbol errors 41/s" in port


def test_the_cursor_line_says_why_there_is_no_value() -> None:
    assert "SM clock lost" in explain(troubled(), "gpu-002", Target(Scope.GPU, 2))
    assert "SM clock hung" in explain(troubled(), "gpu-009", Target(Scope.GPU, 2))
    assert "unreachable 95 s · no route to host" in explain(troubled(), "gpu-014", Target(Scope.NODE))


def test_peers_are_of_the_same_model_and_without_the_cell_itself() -> None:
    snapshot = fleet(2, gpus=2, set={("gpu-001/gpu/0", "gpu_sm_clock"): 100.0})
    assert peers_median(assess(snapshot, MONO), Scope.GPU, "gpu_sm_clock", 0) == 1980
    assert peers_median(assess(fleet(1, gpus=1), MONO), Scope.GPU, "gpu_sm_clock", 0) is None


def test_levels_follow_thresholds_in_the_direction_that_is_worse() -> None:
    snapshot = fleet(
        1,
        set={
            ("gpu-001/gpu/0", "gpu_temp"): 84,
            ("gpu-001/gpu/1", "gpu_temp"): 91,
            ("gpu-001/gpu/2", "gpu_temp_margin"): 4,
        },
    )
    table = snapshot.tables[Scope.GPU]
    assert metric_levels(table, replace(catalogue()["gpu_temp"], critical=90.0))[:3].tolist() == [
        Level.WARNING,
        Level.CRITICAL,
        Level.NORMAL,
    ]
    assert metric_levels(table, catalogue()["gpu_temp_margin"])[2] == Level.WARNING


def test_a_port_that_is_not_active_is_critical() -> None:
    snapshot = fleet(2, set={("gpu-002/ib/mlx5_1", "ib_port_state"): 1})
    assessment = assess(snapshot, MONO)
    assert assessment.nodes.tolist() == [Level.NORMAL, Level.CRITICAL]
    assert what_is_wrong(assessment, snapshot.nodes[1], WALL) == ("ib/mlx5_1 port state Down", Level.CRITICAL)


@pytest.mark.parametrize(
    ("state", "level"),
    [
        (LinkState.LIVE, Level.NORMAL),
        (LinkState.CONNECTING, Level.MISSING),
        (LinkState.SILENT, Level.STALE),
        (LinkState.UNREACHABLE, Level.LOST),
        (LinkState.HOST_KEY_CHANGED, Level.LOST),
        (LinkState.AUTH_REFUSED, Level.LOST),
    ],
)
def test_freshness_follows_the_link(state: LinkState, level: Level) -> None:
    snapshot = fleet(1, links={"gpu-001": Link(state, WALL)})
    assert freshness(snapshot.nodes[0], MONO) is level
    assert freshness(fleet(1).nodes[0], MONO + 60) is Level.STALE


def test_heat_levels_hold_still_under_noise() -> None:
    metric = catalogue()["gpu_util"]
    scale = HeatScale()
    levels = [
        scale.update(fleet(1, gpus=1, set={("gpu-001/gpu/0", "gpu_util"): value}).tables[Scope.GPU], metric)[0]
        for value in (49.0, 50.5, 49.5, 52.0, 60.0, 51.0)
    ]
    assert levels == [3, 3, 3, 3, 4, 4]
    assert (
        scale.update(fleet(1, gpus=1, set={("gpu-001/gpu/0", "gpu_util"): Reason.HUNG}).tables[Scope.GPU], metric)[0]
        == -1
    )


def test_a_scale_without_ends_comes_from_the_data_and_does_not_tremble() -> None:
    metric = catalogue()["gpu_pcie_rx"]
    scale = HeatScale()
    highs = []
    for value in (900_000.0, 1_100_000.0, 900_000.0, 100_000.0):
        table = fleet(1, gpus=1, set={("gpu-001/gpu/0", "gpu_pcie_rx"): value}).tables[Scope.GPU]
        scale.update(table, metric)
        highs.append(scale.high)
    assert highs == [1e6, 2e6, 2e6, 1e5]


def test_a_node_without_gpus_and_ports_has_a_value_column() -> None:
    snapshot = fleet(1, gpus=0, ports=0)
    grid = grid_of(snapshot, metric="cpu_util", cells=100)
    assert texts(grid)[0].split()[:3] == ["·", "gpu-001", "12"]


def test_findings_at_several_places_are_named_by_their_nodes() -> None:
    from stethoscope.model.finding import Finding

    many = Finding(
        "x", "x", Severity.P1, ("gpu-001", "gpu-002"), "gpu-[001-002]", "2026-03-14T02:13:07Z", "lost with their leaf"
    )
    assessment = assess(fleet(4, findings=[many, finding("P2", "gpu-003", "old", "2026-03-14T02:13:07Z")]), MONO)
    assert plain(finding_rows(assessment, WALL, 100, 4, UNICODE)[0]).split() == [
        "▲",
        "P1",
        "gpu-[001-002]",
        "60",
        "s",
        "lost",
        "with",
        "their",
        "leaf",
    ]
    assert assessment.nodes.tolist() == [Level.WARNING, Level.WARNING, Level.PLANNED, Level.NORMAL]
