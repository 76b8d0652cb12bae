"""`stethoscope kb learn`: drafts printed, written, checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stethoscope.cli.kb_learn import learn
from stethoscope.errors import DataError
from stethoscope.model.incident import Incident, Times
from stethoscope.session.incidents import Library

if TYPE_CHECKING:
    from pathlib import Path

BODY = "## Evidence\n\n```log\nmount /scratch/a lost server stor-04 (rc -110), retrying\n```\n"


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    one = Incident(
        "INC-2026-03-14-k7qmx", "stands still", root_cause="shared_fs_stall", times=Times(began=1.0), body=BODY
    )
    Library(tmp_path / "nights").create(one)
    return str(tmp_path / "nights")


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(learn, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value or 0), result.output


def test_a_draft_is_written_once_and_passes_the_checks(nights: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    status, text = run("k7qmx", "--as", "signature", "--into", str(tree), "--incidents", nights)
    assert status == 0
    assert str(tree / "signatures" / "inc-2026-03-14-k7qmx.yaml") in text
    assert "INC-2026-03-14-k7qmx is not resolved yet" in text
    with pytest.raises(DataError, match="is there already"):
        run("k7qmx", "--as", "signature", "--into", str(tree), "--incidents", nights)


def test_what_it_cannot_draft_is_said_and_json_has_all_of_it(nights: str) -> None:
    status, text = run("k7qmx", "--as", "rule", "--as", "case", "--incidents", nights)
    assert status == 0
    assert "no rule: the evidence names no value" in text
    assert "no case: the incident keeps no path" in text
    said = json.loads(run("k7qmx", "--as", "rule", "--json", "--incidents", nights)[1])
    assert (said["schema"], said["drafts"], said["errors"]) == ("stethoscope.kb.learn/1", [], [])
