"""The index follows its files, whoever changes them, and is made anew where it is lost, broken or cannot be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import apsw
import pytest

from stethoscope.clock import FixedClock, SystemClock
from stethoscope.model.incident import Incident, Link, Status, Times, Trouble
from stethoscope.specs.incident_text import incident_text
from stethoscope.store.incident_db import index_path, tidy, tokens_of
from stethoscope.store.incident_index import IncidentIndex
from stethoscope.store.incident_search import searched
from stethoscope.store.incidents import IncidentFiles

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO = 1_700_000_000


def _put(directory: Path, name: str, title: str, **more: object) -> Path:
    path = directory / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(incident_text(replace(Incident(id=path.stem, title=title), **more)), encoding="utf-8")  # type: ignore[arg-type]
    return path


def _index(base: Path, seeds: bool = False) -> IncidentIndex:
    own = IncidentFiles(base / "own")
    return IncidentIndex(own, IncidentFiles(base / "seeds") if seeds else None, base / "cache", SystemClock())


def _found(index: IncidentIndex, text: str = "") -> list[str]:
    for _ in index.follow():
        pass
    return [hit.incident.title for hit in searched(index, text, 0.0, 50).hits]


def _titles(index: IncidentIndex) -> list[str]:
    for _ in index.follow():
        pass
    return [one.title for one in index.all()]


def test_it_follows_what_others_do_to_the_files(tmp_path: Path) -> None:
    index = _index(tmp_path)
    assert _titles(index) == []
    one = _put(tmp_path / "own", "a", "optic")
    assert _found(index, "optic") == ["optic"]
    generation = index.generation
    assert list(index.follow()) == []
    assert index.generation == generation
    _put(tmp_path / "own", "a", "riser")
    assert _found(index, "optic") == []
    assert _found(index, "riser") == ["riser"]
    one.rename(tmp_path / "own" / "INC-b.md")
    assert _found(index, "riser") == ["riser"]
    assert index.troubles() == (Trouble("INC-b.md", 0, "the file is named otherwise than its id a"),)
    (tmp_path / "own" / "INC-b.md").unlink()
    assert _titles(index) == []
    assert index.troubles() == ()


def test_a_change_within_the_tick_of_the_file_system_is_seen(tmp_path: Path) -> None:
    index = _index(tmp_path)
    path = _put(tmp_path / "own", "a", "aaaa")
    status = path.stat()
    assert _titles(index) == ["aaaa"]
    index._clock = FixedClock(status.st_mtime + 0.5)
    with path.open("r+", encoding="utf-8") as file:
        text = file.read().replace("aaaa", "bbbb")
        file.seek(0)
        file.write(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    index._clock = FixedClock(status.st_mtime + 60)
    assert _titles(index) == ["bbbb"]
    # Now it has stood long enough to be believed.
    assert list(index.follow()) == []


def test_a_broken_file_costs_only_itself(tmp_path: Path) -> None:
    index = _index(tmp_path)
    path = _put(tmp_path / "own", "INC-a", "one")
    _put(tmp_path / "own", "INC-b", "two")
    assert sorted(_titles(index)) == ["one", "two"]
    path.write_text("---\nschema: stethoscope.incident/1\nid: INC-a\nseverity: P9\n---\n")
    assert _titles(index) == ["two"]
    assert index.troubles()[0].line == 4
    assert "P9" in index.troubles()[0].message


def test_the_name_of_a_broken_file_obeys_nobody(tmp_path: Path) -> None:
    index = _index(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "INC-\x1b[31mred\nx.md").write_text("no front matter")
    assert _titles(index) == []
    assert [trouble.path for trouble in index.troubles()] == ["INC-red x.md"]


def test_of_two_files_with_one_id_the_first_is_shown_and_the_other_told(tmp_path: Path) -> None:
    index = _index(tmp_path, seeds=True)
    _put(tmp_path / "own", "x/INC-a", "copy")
    first = _put(tmp_path / "own", "INC-a", "first")
    _put(tmp_path / "seeds", "INC-a", "seed")
    _put(tmp_path / "seeds", "REF-b", "well known", status=Status.OPEN)
    assert _titles(index) == ["first", "well known"]
    assert index.troubles() == (Trouble("x/INC-a.md", 0, "not shown: INC-a.md has the same id INC-a"),)
    assert index.by_id("REF-b") == Incident(id="REF-b", title="well known", status=Status.REFERENCE)
    first.unlink()
    assert _titles(index) == ["copy", "well known"]


def test_it_is_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        index = _index(tmp_path)
        _put(tmp_path / "own", "a", "x")
        _titles(index)
    finally:
        os.umask(before)
    directory = tmp_path / "cache" / "index"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "content", [b"", b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096], ids=["empty", "text", "half"]
)
def test_a_broken_index_is_made_anew(tmp_path: Path, content: bytes) -> None:
    _put(tmp_path / "own", "a", "optic")
    path = index_path([tmp_path / "own"], tmp_path / "cache")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert _found(_index(tmp_path), "optic") == ["optic"]


def test_one_of_another_version_or_half_made_is_made_anew(tmp_path: Path) -> None:
    _put(tmp_path / "own", "a", "optic")
    path = index_path([tmp_path / "own"], tmp_path / "cache")
    path.parent.mkdir(parents=True)
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE meta(other); PRAGMA user_version = 1")
    other.close()
    assert _found(_index(tmp_path), "optic") == ["optic"]


def test_an_index_that_is_taken_away_under_a_console_comes_back(tmp_path: Path) -> None:
    _put(tmp_path / "own", "a", "optic")
    index = _index(tmp_path)
    assert _found(index, "optic") == ["optic"]
    for path in (tmp_path / "cache" / "index").iterdir():
        path.unlink()
    assert _found(index, "optic") == ["optic"]
    index.rebuild()
    assert _found(index, "optic") == ["optic"]


def test_where_the_cache_cannot_be_written_it_is_in_memory(tmp_path: Path) -> None:
    _put(tmp_path / "own", "a", "optic")
    (tmp_path / "cache").write_text("no directory")
    index = _index(tmp_path)
    assert _found(index, "optic") == ["optic"]
    assert index.database.path is None
    _put(tmp_path / "own", "b", "riser")
    assert _found(index, "riser") == ["riser"]


def test_a_console_that_cannot_write_goes_on_with_what_there_is(tmp_path: Path) -> None:
    _put(tmp_path / "own", "a", "optic")
    first = _index(tmp_path)
    assert _found(first, "optic") == ["optic"]
    first.to_memory()
    assert [one.title for one in first.all()] == ["optic"]
    _put(tmp_path / "own", "b", "riser")
    assert _found(first, "riser") == ["riser"]
    # That of the file knows nothing of it.
    second = _index(tmp_path)
    assert [one.title for one in second.all()] == ["optic"]


def test_while_another_console_takes_files_in_this_one_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.store.incident_index._LOCK_S", 0.0)
    for number in range(70):
        _put(tmp_path / "own", f"INC-{number}", f"optic {number}")
    first, second = _index(tmp_path), _index(tmp_path)
    following = first.follow()
    assert next(following) == 64
    assert list(second.follow()) == []
    assert second.waiting == 6
    found = searched(second, "optic", 0.0, 100)
    assert (found.total, found.notes) == (64, ("6 files are not read yet",))
    assert list(following) == [6]
    assert len(_found(second, "optic")) == 50
    assert searched(second, "optic", 0.0, 100).total == 70


_WRITER = """
import sys
from pathlib import Path
from dataclasses import replace
from stethoscope.session.incidents import Library
from stethoscope.model.incident import Incident
base = Path(sys.argv[1])
library = Library(base / "own", base / "cache", seeds=False)
for number in range(15):
    library.create(Incident(id=f"INC-{sys.argv[2]}-{number}", title=f"optic {number}"))
    library.refresh()
    assert library.search("optic").total > number
