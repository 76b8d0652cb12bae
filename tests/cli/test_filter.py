"""`--filter` of `check` and `drift`: which nodes are told of, what is said of that, and the exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_check import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("verb", ["check", "drift"])
def test_mistakes_are_told_before_anybody_is_asked(verb: str, tmp_path: Path) -> None:
    done = run(verb, "--hosts", "127.99.0.1", "--filter", "tmep>85", home=tmp_path)
    assert done.returncode == 64
    assert 'stethoscope: --filter: column 1: unknown name "tmep"; did you mean "temp"?' in done.stderr
    assert done.stdout == ""


def test_a_metric_of_the_playbooks_that_are_given_is_known(tmp_path: Path) -> None:
    entry = "{id: mine, alias: own, title: t, scope: node, unit: s, kind: gauge, meaning: m}"
    (tmp_path / "metrics.yaml").write_text(f"schema: stethoscope.metrics/1\nmetrics:\n- {entry}\n")
    done = run("check", "--playbooks", str(tmp_path), "--filter", "own=missing", "--ascii", home=tmp_path)
    assert done.stdout.splitlines()[0] == "1 of 1 nodes fit the filter own=missing"
    assert done.returncode in (0, 1, 2)


def test_drift_compares_the_nodes_that_fit(tmp_path: Path) -> None:
    answer = json.loads(run("drift", "--json", "--filter", "state = lost", home=tmp_path).stdout)
    assert answer["filter"] == {"text": "state=lost", "nodes": 1, "fit": 0}
    assert answer["summary"]["expected"] == 0
    answer = json.loads(run("drift", "--json", "--filter", "state=live", home=tmp_path).stdout)
    assert answer["filter"]["fit"] == answer["summary"]["expected"] == 1
    assert "filter" not in json.loads(run("drift", "--json", home=tmp_path).stdout)


def test_check_tells_of_the_nodes_that_fit_and_no_node_reached_stays_69(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text("")
    (tmp_path / "config").write_text("")
    options = ["--hosts", "127.99.0.[1-2]", "--port", "1", "--known-hosts", str(tmp_path / "known_hosts")]
    options += ["--ssh-config", str(tmp_path / "config"), "--timeout", "1s"]
    done = run("check", *options, "--ascii", "--filter", "state=lost & 0.2", home=tmp_path)
    assert done.returncode == 69
    lines = done.stdout.splitlines()
    assert lines[0] == "1 of 2 nodes fit the filter state=lost & 0.2"
    assert [line[:7] for line in lines[1:-1]] == ["! P1   "]
    assert lines[-1].startswith("0 of 1 nodes | ")
    done = run("check", *options, "--json", "--filter", "state=live", home=tmp_path)
    answer = json.loads(done.stdout)
    assert (answer["filter"]["fit"], answer["nodes"], answer["findings"], done.returncode) == (0, [], [], 69)


def test_where_no_node_fits_nothing_is_wrong(tmp_path: Path) -> None:
    done = run("check", "--filter", "state=lost", "--ascii", home=tmp_path)
    assert done.stdout.splitlines()[0] == "0 of 1 nodes fit the filter state=lost"
    assert done.returncode == 0
