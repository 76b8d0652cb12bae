"""The map of the fleet: where nodes stand, and what is drawn there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.model.metric import Reason, Scope
from stethoscope.ui.present.assess import assess
from stethoscope.ui.present.block_lines import map_cursor_line, map_line
from stethoscope.ui.present.block_places import Form, Zoom, arrange, choose, common_prefix, forms
from stethoscope.ui.present.blocks import BACK, CHARACTER, GROUND, PICKED, UNDER, BlockMap
from stethoscope.ui.present.grid import FleetGrid, Target
from stethoscope.ui.present.spans import ASCII, UNICODE, Tone, plain
from stethoscope.ui.present.view import View
from tests.builders import MONO, WALL, fleet
from tests.ui.scenes import troubled

CLOCK = "gpu_sm_clock"


def map_of(snapshot, *, cells=199, height=46, halves=True, glyphs=UNICODE, zoom=None, marked=(), metric=CLOCK, **view):  # type: ignore[no-untyped-def]
    grid = FleetGrid(View(metric, **{"sort": "name", "fold": "none"} | view), glyphs)
    grid.marked = set(marked)
    grid.update(assess(snapshot, MONO), WALL, cells, height, None)
    here = BlockMap(glyphs, halves=halves)
    here.zoom = zoom
    here.update(grid, cells, height)
    return here, grid


def text(line: np.ndarray) -> str:  # type: ignore[type-arg]
    return "".join(chr(int(cell) >> CHARACTER) for cell in line).replace("\0", "").rstrip()


def cell(here: BlockMap, line: int, column: int) -> tuple[str, int, int, bool]:
    """Return the character of a cell, its tones, and whether it is underlined."""
    value = int(here.canvas[line, column])
    return chr(value >> CHARACTER), value & GROUND, value >> BACK & GROUND, bool(value >> UNDER & 1)


# ---- where nodes stand

PAIRS = Form(Zoom.GPU, True, 1, 8, 0)


def test_two_thousand_nodes_of_eight_gpus_fit_whole_on_200x60() -> None:
    here, _ = map_of(fleet(2000))
    assert here.form == PAIRS
    assert here.places is not None
    assert here.places.lines == 46
    assert np.unique(np.stack([here.places.line, here.places.column, here.places.lower]), axis=1).shape[1] == 2000


@pytest.mark.parametrize(
    ("nodes", "cells", "height", "zoom", "label"),
    [
        (60, 199, 46, Zoom.NAME, 0),
        (400, 199, 46, Zoom.NAME, 0),
        (600, 199, 46, Zoom.GPU, 8),
        (2000, 199, 46, Zoom.GPU, 0),
        (2000, 199, 45, Zoom.NODE, 9),
        (2000, 79, 15, Zoom.NODE, 9),
        (9000, 79, 15, Zoom.NODE, 0),
        (200, 79, 15, Zoom.GPU, 8),
        (30, 79, 15, Zoom.NAME, 0),
    ],
)
def test_fewer_nodes_get_more_room(nodes: int, cells: int, height: int, zoom: Zoom, label: int) -> None:
    tried = forms(None, halves=True, positions=8, names=7 if nodes < 1000 else 8, labels=[])
    places = choose(tried, [nodes], False, cells, height)
    assert (places.form.zoom, places.form.label) == (zoom, label)
    assert (places.lines <= height) is (nodes != 9000)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 40), max_size=12),
    st.booleans(),
    st.integers(20, 200),
    st.builds(
        Form,
        st.sampled_from([Zoom.GPU, Zoom.NODE]),
        st.booleans(),
        st.integers(1, 3),
        st.integers(1, 8),
        st.integers(0, 3),
        st.integers(0, 8),
        st.booleans(),
        st.booleans(),
    ),
)
def test_every_node_has_a_place_of_its_own(sizes: list[int], labelled: bool, cells: int, form: Form) -> None:
    places = arrange(sizes, labelled, form, cells)
    assert places.line.size == sum(sizes)
    stops = form.stops().size
    assert np.array_equal(np.bincount(places.owner[places.owner >= 0], minlength=sum(sizes)), [stops] * sum(sizes))
    for item in range(sum(sizes)):
        assert (places.owner[places.row(item)] == item).sum() == stops
    assert not places.line.size or int(places.line.max()) + 1 == places.lines
    assert (np.diff(places.line) >= 0).all()
    assert not places.column.size or int(places.column.max()) + form.width - form.gap <= max(
        cells, form.label + form.width
    )
    ends = np.cumsum(sizes)
    for end, size in zip(ends, sizes, strict=True):
        assert places.lower[end - size : end].tolist() == [form.halves and bool(at % 2) for at in range(size)]


def test_groups_stand_whole_where_there_is_room_and_broken_where_not() -> None:
    form = Form(Zoom.GPU, True, 1, 8, 0, 8)
    tidy = arrange([8, 8, 30, 8], True, form, 100)
    assert tidy.labels == ((0, 0), (0, 46), (1, 0), (2, 55))
    broken = arrange([8, 8, 30, 8], True, Form(Zoom.GPU, True, 1, 8, 0, 8, False, True), 100)
    assert broken.labels == ((0, 0), (0, 46), (1, 0), (2, 47))


def test_labels_lose_what_all_have_in_common() -> None:
    assert common_prefix(["rack-01", "rack-02", "rack-13"]) == "rack-"
    assert common_prefix(["rack-01", "rack-"]) == ""
    assert common_prefix(["a1", "a2"]) == ""
    assert common_prefix(["rack-01"]) == ""


def test_groups_are_named_as_long_as_there_is_room() -> None:
    here, _ = map_of(fleet(64), group="rack", height=5)
    assert here.form.zoom is Zoom.GPU
    assert text(here.canvas[0]) == "   ".join(f"rack-{n:02}  " + " ".join(["▀" * 8] * 4) for n in (1, 2, 3, 4)).replace(
        "▀   rack", "▀  rack"
    )
    here, _ = map_of(fleet(64), group="rack", cells=41, height=8)
    assert text(here.canvas[0]) == "01  " + " ".join(["▀" * 8] * 4)


# ---- what is drawn there


def test_what_is_wrong_has_its_sign_on_the_colour_of_the_other_half() -> None:
    snapshot = fleet(
        200,
        set={
            ("gpu-001/gpu/2", CLOCK): Reason.LOST,
            ("gpu-002/gpu/3", CLOCK): Reason.HUNG,
            ("gpu-003/gpu/4", CLOCK): Reason.UNSUPPORTED,
            ("gpu-005/gpu/5", CLOCK): Reason.LOST,
            ("gpu-006/gpu/5", CLOCK): Reason.HUNG,
            ("gpu-007/gpu/6", CLOCK): Reason.UNSUPPORTED,
            ("gpu-008/gpu/6", CLOCK): Reason.UNSUPPORTED,
        },
    )
    here, _ = map_of(snapshot, zoom=Zoom.GPU, cells=100, height=5)
    assert here.form == PAIRS
    assert cell(here, 0, 1) == ("▀", Tone.FAINT, Tone.FAINT, False)
    assert cell(here, 0, 3) == ("–", Tone.LOST, Tone.FAINT, False)
    assert cell(here, 0, 4) == ("‖", Tone.HUNG, Tone.FAINT, True)
    assert cell(here, 0, 9 + 5) == ("?", Tone.MISSING, Tone.FAINT, False)
    assert cell(here, 0, 18 + 6) == ("‖", GROUND, Tone.HUNG, False)
    assert cell(here, 0, 27 + 7) == ("?", Tone.MISSING, GROUND, False)


def test_a_node_that_is_away_says_so_in_every_cell() -> None:
    here, _ = map_of(troubled(2000))
    assert text(here.canvas[0])[:90] == (
        "✖▀▀–▀▀▀▀▀ ▀▀▀▀▀▀▀▀ ▀▀▀▀▀▀▀▀▲▀▀▀▀▀▀▀▀✖‖‖‖‖‖‖‖‖▲▀▀▀▀▲▀▀▀–––––––––~~~~~~~~~?????????•▀▀•▀▀▀▀▀"
    )
    # gpu-014 is lost and the lower one; gpu-013 above it is well.
    assert cell(here, 0, 55) == ("–", Tone.LOST, Tone.FAINT, True)
    assert cell(here, 0, 54) == ("–", Tone.LOST, GROUND, True)
    # Node-level: gpu-007 has a sick port, no GPU of it is wrong.
    assert cell(here, 0, 27) == ("▲", Tone.WARNING, GROUND, False)


def test_only_what_is_unlike_most_has_a_colour_of_magnitude() -> None:
    snapshot = fleet(200, set={("gpu-001/gpu/0", "gpu_power_draw"): 90, ("gpu-002/gpu/1", "gpu_power_draw"): 320})
    here, grid = map_of(snapshot, metric="gpu_power_draw", zoom=Zoom.GPU, cells=100, height=5)
    low, middle = int(grid.heat[0]), int(grid.heat[9])
    assert low < middle < int(grid.heat[2])
    assert cell(here, 0, 1) == ("▀", Tone.HEAT_0 + low, Tone.FAINT, False)
    assert cell(here, 0, 2) == ("▀", Tone.FAINT, Tone.HEAT_0 + middle, False)


def test_a_fleet_of_two_halves_does_not_look_all_alike() -> None:
    idle = {(f"gpu-{n:03}/gpu/{g}", "gpu_util"): 0 for n in range(1, 101) for g in range(8)}
    here, _ = map_of(fleet(200, set=idle), metric="gpu_util", zoom=Zoom.GPU, cells=100, height=10)
    first, last = cell(here, 0, here.column(0, 0)), cell(here, here.canvas.shape[0] - 1, here.column(199, 0))
    assert first[1] != last[1]


def test_a_node_alone_on_its_line_has_ground_below_it() -> None:
    here, _ = map_of(fleet(3), zoom=Zoom.GPU)
    assert cell(here, 0, here.column(2, 0)) == ("▀", Tone.FAINT, GROUND, False)


def test_nodes_have_one_cell_each_from_farther_away() -> None:
    here, _ = map_of(troubled(2000), cells=79, height=15)
    assert text(here.canvas[0])[:20] == "gpu-001  ✖▀▀▲✖▲–~?•▀"
    assert cell(here, 0, 9) == ("✖", Tone.CRITICAL, Tone.FAINT, True)
    assert cell(here, 0, 10) == ("▀", Tone.FAINT, Tone.FAINT, False)


@pytest.mark.parametrize(
    ("glyphs", "line"), [(UNICODE, "·✖····▲·✖·▲··–·~·?·•····"), (ASCII, ".X....!.X.!..-.~.?.o....")]
)
def test_without_colours_a_node_is_one_sign(glyphs, line: str) -> None:  # type: ignore[no-untyped-def]
    here, _ = map_of(troubled(2000), halves=False, glyphs=glyphs)
    assert here.form.zoom is Zoom.NODE
    assert text(here.canvas[0])[9 : 9 + len(line)] == line
    assert cell(here, 0, 9 + 1)[1] == Tone.CRITICAL


def test_few_nodes_have_names_and_whole_cells() -> None:
    here, _ = map_of(troubled(20), cells=79, height=15)
    assert text(here.canvas[0]) == "· gpu-001 ████████   ✖ gpu-002 ██–█████   · gpu-003 ████████"
    assert text(here.canvas[3])[:43] == "· gpu-010 ████████   ▲ gpu-011 ████▲███   ·"


def test_nothing_has_been_sent_yet() -> None:
    snapshot = fleet(40, gpus=0, ports=0, waiting=[f"gpu-{n:03}" for n in range(1, 41)])
    here, grid = map_of(snapshot, zoom=Zoom.GPU)
    assert set(text(here.canvas[0])) <= set("?gpu-0123456789 ")
    assert "?" in text(here.canvas[0])
    assert here.node_of(3, grid) == 3


def test_what_is_wrong_keeps_its_place_on_the_map() -> None:
    here, _ = map_of(troubled(64), sort="worst", group="rack")
    assert here.order.tolist() == list(range(64))
    assert [section.label for section in here.sections] == [f"rack-{n:02}" for n in range(1, 9)]
    here, _ = map_of(fleet(8, set={("gpu-003/gpu/0", CLOCK): 900}), sort="value")
    assert here.order.tolist()[0] == 2


def test_an_empty_map_is_empty() -> None:
    here, _ = map_of(fleet(8), filter="nothing")
    assert here.canvas.shape[0] == 0
    assert here.item_of(3) is None


def test_a_metric_of_nodes_has_one_cell_a_node() -> None:
    here, _ = map_of(fleet(2000), metric="cpu_util")
    assert here.form.zoom is Zoom.NODE
    here, _ = map_of(fleet(60), metric="cpu_util")
    assert here.form.zoom is Zoom.NAME
    assert here.target(0) == Target(Scope.NODE)


def test_selected_nodes_are_marked() -> None:
    here, _ = map_of(fleet(2000), marked=["gpu-002", "gpu-003", "gpu-004"])
    assert [cell(here, 0, column) for column in (0, 9, 18)] == [
        ("▀", GROUND, Tone.KEY, False),
        ("▀", Tone.KEY, Tone.KEY, False),
        (" ", GROUND, GROUND, False),
    ]
    here, _ = map_of(troubled(20), marked=["gpu-001", "gpu-002"], halves=False)
    assert text(here.canvas[0]).startswith("+ gpu-001 ████████   ✖ gpu-002 ")
    assert cell(here, 0, 21) == ("✖", Tone.CRITICAL, GROUND, True)
    assert cell(here, 0, 23)[1] == Tone.KEY


def test_groups_are_tiles_from_far_away() -> None:
    here, grid = map_of(troubled(64), group="rack", zoom=Zoom.GROUP)
    assert text(here.canvas[0]).startswith("✖ rack-01    2 of 8 █   ✖ rack-02")
    assert here.item_of(9) == 1
    assert here.node_of(0, grid) == 1
    row = plain(map_cursor_line(here, grid, 0, ("gpu-002", here.target(-1)), WALL, 199))
    assert row == " rack-01  8 nodes · 2 with something wrong · ✖ gpu-002 gpu/2 fell off the bus (Xid 79)"
    row = plain(map_cursor_line(here, grid, 4, ("gpu-033", here.target(-1)), WALL, 199))
    assert row == " rack-05  8 nodes · nothing wrong"


def test_wide_and_hostile_names_keep_their_columns() -> None:
    names = ["節點-01", "n\u0301ode", "\x1b[31mred", "plain"]
    here, _ = map_of(fleet(names=names), zoom=Zoom.NAME)
    line = here.canvas[0]
    assert "\x1b" not in text(line)
    columns = [here.column(item, 0) for item in range(4)]
    assert [chr(int(line[column]) >> CHARACTER) for column in columns] == ["█"] * 4
    assert int(line[here.places.column[0] + 3]) >> CHARACTER == 0  # type: ignore[union-attr]


# ---- the cursor


def test_the_cursor_takes_half_a_character() -> None:
    here, _ = map_of(fleet(2000))

    def under(item: int, position: int) -> dict[int, tuple[str, int, int]]:
        line = here.line(0, item, position)
        changed = np.flatnonzero(line != here.canvas[0])
        return {
            int(at): (chr(int(line[at]) >> CHARACTER), int(line[at]) & GROUND, int(line[at]) >> BACK & GROUND)
            for at in changed
        }

    assert under(0, 2) == {0: ("▀", Tone.STRONG, GROUND), 3: ("▀", Tone.STRONG, Tone.FAINT)}
    assert under(1, 2) == {0: ("▀", GROUND, Tone.STRONG), 3: ("▀", Tone.FAINT, Tone.STRONG)}
    assert under(1, -1) == {0: ("▀", GROUND, Tone.STRONG)}
    assert under(45, 0) == {}


def test_the_cursor_leaves_the_other_half_of_a_sign_as_it_was() -> None:
    here, _ = map_of(fleet(2000, set={("gpu-002/gpu/3", CLOCK): Reason.LOST}))
    upper, lower = here.line(0, 0, 3)[4], here.line(0, 1, 3)[4]
    assert (int(upper) & GROUND, int(upper) >> BACK & GROUND) == (Tone.STRONG, Tone.LOST)
    assert (int(lower) & GROUND, int(lower) >> BACK & GROUND) == (Tone.FAINT, Tone.STRONG)


def test_the_cursor_on_whole_characters_is_marked() -> None:
    here, _ = map_of(fleet(20))
    line = here.line(0, 1, -1)
    picked = np.flatnonzero(line >> np.uint64(PICKED) & np.uint64(1))
    assert text(line[picked]) == "· gpu-002"
    assert here.position_at(1, int(picked[0])) == -1
    assert here.position_at(1, here.column(1, 4)) == 4


def test_the_lines_around_say_which_half_it_is() -> None:
    here, grid = map_of(fleet(2000))
    assert here.target(3) == Target(Scope.GPU, 3)
    row = plain(map_cursor_line(here, grid, 1, ("gpu-002", Target(Scope.GPU, 3)), WALL, 199))
    assert row.startswith(" ▄ lower gpu-002/gpu/3  SM clock 1980 MHz")
    assert here.half(0) == "▀ upper"
    assert plain(map_line(here, 199)) == (
        " a GPU is half a character · two nodes share a line: the first above, the second below, its signs underlined"
    )
    whole, _ = map_of(fleet(2000), halves=False)
    assert plain(map_line(whole, 199)) == " a node is one character"
    assert whole.half(1) == ""
