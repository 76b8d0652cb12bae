"""`stethoscope triage` and `stethoscope playbook`: what they print, and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stethoscope.cli import playbook, triage
from stethoscope.cli.triage import exit_code, lines_of
from stethoscope.errors import UsageError
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import Culprit
from stethoscope.model.verdict import Diagnosis, PathStep, Verdict, Wanted
from stethoscope.specs.metric import load_catalogue

if TYPE_CHECKING:
    import click

FOUND = Diagnosis(
    "global",
    "communication",
    Verdict(
        "ib_link_fault",
        0.91,
        Severity.P1,
        "gpu-007/ib/mlx5_3: symbol errors +40/s; job/4242 is 33 % slower",
        (Culprit(host="gpu-007", device="ib/mlx5_3", place="gpu-007/ib/mlx5_3"),),
        (Fact("ib_symbol_error", 40.0, "below 10.1/h", "gpu-007/ib/mlx5_3", "2026-03-14T02:14:07Z", "rule"),),
        rules_out=(("switch_congestion", "error counters move"),),
    ),
    path=(PathStep("scope", "Are all ranks slow alike?", "all alike"),),
    wanted=(Wanted("gpu-007/ib/mlx5_3", "mlxlink", "low light", "mlxlink -d mlx5_3 -m -c", "ib_link_fault"),),
    actions=("Clean the connectors",),
)


def run(command: click.Command, *words: str) -> tuple[int, str]:
    """Run a verb and return its exit status and what it printed; its errors are raised."""
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value or 0), result.output


def test_a_diagnosis_as_text() -> None:
    text = "\n".join(lines_of(FOUND, load_catalogue()))
    assert text.startswith("P1  ib_link_fault (91% sure)\n    gpu-007/ib/mlx5_3: symbol errors +40/s")
    assert "  symbol errors: 40/s (expected below 10.1/h) at gpu-007/ib/mlx5_3" in text
    assert "  switch_congestion: error counters move" in text
    assert "  gpu-007/ib/mlx5_3: mlxlink -d mlx5_3 -m -c - low light" in text
    assert exit_code(FOUND) == 2


def test_the_contract() -> None:
    document = json.loads(json.dumps(FOUND.as_json()))
    assert document["schema"] == "stethoscope.triage/1"
    assert document["verdict"]["culprits"] == [
        {"place": "gpu-007/ib/mlx5_3", "rank": None, "host": "gpu-007", "device": "ib/mlx5_3"}
    ]
    assert document["path"][0]["by"] == "auto"
    assert document["similar"] == []


def test_questions_are_asked_elsewhere() -> None:
    with pytest.raises(UsageError, match="--auto"):
        run(triage.command, "--hosts", "gpu-001")
    with pytest.raises(UsageError, match="--job and --about"):
        run(triage.command, "--auto", "--job", "1", "--about", "gpu-001")


def test_playbooks_are_listed_drawn_and_tested() -> None:
    status, text = run(playbook.command, "list", "--json")
    assert status == 0
    assert {flow["id"] for flow in json.loads(text)["flows"]} >= {"slow", "hang", "xid", "storage", "node", "loss"}
    assert "[scope] Are all ranks slow alike" in run(playbook.command, "show", "slow")[1]
    assert "settled by mlxlink" in run(playbook.command, "show", "ib_link_fault")[1]
    assert run(playbook.command, "test")[0] == 0
    with pytest.raises(UsageError, match='did you mean "slow"'):
        run(playbook.command, "show", "slwo")
