"""Drift as text and JSON: widths, the words of a long value that differ, ties, several kinds of nodes."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stethoscope.analysis.drift import drift
from stethoscope.model.frame import LinkState
from stethoscope.ui.present.drift import difference, drift_json, drift_lines, drift_report, drift_title
from stethoscope.ui.present.spans import ASCII, UNICODE, plain, to_ascii, width
from tests.analysis.test_drift import telling, with_model
from tests.builders import fleet

OLD = {"driver_version": "535.161.08"}


def text(snapshot, cells: int | None = None) -> list[str]:  # type: ignore[no-untyped-def]
    return [plain(line.row).rstrip() for line in drift_lines(drift(snapshot), UNICODE, cells)]


def test_the_others_stand_below_what_most_have() -> None:
    lines = text(telling(fleet(4), n3=OLD, n4={"driver_version": ""}))
    assert lines[:2] == [
        "• driver                 550.54.15           most: 2 nodes · 1 not visible",
        "                         535.161.08          gpu-003",
    ]
    assert "· MTU of adapters        9000 (8)            4 nodes" in lines


def test_a_tie_names_no_majority() -> None:
    assert text(telling(fleet(2), n1=OLD))[:3] == [
        "• driver                 no majority",
        "                         535.161.08          gpu-001",
        "                         550.54.15           gpu-002",
    ]


def test_of_a_long_value_its_words_that_differ_are_shown() -> None:
    usual = "ro quiet iommu=pt intel_iommu=on " + " ".join(f"option{number}=1" for number in range(40))
    snapshot = telling(
        fleet(3), n1={"cmdline": usual}, n2={"cmdline": usual}, n3={"cmdline": usual.replace("=pt", "=off")}
    )
    lines = text(snapshot)
    assert lines[0].startswith("• kernel command line    ro quiet iommu=pt")
    assert lines[1] == "                         +iommu=off -iommu=pt  gpu-003"
    assert difference("a b", "b a") == "the same words in another order"


def test_each_kind_of_node_has_a_part_the_one_with_differences_first() -> None:
    snapshot = telling(fleet(6), n5=OLD)
    for index in (3, 4, 5):
        snapshot = with_model(snapshot, index, "NVIDIA H200")
    lines = text(snapshot)
    assert lines[0] == "  NVIDIA H200, Supermicro SYS-821GE · 3 nodes"
    assert lines[2].endswith("535.161.08          gpu-005")
    assert "  NVIDIA H100 80GB HBM3, Supermicro SYS-821GE · 3 nodes" in lines


def test_who_has_not_told_is_named() -> None:
    lines = text(telling(fleet(3, links={"gpu-002": LinkState.REFUSED}, waiting=["gpu-002"])))
    assert lines[-1] == "? untold                 refused             gpu-002"


@pytest.mark.parametrize("cells", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(cells: int) -> None:
    snapshot = telling(fleet(300), **{f"n{number}": {"mtu": "x" * number} for number in range(1, 300, 7)})
    table = drift(snapshot)
    assert all(width(line) <= cells for line in text(snapshot, cells))
    assert width(plain(drift_title(table, snapshot, 0.0, cells, UNICODE))) <= cells


def test_the_title_tells_how_many_have_told() -> None:
    snapshot = telling(fleet(3, links={"gpu-002": LinkState.REFUSED}, waiting=["gpu-002"]), n1=OLD)
    title = plain(drift_title(drift(snapshot), snapshot, snapshot.wall, 120, UNICODE))
    assert title.startswith(" stethoscope  test  drift  2 of 3 nodes told · 1 differs")
    assert title.endswith("02:14:07 UTC ")


def test_the_report_ends_with_a_sum_and_has_no_blanks_at_line_ends() -> None:
    snapshot = replace(telling(fleet(2)), simulated=True)
    lines = [to_ascii(plain(row)) for row in drift_report(drift(snapshot), snapshot, 3.21, ASCII)]
    assert lines[-1] == "2 of 2 nodes told | nothing differs | simulated | 3.2 s | 02:14:07 UTC"
    assert all(line == line.rstrip() and line.isascii() for line in lines)


def test_the_answer_as_json() -> None:
    snapshot = telling(fleet(4, links={"gpu-004": LinkState.REFUSED}, waiting=["gpu-004"]), n3=OLD)
    answer = msgspec.json.decode(msgspec.json.encode(drift_json(drift(snapshot), snapshot, 3.2104)))
    assert answer["schema"] == "stethoscope.drift/1"
    assert answer["summary"] == {
        "expected": 4,
        "told": 3,
        "untold": [{"why": "refused", "nodes": ["gpu-004"]}],
        "differing": ["driver_version"],
        "seconds": 3.21,
    }
    assert answer["groups"] == [
        {"gpus": "NVIDIA H100 80GB HBM3", "product": "Supermicro SYS-821GE", "nodes": ["gpu-001", "gpu-002", "gpu-003"]}
    ]
    assert answer["rows"][0] == {
        "id": "driver_version",
        "title": "driver",
        "scope": "node",
        "group": {"gpus": "NVIDIA H100 80GB HBM3", "product": "Supermicro SYS-821GE"},
        "differs": True,
        "tie": False,
        "expected": "550.54.15",
        "values": [
            {"value": "550.54.15", "where": "gpu-[001-002]", "nodes": ["gpu-001", "gpu-002"], "gpus": []},
            {"value": "535.161.08", "where": "gpu-003", "nodes": ["gpu-003"], "gpus": []},
        ],
        "unknown": [],
    }
