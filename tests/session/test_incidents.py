"""The library: records, finds, changes and remembers; without secrets, and whoever else writes."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stethoscope.clock import FixedClock
from stethoscope.errors import DataError
from stethoscope.model.incident import Clues, Incident, Link, Status, Times
from stethoscope.session.incidents import Library, incidents_dir, redacted
from stethoscope.specs.incident import read_incident
from stethoscope.specs.incident_text import incident_text
from stethoscope.store.incidents import ConflictError

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_773_454_447.0
"""2026-03-14T02:14:07Z"""
ONE = Incident(
    id="",
    title="GPU 掉卡",
    symptoms=("xid.79",),
    places=("gpu-014/gpu/3",),
    times=Times(began=NOW - 100_000),
    resolution="riser",
)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "own", tmp_path / "cache", clock=FixedClock(NOW), drafts=tmp_path / "drafts", seeds=False)


def test_what_is_recorded_has_its_id_of_the_day_it_began_and_is_found_at_once(library: Library) -> None:
    one = library.create(ONE)
    assert one.id.startswith("INC-2026-03-12-")
    assert one.times.recorded == NOW
    assert library.get(one.id) == one
    assert library.get(one.id[-5:].upper()) == one
    assert library.path(one.id) == library.directory / f"{one.id}.md"
    assert read_incident(library.path(one.id).read_text(encoding="utf-8"), "x") == one
    assert [hit.incident for hit in library.search("掉卡").hits] == [one]
    assert library.all() == [one]
    assert library.history("gpu-014") == [one]
    assert library.create(replace(ONE, times=Times())).id.startswith("INC-2026-03-14-")
    assert library.troubles == ()


def test_an_id_that_is_not_there_names_the_nearest_and_a_part_of_several_names_them(library: Library) -> None:
    library.create(replace(ONE, id="INC-2026-03-12-aaaab"))
    library.create(replace(ONE, id="INC-2026-03-13-ccccd"))
    with pytest.raises(DataError, match='no incident "INC-2026-03-12-aaaax"; did you mean "INC-2026-03-12-aaaab"'):
        library.get("INC-2026-03-12-aaaax")
    with pytest.raises(DataError, match="fits 2 incidents: INC-2026-03-12-aaaab, INC-2026-03-13-ccccd"):
        library.version("INC-2026")
    with pytest.raises(DataError, match="no incident"):
        library.path("")
    with pytest.raises(DataError, match="no incident"):
        library.get("\x1b[31m")


def test_a_change_of_somebody_else_is_not_written_over(library: Library) -> None:
    one = library.create(ONE)
    mine = library.version(one.id)
    theirs = replace(one, resolution="theirs")
    library.path(one.id).write_text(incident_text(theirs), encoding="utf-8")
    with pytest.raises(ConflictError) as raised:
        library.save(replace(one, resolution="mine"), mine)
    assert raised.value.theirs is not None
    assert raised.value.theirs.incident == theirs
    assert library.reading(one.id).incident == theirs
    library.save(replace(one, resolution="both"), raised.value.theirs.version)
    assert library.get(one.id).resolution == "both"
    with pytest.raises(DataError, match="already"):
        library.save(one, None)


def test_a_file_that_a_person_edited_keeps_its_comments(library: Library) -> None:
    one = library.create(ONE)
    text = library.path(one.id).read_text(encoding="utf-8").replace("status: open", "status: resolved  # at last")
    assert library.save_text(text, library.version(one.id)).status is Status.RESOLVED
    assert library.path(one.id).read_text(encoding="utf-8") == text
    with pytest.raises(DataError, match=r"md:5:9: status \"opne\""):
        library.save_text(text.replace("resolved  #", "opne  #"), library.version(one.id))
    safe = library.save_text(f"{text}\npassword=hunter2\n", library.version(one.id))
    assert safe.redacted == 1
    assert "hunter2" not in library.path(one.id).read_text(encoding="utf-8")


def test_secrets_are_taken_out_and_counted(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    one = library.create(
        replace(
            ONE,
            title="job with token=abc",
            body="## Evidence\n\nexport HF_TOKEN=hf_1\n0123456789abcdef\n-----BEGIN RSA PRIVATE KEY-----\nAAA\x1b[31m",
            links=(Link("url", "https://ops:pa55@host/x"),),
            extra=(("env", {"a": ["PGPASSWORD=x"]}),),
            tags=("bearer abcdefgh1",),
        )
    )
    text = library.path(one.id).read_text(encoding="utf-8")
    for secret in ("abc\n", "hf_1", "0123456789abcdef", "AAA", "pa55", "PGPASSWORD=x", "abcdefgh1", "\x1b"):
        assert secret not in text
    assert one.redacted == 7
    assert redacted(one) == one


@given(some.text(max_size=200))
def test_what_is_clean_and_without_secrets_stays_so(text: str) -> None:
    once = redacted(Incident(id="INC-1", title=text, body=text, resolution=text, extra=(("x", text),)))
    assert redacted(once) == once
    assert read_incident(incident_text(once), "x").body == once.body


def test_references_are_shown_and_never_among_the_incidents(tmp_path: Path) -> None:
    library = Library(tmp_path / "own", tmp_path / "cache", clock=FixedClock(NOW))
    assert library.all() == []
    kinds = library.all(references=True)
    assert kinds
    assert all(kind.is_reference for kind in kinds)
    assert library.troubles == ()
    assert library.path(kinds[0].id).name == f"{kinds[0].id}.md"
    assert library.search("is:reference", 5).total == len(kinds)
    assert library.lemons() == []


def test_what_looks_like_it_says_why(library: Library) -> None:
    assert library.similar(Clues(symptoms=("xid.79",))) == []
    one = library.create(ONE)
    clues = Clues(symptoms=("xid.79",), places=("gpu-014/gpu/3",), text="GPU fell off, 掉卡")
    (match,) = library.similar(clues)
    assert (match.incident, match.reasons) == (one, ("same Xid 79 on the same GPU",))
    assert library.similar(clues, words=False)[0].incident == one
    other = library.create(replace(ONE, title="GPU 掉卡 again"))
    assert [identity for identity, _ in library.more_like(one.id)] == [other.id]
    assert len(library.similar(clues)) == 2


def test_a_node_of_another_fleet_is_another_one(library: Library) -> None:
    for day, fleet in ((1, "a"), (5, "a"), (6, "b"), (7, "")):
        library.create(replace(ONE, fleet=fleet, symptoms=("xid.48",), times=Times(began=NOW - day * 86400)))
    assert [one.fleet for one in library.history("gpu-014", "b")] == ["b", ""]
    assert len(library.history("gpu-014")) == len(library.history("gpu-014", "gpu-[001-064]")) == 4
    assert library.lemons(("gpu-014",), "b") == []
    assert [lemon.place for lemon in library.lemons(("gpu-014",), "a")][:1] == ["gpu-014/gpu/3"]


def test_a_part_that_comes_back_is_a_lemon(library: Library) -> None:
    for day in (1, 5):
        library.create(replace(ONE, symptoms=("xid.48",), times=Times(began=NOW - day * 86400)))
    assert [lemon.place for lemon in library.lemons()] == ["gpu-014/gpu/3"]
    assert library.lemons(["gpu-015"]) == []


def test_what_was_being_written_is_offered_again(library: Library) -> None:
    one = library.create(ONE)
    library.save_draft("verdict/job/1", replace(ONE, resolution="half a"))
    library.save_draft("edit", replace(one, resolution="x"), library.version(one.id))
    drafts = library.drafts()
    assert {draft.key: draft.incident.resolution for draft in drafts} == {"verdict/job/1": "half a", "edit": "x"}
    assert {draft.expected for draft in drafts} == {"", library.version(one.id).digest}
    library.drop_draft("edit")
    assert [draft.key for draft in library.drafts()] == ["verdict/job/1"]
    assert library.directory.joinpath("x").parent.is_dir()


def test_a_broken_index_costs_nothing_but_time(library: Library) -> None:
    one = library.create(ONE)
    (path,) = (library.directory.parent / "cache" / "index").glob("*.db")
    # In place, under the open connection: what a bad disk does.
    with path.open("r+b") as file:
        file.write(b"\xff" * 8192)
    path.with_name(f"{path.name}-wal").write_bytes(b"")
    library.close()
    assert [hit.incident for hit in library.search("掉卡").hits] == [one]
    library.rebuild()
    assert library.get(one.id) == one


@pytest.mark.parametrize("fault", ["UPDATE said SET incident = x'81'", "INSERT INTO said VALUES(2, x'')", "file"])
def test_an_index_that_is_broken_inside_is_made_anew(library: Library, fault: str) -> None:
    one = library.create(ONE)
    library.close()
    (path,) = (library.directory.parent / "cache" / "index").glob("*.db")
    index = apsw.Connection(str(path))
    index.execute("PRAGMA journal_mode = delete")
    if fault == "file":
        page = index.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'file'").get
        size = index.execute("PRAGMA page_size").get
        index.close()
        with path.open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(b"\xff" * size)
    else:
        index.execute(fault)
        index.close()
    library.directory.joinpath("INC-2.md").write_text(incident_text(replace(ONE, id="INC-2")), encoding="utf-8")
    library.refresh()
    assert {each.id for each in library.all()} == {one.id, "INC-2"}


def test_several_threads_ask_and_write(library: Library) -> None:
    right: list[bool] = []

    def work(number: int) -> None:
        for _ in range(5):
            one = library.create(replace(ONE, title=f"optic {number}"))
            library.refresh()
            found = library.search(f"optic {number}").total
            right.append(library.get(one.id) == one and found >= 1)
            library.similar(Clues(symptoms=("xid.79",), text="optic"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 20
    assert len(library.all()) == 20


def test_where_the_directory_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert incidents_dir() == tmp_path / "data" / "stethoscope" / "incidents"
    assert incidents_dir("x/y").as_posix() == "x/y"
    settings = tmp_path / "config" / "stethoscope" / "config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("incidents: /shared/incidents\n")
    assert incidents_dir().as_posix() == "/shared/incidents"
    assert incidents_dir("x").as_posix() == "x"
    (tmp_path / "own").write_text("a file")
    broken = Library(tmp_path / "own", tmp_path / "cache", seeds=False)
    with pytest.raises(DataError, match="Not a directory"):
        broken.refresh()
