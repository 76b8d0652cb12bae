"""What can stand at the cursor of a filter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.analysis.filter import complete, completion
from stethoscope.model.metric import Reason
from stethoscope.model.scheduler import Job, SchedulerState
from tests.builders import fleet

FLEET = fleet(12, set={("gpu-003/gpu/1", "gpu_temp"): Reason.HUNG}, per_rack=6)


def at_end(text: str) -> list[str]:
    return complete(text, len(text), FLEET)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("", ["host", "rack", "pod"]),
        ("te", ["temp"]),
        ("temp", ["temp>", "temp>=", "temp<", "temp<=", "temp=", "temp!=", "mem_temp"]),
        ("temp ", [">", ">=", "<", "<=", "=", "!="]),
        ("throttle", ["throttle=", "throttle~", "throttle!=", "throttle!~"]),
        ("host ", ["=", "~", "!=", "!~"]),
        ("temp>", ["warn", "missing", "hung"]),
        ("temp=h", ["hung"]),
        ("temp>85 ", ["&", "|"]),
        ("(temp>85 ", ["&", "|", ")"]),
        ("a | gpu[temp>85 ", ["&", "|", "]"]),
        ("(gpu[temp>85] ", ["&", "|", ")"]),
        ("temp>85 & ho", ["host"]),
        ("temp>85 & !sta", ["state"]),
        ("rack=", ["rack-01", "rack-02"]),
        ("rack = rack-02 ", ["&", "|"]),
        ("state=l", ["live", "lost", "stale"]),
        ("severity>=", ["P0", "P1", "P2", "info", "none"]),
        ("port_state=a", ["armed", "active", "active_defer"]),
        ("throttle~th", ["sw_thermal", "hw_thermal"]),
        ("host=gpu-01", ["gpu-010", "gpu-011", "gpu-012"]),
        ("gpu-01", ["gpu-010", "gpu-011", "gpu-012"]),
        ("gp", ["gpu["]),
        ("al", ["all("]),
        ("gpu[", ["device", "clock", "util", "power", "temp"]),
        ("gpu[temp>85 & !(", ["device", "clock"]),
        ("gpu[te", ["temp", "mem_temp"]),
        ("ib[sym", ["symbol"]),
        ("disk[te", ["disk_temp"]),
        ("gpu[temp>85] & ho", ["host"]),
        ("nothing=", []),
        ("a b", []),
        ('host="gpu-00', ["gpu-001", "gpu-002"]),
    ],
)
def test_candidates(text: str, first: list[str]) -> None:
    found = at_end(text)
    assert found[: len(first)] == first
    if not first:
        assert found == []


def test_names_of_this_fleet_are_quoted_where_they_must_be() -> None:
    node = replace(FLEET.nodes[0], scheduler=SchedulerState(("allocated",), jobs=("7",)))
    job = Job("7", "my job (2)", "running", "ana", "train", (node.name,))
    snapshot = replace(FLEET, nodes=(node, *FLEET.nodes[1:]), jobs=(job,))
    assert complete("job=", 4, snapshot) == ["7", '"my job (2)"', "none", "missing"]
    assert complete("user~", 5, snapshot) == ["ana", "none", "missing"]


def test_the_word_at_the_cursor_is_replaced() -> None:
    text = "temp>85 & hos~gpu"
    found = completion(text, 12, FLEET)
    assert (found.start, found.end) == (10, 13)
    assert found.candidates[0] == "host"
    assert found.applied(text, "host") == ("temp>85 & host~gpu", 14)
    end = completion("state=", 6, FLEET)
    assert end.applied("state=", "lost") == ("state=lost", 10)


def test_no_more_than_can_be_looked_through() -> None:
    large = fleet(500)
    assert len(complete("gpu-", 4, large)) == 60
    assert complete("temp>85", 99, FLEET) == complete("temp>85", 7, FLEET)
    assert complete("te", -5, FLEET)[0] == "host"
