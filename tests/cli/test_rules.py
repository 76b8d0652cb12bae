"""`stethoscope rules`: the list, a rule in words, and the rules' own tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from stethoscope.cli.rules import command
from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

MINE = """\
- rule_id: mine
  description: hot in the words of another tool
  severity: warn
  trigger:
    OR:
    - {metric: DCGM_FI_DEV_GPU_TEMP, op: gt, value: 90 C, window: 5 min}
    - {metric: DCGM_FI_PROF_SM_ACTIVE, operator: "<", threshold: 0.1, window: 5m}
    - {metric: gpu_temp, operator: ">", threshold: 2 C/m, window: 5m, aggregate: slope}
  action:
  - {type: alert, message: "{{node}} is hot"}
  - {type: api_call, url: "https://example.org/drain", body: {node: "{{node}}"}}
  tests:
  - {name: hot, series: {DCGM_FI_DEV_GPU_TEMP: "95 x62"}, expect: P2}
  - {name: warm, series: {gpu_temp: "60 x62"}, expect: none}
- {rule_id: gpu_hot, enabled: false}
"""


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "site" / "rules").mkdir(parents=True)
    (tmp_path / "site" / "rules" / "mine.yaml").write_text(MINE)
    return tmp_path / "site"


def run(*arguments: str) -> tuple[int, Result]:
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result


def test_the_list_says_what_is_in_use(place: Path) -> None:
    code, result = run("list", "--json", "--playbooks", str(place))
    document = json.loads(result.stdout)
    assert (code, document["schema"], document["errors"]) == (0, "stethoscope.rules_list/1", [])
    by_id = {rule["id"]: rule for rule in document["rules"]}
    assert (by_id["mine"]["severity"], by_id["mine"]["scope"], by_id["mine"]["state"]) == ("P2", "gpu", "on")
    assert by_id["gpu_hot"]["state"] == f"switched off by {place}/rules/mine.yaml"
    _, result = run("list", "--playbooks", str(place))
    assert f"[switched off by {place}/rules/mine.yaml]" in result.stdout
    assert result.stderr.endswith(", 1 not in use\n")


def test_a_broken_file_does_not_hide_the_others(place: Path) -> None:
    (place / "rules" / "broken.yaml").write_text("rule_id: [")
    code, result = run("list", "--playbooks", str(place))
    assert (code, " mine " in result.stdout) == (65, True)
    assert f"{place}/rules/broken.yaml:" in result.stderr


def test_a_rule_in_words(place: Path) -> None:
    code, result = run("explain", "mine", "--playbooks", str(place))
    assert code == 0
    assert result.stdout.splitlines() == [
        "mine: hot in the words of another tool",
        "severity    P2, confidence 1",
        "about       each gpu",
        "when        any of:",
        "              GPU temperature (gpu_temp) above 90 °C, for 5 min",
        "              DCGM_FI_PROF_SM_ACTIVE: nothing here measures it, so that this is never known",
        "              slope of GPU temperature (gpu_temp) over 5 min above 2 °C/m",
        "says        {{node_id}} is hot",
        "alert       {{node_id}} is hot",
        'held back   POST https://example.org/drain {"node": "{{node_id}}"} (calls are never made)',
        "unknown     DCGM_FI_PROF_SM_ACTIVE: nothing here measures it",
        "tests       P2    hot",
        "            none  warm",
        f"file        {place}/rules/mine.yaml:1:3",
    ]
    document = json.loads(run("explain", "--json", "mine", "--playbooks", str(place))[1].stdout)
    assert (document["schema"], document["unmeasured"]) == ("stethoscope.rules_explain/1", ["DCGM_FI_PROF_SM_ACTIVE"])


def test_every_rule_that_ships_can_be_said_in_words() -> None:
    from stethoscope.session.rules import Rules

    rules = Rules()
    for rule in rules.book.rules:
        said = rules.explained(rule)
        assert said["condition"], rule.id
        assert not said["unmeasured"], rule.id


def test_an_unknown_rule_has_a_nearest_one(place: Path) -> None:
    with pytest.raises(UsageError, match='no rule or rule file "mien"; did you mean "mine"'):
        run("explain", "mien", "--playbooks", str(place))
    with pytest.raises(UsageError, match='"gpu_hot": it is switched off by '):
        run("explain", "gpu_hot", "--playbooks", str(place))


def test_their_own_tests(place: Path, tmp_path: Path) -> None:
    code, result = run("test", "mine", "--playbooks", str(place))
    assert (code, result.stdout.splitlines()) == (0, ["ok    mine: hot (P2)", "ok    mine: warm (none)"])
    alone = tmp_path / "alone.yaml"
    alone.write_text(MINE.replace("60 x62", "99 x62"))
    code, result = run("test", "--json", str(alone))
    document = json.loads(result.stdout)
    assert (code, document["passed"], document["failed"]) == (65, 1, 1)
    assert document["results"][1]["where"] == f"{alone}:14:5"
