"""`stethoscope lint`: every error with its place, the rules' own tests, and exit codes."""

from __future__ import annotations

import json
import os
import re
import textwrap
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from stethoscope.cli.lint import command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def lint(*arguments: str) -> tuple[int, Result]:
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result


def with_rule(directory: Path, text: str) -> tuple[int, list[str]]:
    (directory / "rules").mkdir(exist_ok=True)
    (directory / "rules" / "made.yaml").write_text(textwrap.dedent(text))
    code, result = lint("--playbooks", str(directory))
    return code, result.stdout.splitlines()


GOOD = """\
rule_id: made
description: made for a test
severity: P2
trigger: [{metric: cpu_iowait, operator: ">", threshold: 20, aggregate: last}]
summary: "waits {{cpu_iowait}}"
tests:
- {name: high, series: {cpu_iowait: [1, 40]}, expect: P2, summary: "waits 40 %"}
- {name: low, series: {cpu_iowait: "3 x5"}, expect: none}
"""


def test_the_bundled_files_are_right() -> None:
    code, result = lint()
    assert code == 0
    assert re.match(r"\d+ metrics, 56 root causes, \d{2,} rules, ", result.stdout)
    assert result.stdout.endswith(": nothing wrong\n")


def test_a_rule_of_the_operator_is_counted(tmp_path: Path) -> None:
    code, lines = with_rule(tmp_path, GOOD)
    assert code == 0
    assert lines[-1].endswith(" rules, 2 rule tests: nothing wrong")


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        (("threshold: 20", "threshold: 50"), "7:3", 'made: test "high": P2 was expected after the last sample'),
        (("threshold: 20", "threshold: 2"), "8:3", 'made: test "low": sample 0: P2 where none was expected: waits 3 %'),
        (("expect: P2", "expect: P1"), "7:3", 'made: test "high": P1 was expected, and the finding is P2'),
        (('summary: "waits 40 %"', "summary: other"), "7:3", 'made: test "high": the summary is "waits 40 %"'),
        (("series: {cpu_iowait: [1, 40]}", "series: {cpu_iwait: 1}"), "7:3", 'unknown metric "cpu_iwait"'),
        (('cpu_iowait: "3 x5"', 'cpu_iowait: "lots x5"'), "8:3", '"lots" is no reason that a probe gives'),
        (('cpu_iowait: "3 x5"', "node_data_age: 5"), "8:3", "node_data_age is worked out by the console"),
        (("expect: none", "expect: P2"), "1:1", "made: no test says when there must be no finding"),
        (("metric: cpu_iowait", "metric: cpu_iwait"), "4:20", 'unknown metric "cpu_iwait"; did you mean "cpu_iowait"?'),
        (("expect: none", "expect: nothing"), "8:53", "nothing"),
    ],
)
def test_errors(change: tuple[str, str], place: str, message: str, tmp_path: Path) -> None:
    code, lines = with_rule(tmp_path, GOOD.replace(*change))
    assert code == 65
    assert any(line.startswith(f"{tmp_path}/rules/made.yaml:{place}: ") and message in line for line in lines), lines


def test_a_rule_without_tests_is_told_and_is_not_wrong(tmp_path: Path) -> None:
    code, lines = with_rule(tmp_path, GOOD[: GOOD.index("tests:")])
    assert (code, lines[-1].endswith(": nothing wrong")) == (0, True)
    _, result = lint("--playbooks", str(tmp_path))
    assert result.stderr == "without tests: made\n"


def test_rule_files_in_the_directory_itself_and_rules_itself(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for place in (tmp_path / "rules", tmp_path / "flat"):
        place.mkdir(exist_ok=True)
        (place / "mine.yml").write_text(GOOD.replace("metric: cpu_iowait", "metric: cpu_iwait"))
        code, result = lint("--playbooks", str(place))
        assert (code, result.stdout.splitlines()[0].split(": ")[0]) == (65, f"{place}/mine.yml:4:20")


def test_rule_files_may_be_called_nearly_as_a_part_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "gpu_metrics.yaml").write_text(
        "rule_id: hot\ndescription: d\nseverity: P2\ntrigger: {metric: gpu_tmep, operator: '>', threshold: 90}\n"
    )
    code, result = lint("--playbooks", str(tmp_path))
    assert code == 65
    assert 'gpu_metrics.yaml:4:19: unknown metric "gpu_tmep"; did you mean "gpu_temp"?' in result.output


def test_names_that_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "rule").mkdir()
    (tmp_path / "metric.yaml").touch()
    code, result = lint("--playbooks", str(tmp_path))
    assert code == 65
    assert result.stdout.splitlines() == [
        f'{tmp_path}/metric.yaml: no file of a playbooks tree is called "metric.yaml"; did you mean "metrics.yaml"?',
        f'{tmp_path}/rule: no part of a playbooks tree is called "rule"; did you mean "rules"?',
    ]
    (tmp_path / "empty").mkdir()
    code, result = lint("--playbooks", str(tmp_path / "empty"))
    assert (code, "nothing of a playbooks tree is here" in result.stdout) == (65, True)


def test_hostile_files_cost_only_themselves(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "binary.yaml").write_bytes(bytes(range(256)))
    (rules / "loop.yaml").symlink_to("loop.yaml")
    (rules / "empty.yaml").touch()
    (rules / "directory.yaml").mkdir()
    (rules / "bomb.yaml").write_text("&a [*a, *a]")
    os.mkfifo(rules / "pipe.yaml")
    with (rules / "huge.yaml").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    (rules / "good.yaml").write_text(GOOD)
    code, result = lint("--playbooks", str(tmp_path))
    assert code == 65
    told = [line.removeprefix(f"{rules}/") for line in result.stdout.splitlines()]
    assert [line.split(".yaml")[0] for line in told] == [
        "binary", "bomb", "directory", "empty", "huge", "loop", "pipe",
    ]  # fmt: skip
    assert "7 errors" in result.stderr
    assert ", 2 rule tests: " in result.stderr


def test_json(tmp_path: Path) -> None:
    with_rule(tmp_path, GOOD.replace("metric: cpu_iowait", "metric: cpu_iwait"))
    code, result = lint("--json", "--playbooks", str(tmp_path))
    document = json.loads(result.stdout)
    assert (code, document["schema"]) == (65, "stethoscope.lint/1")
    assert document["errors"] == [
        {
            "file": f"{tmp_path}/rules/made.yaml",
            "line": 4,
            "column": 20,
            "message": 'unknown metric "cpu_iwait"; did you mean "cpu_iowait"?',
        }
    ]


def test_the_example_of_the_documentation_is_right(tmp_path: Path) -> None:
    from pathlib import Path as Real

    text = (Real(__file__).parents[2] / "docs" / "rules.md").read_text()
    example = text.split("```yaml\n")[1].split("```")[0]
    assert example.startswith("rule_id: ")
    code, lines = with_rule(tmp_path, example)
    assert (code, lines[-1].endswith("nothing wrong")) == (0, True)
