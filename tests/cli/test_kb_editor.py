"""`stethoscope kb add` and `edit` with an editor: nothing that is typed is lost, nobody is written over."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import click
import pytest

from stethoscope.cli import kb_editor
from stethoscope.errors import StethoscopeError, UsageError
from stethoscope.specs.incident import read_incident
from tests.cli.kb_shell import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.kb_shell import Shell


@pytest.fixture
def hands(kb: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what lets editors of python take turns at the file, one after another."""

    def take(*turns: str) -> None:
        script, count = tmp_path / "editor.py", tmp_path / "count"
        count.unlink(missing_ok=True)
        script.write_text(
            "import pathlib, re, sys\n"
            f"count = pathlib.Path({str(count)!r})\n"
            "turn = len(count.read_text()) if count.exists() else 0\n"
            "count.write_text('x' * (turn + 1))\n"
            "path = pathlib.Path(sys.argv[-1])\n"
            "text = path.read_text()\n"
            f"exec({list(turns)!r}[turn])\n"
            "path.write_text(text)\n"
        )
        import sys

        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")

    monkeypatch.setattr(kb_editor, "is_at_hand", lambda: True)
    return take


def test_an_editor_fills_in_what_only_a_person_knows(kb: Shell, hands: Any, tmp_path: Path) -> None:
    hands("text = text.replace('resolution: ', 'resolution: 换了光模块').replace('title: \"\"', 'title: Sick optic')")
    assert kb("add").startswith("INC-")
    one = kb.json("list")["incidents"][0]
    assert (one["title"], one["resolution"]) == ("Sick optic", "换了光模块")
    # With a resolution it is over, as in the form; how long that took nobody said.
    assert (one["status"], one["times"]["detected"], one["took"]["repair_s"]) == ("resolved", None, None)
    assert list((tmp_path / "state" / "stethoscope" / "drafts").iterdir()) == []
    hands("text = ''")
    with pytest.raises(click.Abort):
        kb("add")
    assert kb.json("list")["total"] == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("swapped: port #3", "swapped: port #3"),
        ("optic #3", "optic #3"),
        ("- both ends", "- both ends"),
        ("'quoted: already'", "quoted: already"),
        ("更换：riser", "更换：riser"),
    ],
)
def test_what_is_typed_behind_a_key_is_words_and_no_yaml(typed: str, said: str) -> None:
    text = f"---\nschema: stethoscope.incident/1\nid: INC-2026-03-14-k7qmx\ntitle: x # old\nresolution: {typed}\n---\n"
    one = read_incident(kb_editor.quoted(text, "title: x # old"), "x")
    assert (one.title, one.resolution) == ("x", said)


def test_a_fault_is_shown_at_its_line_and_edited_again(kb: Shell, hands: Any) -> None:
    first = recorded(kb)
    hands("text = text.replace('severity: P1', 'severity: P9')", "text = text.replace('P9', 'P0')")
    kb("edit", first, stdin="y\n")
    assert "    6  severity: P9\n                 ^ severity" in kb.err
    assert kb.json("show", first)["incident"]["severity"] == "P0"
    kb("edit", first, "--file", "-", stdin=kb("show", first, "--raw"))


def test_what_was_typed_is_kept_and_goes_on(kb: Shell, hands: Any, tmp_path: Path) -> None:
    first = recorded(kb)
    hands("text = text.replace('severity: ', 'severity: [')")
    with pytest.raises(click.Abort):
        kb("edit", first, stdin="n\n")
    (kept,) = (tmp_path / "state" / "stethoscope" / "drafts").glob("edit-*.md")
    assert "severity: [" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kb.json("list", "--drafts")["edits"] == [{"file": str(kept)}]
    # Meanwhile somebody else changed it: the copy is of what it said before, and is not lost out of sight.
    older = kept.with_name(kept.name.replace(kept.stem[-12:], "0" * 12))
    older.write_text("x")
    hands("text = text.replace('severity: [', 'severity: ').replace('title: ', 'title: Gone on ')")
    kb("edit", first, stdin="y\n")
    assert f"is kept in {older}" in kb.err
    assert kb.json("show", first)["incident"]["title"].startswith("Gone on")
    assert not kept.exists()


def test_nobody_writes_over_somebody_else(kb: Shell, hands: Any, tmp_path: Path) -> None:
    first = recorded(kb)
    path = tmp_path / "data" / "stethoscope" / "incidents" / f"{first}.md"
    theirs = f"their = pathlib.Path({str(path)!r}); their.write_text(their.read_text().replace(%r, %r))\n"
    mine = "text = text.replace('title: GPU', 'title: My GPU')"
    hands(theirs % ("component: gpu", "component: pcie") + mine)
    kb("edit", first)
    assert "both changes" in kb.err
    one = kb.json("show", first)["incident"]
    assert (one["title"], one["component"]) == ("My GPU fell off the bus", "pcie")
    choose = "text = re.sub(r'<<<<<<< yours\\n(.*?)=======\\n(.*?)>>>>>>> theirs\\n', r'\\1', text, flags=re.DOTALL)"
    hands(theirs % ("title: My", "title: Their") + "text = text.replace('My GPU', 'Our GPU')", "", choose)
    kb("edit", first, stdin="y\ny\n")
    assert "a merge is not finished here" in kb.err
    assert kb.json("show", first)["incident"]["title"] == "Our GPU fell off the bus"


def test_an_editor_that_is_not_there_or_fails_changes_nothing(
    kb: Shell, hands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = recorded(kb)
    hands("raise SystemExit(1)")
    with pytest.raises(click.Abort):
        kb("edit", first)
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    with pytest.raises(UsageError, match="cannot be started"):
        kb("edit", first)
    monkeypatch.setattr(kb_editor, "is_at_hand", lambda: False)
    with pytest.raises(UsageError, match="--file"):
        kb("edit", first)
    with pytest.raises(StethoscopeError, match="no incident"):
        kb("edit", "nothing")
