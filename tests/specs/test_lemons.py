"""`lemons:` of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.model.incident import LemonLimits
from stethoscope.specs.config import unknown_names
from stethoscope.specs.lemons import load_limits
from stethoscope.specs.load import loads

if TYPE_CHECKING:
    from pathlib import Path


def test_without_settings_the_usual(tmp_path: Path) -> None:
    assert load_limits(tmp_path / "none.yaml") == LemonLimits()
    (tmp_path / "config.yaml").write_text("theme: dark\n")
    assert load_limits(tmp_path / "config.yaml") == LemonLimits()


def test_what_is_said_counts_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "lemons:\n  signs: [79, xid.48, gpu_lost]\n  sign: {times: 3, days: 30}\n  node: {times: 5, days: 14}\n"
    )
    found = load_limits(tmp_path / "config.yaml")
    assert found.signs == ("xid.79", "xid.48", "gpu_lost")
    assert (found.sign_times, found.sign_days, found.node_times, found.node_days) == (3, 30.0, 5, 14.0)
    assert found.part_times == LemonLimits().part_times


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lemons:\n  nodes: {times: 5, days: 14}\n", r'config.yaml:2:3: .*"nodes".*"node"'),
        ("lemons:\n  node: {times: 1, days: 14}\n", r"config.yaml:2:"),
        ("lemons: 3\n", r"config.yaml:1:"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(DataError, match=says):
        load_limits(tmp_path / "config.yaml")


def test_it_is_a_name_of_the_settings() -> None:
    assert unknown_names(loads("lemons: {}\n"), {"watch": ["theme"]}) == []
    (error,) = unknown_names(loads("lemon: {}\n"), {"watch": ["theme"]})
    assert '"lemons"' in error.message
