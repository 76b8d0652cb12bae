"""The bundled rule files in their compiled form: what is read of it is what stands in the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as some

from stethoscope.specs import rule_book
from stethoscope.specs.load import load
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RULE = """\
rule_id: hot
description: too hot
severity: P1
trigger: [{metric: gpu_temp, operator: ">", threshold: 90, window: 1m}]
tests: []
"""


@given(
    some.recursive(
        some.none() | some.booleans() | some.integers() | some.text() | some.floats(allow_nan=False),
        lambda parts: some.lists(parts) | some.dictionaries(some.text() | some.integers(), parts),
    )
)
def test_every_content_comes_back_as_it_was(data: Any) -> None:
    again = rule_book._from_json(rule_book._as_json(data))
    assert (again, repr(again)) == (data, repr(data))


def test_it_is_what_stands_in_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = rule_book.rule_files()[-1]
    wanted = {path: load(path, many=True).data for path in files}
    assert rule_book._compiled(files) == wanted
    monkeypatch.setattr(rule_book, "load", None)
    assert repr(rule_book._compiled(files)) == repr(wanted)


def test_a_file_that_was_edited_is_read_anew_and_errors_have_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "rules.yaml"
    path.write_text(RULE)
    monkeypatch.setattr(rule_book, "rule_files", lambda *_: ((path,),))
    catalogue, causes = load_catalogue(), load_root_causes()
    for _ in range(2):
        assert [rule.id for rule in rule_book.load_rules(catalogue, causes)] == ["hot"]
    path.write_text(RULE.replace("severity: P1", "severity: loud"))
    for _ in range(2):
        (error,) = rule_book.load_book(catalogue, causes).errors
        assert str(error).startswith(f"{path}:3:11: ")
    path.write_text(RULE + "  - [")
    (error,) = rule_book.load_book(catalogue, causes).errors
    assert str(error).startswith(f"{path}:")
