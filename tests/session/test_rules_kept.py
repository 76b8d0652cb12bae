"""Rules that follow their files: what is unchanged goes on, what is broken changes nothing and is told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.analysis.rules import Engine
from stethoscope.paths import bundled
from stethoscope.session import rules_kept
from stethoscope.session.rules_kept import KeptRules, stamps_of
from stethoscope.specs import rule_book
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule_book import load_rules
from tests.analysis.test_rules import at
from tests.builders import fleet

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot

CAUSES = read_root_causes(bundled("playbooks") / "root_causes.yaml")
HOT = """\
rule_id: hot
description: hot for a while
severity: P1
trigger: {metric: gpu_temp, operator: ">", threshold: 90, window: 60s}
action:
- {type: alert, message: "{{node_id}} is at {{value}}"}
- {type: log, message: "hot at {{place}}"}
- {type: api_call, url: "https://example.org/drain", method: POST, body: {node: "{{node_id}}"}}
"""
BUSY = "rule_id: busy\ndescription: busy\nseverity: P2\ntrigger: gpu_util > 10\n"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptRules:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    # Only what stands here counts.
    monkeypatch.setattr(rule_book, "bundled", lambda _kind: tmp_path / "none")
    write(tmp_path, "hot.yaml", HOT)
    catalogue = load_catalogue()
    stamps = stamps_of([tmp_path])
    engine = Engine(load_rules(catalogue, CAUSES, tmp_path), catalogue)
    return KeptRules(engine, catalogue, CAUSES, [tmp_path], stamps)


def write(directory: Path, name: str, text: str) -> None:
    (directory / "rules").mkdir(exist_ok=True)
    (directory / "rules" / name).write_text(text)


def hot(seconds: float) -> FleetSnapshot:
    cells: dict[Any, Any] = {("gpu-001/gpu/0", "gpu_temp"): 95.0, ("gpu-001/gpu/1", "gpu_util"): 50.0}
    return at(fleet(1, gpus=2, set=cells), seconds)


def ids(findings: tuple[Finding, ...], state: str = "active") -> list[str]:
    return [finding.id for finding in findings if finding.state == state]


def test_a_changed_file_is_taken_and_what_is_unchanged_goes_on(kept: KeptRules, tmp_path: Path) -> None:
    for seconds in range(0, 59, 2):
        assert kept.evaluate(hot(seconds)) == ()
    write(tmp_path, "busy.yaml", BUSY)
    # One minute after its beginning: the new rule did not make the old one start again.
    found = kept.evaluate(hot(60))
    assert "hot@gpu-001/gpu/0" in ids(found)
    assert kept.take_notices() == ["rules read again: 2"]
    since = next(finding.since for finding in found if finding.rule == "hot")
    write(tmp_path, "hot.yaml", HOT.replace("hot for a while", "too hot"))
    again = kept.evaluate(hot(62))
    assert next(finding.since for finding in again if finding.rule == "hot") == since


def test_a_rule_that_is_gone_clears_what_it_found(kept: KeptRules, tmp_path: Path) -> None:
    for seconds in range(0, 63, 2):
        found = kept.evaluate(hot(seconds))
    assert ids(found) == ["hot@gpu-001/gpu/0"]
    (tmp_path / "rules" / "hot.yaml").unlink()
    found = kept.evaluate(hot(64))
    assert (ids(found), ids(found, "cleared")) == ([], ["hot@gpu-001/gpu/0"])


@pytest.mark.parametrize("broken", ["trigger: [", "rule_id: hot\n", "\x00\xff", HOT.replace("gpu_temp", "gpu_tmp")])
def test_a_broken_file_keeps_the_rules_of_before(kept: KeptRules, tmp_path: Path, broken: str) -> None:
    for seconds in range(0, 59, 2):
        kept.evaluate(hot(seconds))
    (tmp_path / "rules" / "hot.yaml").write_bytes(broken.encode("latin-1"))
    assert ids(kept.evaluate(hot(60))) == ["hot@gpu-001/gpu/0"]
    (notice,) = kept.take_notices()
    assert notice.startswith(str(tmp_path / "rules" / "hot.yaml"))
    assert notice.endswith("· the rules of before stand")
    assert ids(kept.evaluate(hot(62))) == ["hot@gpu-001/gpu/0"]
    assert kept.take_notices() == []
    write(tmp_path, "hot.yaml", HOT)
    kept.evaluate(hot(64))
    assert kept.take_notices() == ["rules read again: 1"]


def test_actions_are_said_once_and_no_call_is_made(kept: KeptRules, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger=rules_kept.__name__):
        for seconds in range(0, 80, 2):
            found = kept.evaluate(hot(seconds))
    (finding,) = found
    assert finding.message == "gpu-001 is at 95"
    assert finding.held == ('POST https://example.org/drain {"node": "gpu-001"}',)
    assert [record.message for record in caplog.records] == ["hot@gpu-001/gpu/0: hot at gpu-001/gpu/0"]


def test_files_are_looked_at_once_a_second_at_most(kept: KeptRules, tmp_path: Path) -> None:
    kept.evaluate(hot(0))
    (tmp_path / "rules" / "hot.yaml").unlink()
    kept.evaluate(hot(0.5))
    assert kept.take_notices() == []
    kept.evaluate(hot(1.5))
    assert kept.take_notices() == ["rules read again: 0"]
