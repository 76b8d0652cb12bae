"""The well-known kinds of incidents are checked like all other data files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.paths import bundled
from stethoscope.session.lint import lint
from stethoscope.session.lint_incidents import lint_incidents
from stethoscope.session.lint_tree import look

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.errors import DataError

GOOD = """---
schema: stethoscope.incident/1
id: REF-ours
title: A kind of ours
status: reference
root_cause: ib_link_fault
component: optic
symptoms: [ib_symbol_errors, xid.79]
resolution: Swap it.
---
"""


def errors_of(tmp_path: Path, text: str, name: str = "REF-ours.md") -> list[str]:
    directory = tmp_path / "incidents"
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(text, encoding="utf-8")
    errors: list[DataError] = []
    lint_incidents(errors, [tmp_path], ())
    return [str(error).replace(f"{tmp_path}/incidents/", "") for error in errors]


def test_the_bundled_ones_are_many_and_sound() -> None:
    errors: list[DataError] = []
    count = lint_incidents(errors, [], ())
    assert (errors, count >= 20) == ([], True)
    assert count == len(list((bundled("playbooks") / "incidents").glob("*.md")))


def test_a_sound_one_of_an_operator_is_counted(tmp_path: Path) -> None:
    assert errors_of(tmp_path, GOOD) == []
    (tmp_path / "incidents" / "README.md").write_text("What these are.\n")
    found = lint(tmp_path)
    assert found.errors == ()
    assert found.counts["incidents"] == 1 + len(list((bundled("playbooks") / "incidents").glob("*.md")))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("reference", "open", 'REF-ours.md:5: a kind that comes with playbooks is `status: reference`'),
        ("REF-ours", "REF-other", 'REF-ours.md:3: the file is called as its id: "REF-other.md"'),
        ("ib_link_fault", "ib_link_falt", 'REF-ours.md:6: unknown root cause "ib_link_falt"; did you'),
        ("ib_symbol_errors", "ib_symbol_eror", 'REF-ours.md:8: no signature or rule is called "ib_symbol_eror"'),
        ("resolution: Swap it.\n", "", "REF-ours.md: without symptoms and resolution it helps nobody"),
        ("component: optic", "component: optik", 'REF-ours.md:7: no component "optik"; did you mean "optic"?'),
        ("title: A", "title: [A", "REF-ours.md:"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    (error,) = errors_of(tmp_path, GOOD.replace(old, new))
    assert error.startswith(says)


def test_files_that_are_not_read_are_said(tmp_path: Path) -> None:
    (tmp_path / "incidents").mkdir()
    (tmp_path / "incidents" / "kind.yaml").write_text("{}\n")
    assert [error.message for error in look(tmp_path).errors] == ['not read: a file of this directory ends in ".md"']
