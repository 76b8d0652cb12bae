"""The vocabulary of root causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.specs.root_cause import load_root_causes, read_root_causes

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "schema: stethoscope.root_causes/1\nclasses:\n"


def test_the_bundled_vocabulary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    causes = load_root_causes()
    assert len(causes) == 56
    assert {id_ for id_, cause in causes.items() if cause.layer == "none"} == {"healthy", "unknown"}
    assert {id_ for id_, cause in causes.items() if cause.symptom_only} == {
        "straggler_or_slow_rank",
        "peer_process_died",
    }
    assert causes["healthy"].severity is Severity.NONE
    assert causes["gpu_fallen_off_bus"].severity is Severity.P0
    assert (causes["ib_link_fault"].layer, causes["ib_link_fault"].severity) == ("communication", Severity.P1)


def test_a_directory_stands_before_the_bundled_file(tmp_path: Path) -> None:
    (tmp_path / "root_causes.yaml").write_text(
        f"{HEAD}- {{id: gpu_thermal, layer: node, severity: P2, meaning: ours}}\n"
    )
    assert load_root_causes(tmp_path)["gpu_thermal"].meaning == "ours"
    assert len(load_root_causes(tmp_path)) == 56


def test_an_id_twice_is_an_error(tmp_path: Path) -> None:
    entry = "- {id: made, layer: node, severity: P2, meaning: m}\n"
    (tmp_path / "root_causes.yaml").write_text(HEAD + entry + entry)
    with pytest.raises(DataError, match=r'root_causes.yaml:4:8: the root cause "made" is defined twice'):
        read_root_causes(tmp_path / "root_causes.yaml")
