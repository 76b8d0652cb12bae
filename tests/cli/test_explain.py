"""`stethoscope explain` as a user runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stethoscope.cli.explain import _complete, command
from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def said(*words: str) -> str:
    done = CliRunner().invoke(command, [*words], catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0
    return done.output


def test_a_signature_is_explained() -> None:
    text = said("nccl.ib.completion")
    assert text.splitlines()[0].startswith(" ▲ P1      A transfer over RDMA ended with an error")
    assert "\n class     ib_link_fault\n" in text
    assert "\n check     1 " in text


def test_several_stand_one_below_the_other() -> None:
    assert said("xid.79", "sxid.12028").count("\n is        ") == 2


def test_the_list_is_searched_by_words() -> None:
    rows = said("--list", "hung", "task").splitlines()
    assert any("os.hung_task" in row for row in rows)
    assert all("hung" in row.lower() for row in rows)


def test_json_has_the_same() -> None:
    one = json.loads(said("--json", "xid.79"))
    assert one["schema"] == "stethoscope.explain/1"
    assert one["explained"][0]["id"] == "xid.79"
    several = json.loads(said("--json", "--list", "xid"))
    assert {"id", "meaning", "severity", "role"} == set(several["signatures"][0])


def test_a_wrong_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r'no signature is called "nccl.ib.complet"; did you mean "nccl.ib.completion'):
        said("nccl.ib.complet")
    with pytest.raises(UsageError, match="no signature and no code has"):
        said("--list", "qqqq")


def test_an_own_signature_is_explained(tmp_path: Path) -> None:
    (tmp_path / "signatures").mkdir()
    (tmp_path / "signatures" / "own.yaml").write_text(
        "schema: stethoscope.signatures/1\nsignatures:\n- id: own.riser\n  anchors: ['riser loose']\n"
        "  patterns: ['riser loose in slot (?P<slot>\\d{1,2})']\n  role: cause\n  root_cause: pcie_fault\n"
        "  severity: P1\n  meaning: The riser is loose.\n  next_checks: [reseat it]\n"
        "  samples: {match: ['riser loose in slot 4'], no_match: ['riser fine']}\n"
    )
    text = said("--playbooks", str(tmp_path), "own.riser")
    assert "The riser is loose." in text
    # A path that is longer than a line goes on in the next one.
    assert f"{tmp_path}/signatures/own.yaml" in "".join(text.split())


def test_shells_complete_ids() -> None:
    found = [item.value for item in _complete(None, None, "xid.7")]  # type: ignore[arg-type]
    assert "xid.79" in found
    assert all(name.startswith("xid.7") for name in found)