"""


def test_several_consoles_write_and_read_one_directory(tmp_path: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), name], stderr=subprocess.PIPE, text=True)
        for name in ("a", "b", "c")
    ]
    assert [(child.communicate()[1], child.returncode) for child in children] == [("", 0)] * 3
    index = _index(tmp_path)
    for _ in index.follow():
        pass
    assert searched(index, "optic", 0.0, 100).total == 45
    assert index.database.connection.execute("PRAGMA integrity_check").get == "ok"
    index.database.words.command_integrity_check()


def test_an_index_that_nobody_opened_for_long_is_taken_away(tmp_path: Path) -> None:
    _put(tmp_path / "own", "a", "x")
    index = _index(tmp_path)
    _titles(index)
    index.close()
    directory = tmp_path / "cache" / "index"
    (path,) = directory.glob("*.db")
    tidy(directory, path.stat().st_mtime + 80 * 86400)
    assert path.exists()
    tidy(directory, path.stat().st_mtime + 100 * 86400)
    assert list(directory.iterdir()) == []


def test_another_directory_has_another_index(tmp_path: Path) -> None:
    paths = {index_path([tmp_path / name], tmp_path) for name in ("a", "b", "a/../b")}
    assert len(paths) == 2


def test_who_has_something_is_found_by_place_and_sign(tmp_path: Path) -> None:
    own = tmp_path / "own"
    _put(own, "a", "gpu", places=("gpu-014/gpu/3",), symptoms=("xid.79",), times=Times(began=2.0))
    _put(own, "b", "node", nodes="gpu-[013-014]", times=Times(began=3.0))
    _put(own, "c", "victims", nodes="gpu-[001-100]", times=Times(began=4.0))
    _put(own, "d", "victim of a leaf", nodes="gpu-014", places=("leaf/leaf-01",), times=Times(began=5.0))
    index = _index(tmp_path)
    assert _titles(index) == ["victim of a leaf", "victims", "node", "gpu"]
    assert [one.title for one in index.for_place("gpu-014")] == ["victim of a leaf", "node", "gpu"]
    assert [one.title for one in index.for_place("GPU-014/gpu/3")] == ["gpu"]
    assert [one.title for one in index.for_place("leaf/leaf-01")] == ["victim of a leaf"]
    assert [one.title for one in index.with_term("xid", "79")] == ["gpu"]
    assert index.for_place("gpu-01") == []


def test_a_ticket_leads_to_its_incident(tmp_path: Path) -> None:
    links = (Link("ticket", "OPS-1201"), Link("same_as", "INC-2026-03-14-k7qmx"))
    _put(tmp_path / "own", "a", "gpu", links=links)
    _put(tmp_path / "own", "b", "optic", links=(Link("ticket", "OPS-1202"),))
    index = _index(tmp_path)
    for text in ("OPS-1201", "ops-1201 gpu", "ticket:OPS-1201", "link:inc-2026-03-14-k7qmx", "ticket:OPS-12* -optic"):
        assert _found(index, text) == ["gpu"], text
    # The incident that is linked is what its id means.
    assert _found(index, "k7qmx") == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("GPU 掉卡 Ⅲ ＡＢ café", ["gpu", "掉", "卡", "iii", "ab", "cafe"]),
        ("nccl.timeout ib_link_fault mlx5_3:1", ["nccl", "timeout", "ib", "link", "fault", "mlx5", "3", "1"]),
        ("xid.79 gpu-014/gpu/3", ["xid", "79", "gpu", "014", "gpu", "3"]),
        ("don't", ["don't"]),
        ("!!! -- ", []),
    ],
)
def test_words(text: str, tokens: list[str]) -> None:
    raw = text.encode()
    found = list(tokens_of(raw))
    assert [token for _, _, token in found] == tokens
    for start, end, token in found:
        assert raw[start:end].decode()
        assert token
