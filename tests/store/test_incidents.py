"""Incidents as files: nothing of them is lost or written over, whoever else writes and whenever a console is killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.model.incident import Incident, Trouble
from stethoscope.specs.incident_text import incident_text
from stethoscope.store.drafts import Draft, Drafts
from stethoscope.store.incidents import ConflictError, IncidentFiles

if TYPE_CHECKING:
    from pathlib import Path

ONE = Incident(id="INC-2026-03-14-k7qmx", title="GPU 掉卡", body="one\n")


@pytest.fixture
def files(tmp_path: Path) -> IncidentFiles:
    return IncidentFiles(tmp_path / "incidents")


def test_what_was_written_is_read(files: IncidentFiles) -> None:
    version = files.create(ONE)
    reading = files.read("INC-2026-03-14-k7qmx.md")
    assert (reading.incident, reading.version, reading.troubles) == (ONE, version, ())
    later = files.write(replace(ONE, title="two"), version)
    assert later != version
    assert files.read(version.path).incident == replace(ONE, title="two")
    assert [path.name for path in files.directory.iterdir()] == ["INC-2026-03-14-k7qmx.md"]


def test_a_directory_that_is_not_there_has_nothing_and_one_that_cannot_be_read_says_so(files: IncidentFiles) -> None:
    assert files.scan() == []
    files.directory.write_text("a file")
    with pytest.raises(DataError, match="Not a directory"):
        files.scan()
    with pytest.raises(DataError):
        files.create(ONE)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o640), (0o077, 0o600), (0o007, 0o640)])
def test_a_file_is_for_those_whom_the_umask_lets(files: IncidentFiles, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        version = files.create(ONE)
        path = files.directory / version.path
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.chmod(0o664)
        files.write(replace(ONE, title="two"), version)
        assert stat.S_IMODE(path.stat().st_mode) == 0o664
    finally:
        os.umask(before)


def test_a_new_incident_never_takes_the_place_of_another(files: IncidentFiles) -> None:
    files.create(ONE)
    with pytest.raises(DataError, match="an incident of this id is there already"):
        files.create(replace(ONE, title="other"))
    with pytest.raises(DataError, match="already"):
        files.write(replace(ONE, title="other"), None)
    assert files.read("INC-2026-03-14-k7qmx.md").incident == ONE
    with pytest.raises(DataError, match="is no id"):
        files.create(replace(ONE, id="../evil"))


def test_it_works_where_there_are_no_hard_links(files: IncidentFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    files.create(ONE)
    with pytest.raises(DataError, match="already"):
        files.create(ONE)
    assert files.read("INC-2026-03-14-k7qmx.md").incident == ONE


def test_what_somebody_else_wrote_meanwhile_is_not_written_over(files: IncidentFiles) -> None:
    version = files.create(ONE)
    path = files.directory / version.path
    theirs = replace(ONE, resolution="theirs")
    path.write_text(incident_text(theirs), encoding="utf-8")
    with pytest.raises(ConflictError) as raised:
        files.write(replace(ONE, resolution="mine"), version)
    assert raised.value.theirs is not None
    assert raised.value.theirs.incident == theirs
    assert files.read(version.path).incident == theirs
    files.write(replace(ONE, resolution="both"), raised.value.theirs.version)
    path.unlink()
    with pytest.raises(ConflictError, match="removed or renamed") as gone:
        files.write(ONE, version)
    assert gone.value.theirs is None
    assert not path.exists()


def test_of_two_who_save_at_the_same_time_one_is_told(files: IncidentFiles) -> None:
    version = files.create(ONE)
    told: list[str] = []
    start = threading.Barrier(8)

    def save(name: str) -> None:
        start.wait()
        try:
            IncidentFiles(files.directory).write(replace(ONE, resolution=name), version)
            told.append("")
        except ConflictError:
            told.append("conflict")

    savers = [threading.Thread(target=save, args=(f"mine {number}",)) for number in range(8)]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()
    assert sorted(told) == [""] + ["conflict"] * 7


def test_a_link_to_a_file_stays_one(files: IncidentFiles, tmp_path: Path) -> None:
    version = files.create(ONE)
    path = files.directory / version.path
    path.rename(tmp_path / "elsewhere.md")
    path.symlink_to(tmp_path / "elsewhere.md")
    files.write(replace(ONE, title="two"), version)
    assert path.is_symlink()
    assert files.read(version.path).incident == replace(ONE, title="two")


def test_only_what_says_to_be_an_incident_is_one(files: IncidentFiles) -> None:
    files.create(ONE)
    for name, text in {
        "README.md": "# Ours\n",
        "notes.txt": "x",
        ".hidden.md": "x",
        ".git/INC-1.md": "x",
        "2025/INC-2025-01-01-aaaaa.md": incident_text(replace(ONE, id="INC-2025-01-01-aaaaa")),
        "2025/by-hand.md": incident_text(replace(ONE, id="by-hand")),
    }.items():
        (files.directory / name).parent.mkdir(exist_ok=True)
        (files.directory / name).write_text(text, encoding="utf-8")
    os.mkfifo(files.directory / "pipe.md")
    assert sorted(seen.path for seen in files.scan()) == [
        "2025/INC-2025-01-01-aaaaa.md", "2025/by-hand.md", "INC-2026-03-14-k7qmx.md", "README.md",
    ]  # fmt: skip
    assert files.read("README.md").incident is None
    assert files.read("README.md").troubles == ()
    assert files.read("2025/by-hand.md").troubles == ()
    with pytest.raises(DataError, match="no regular file"):
        files.read("pipe.md")


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        (b"", Trouble("INC-1.md", 1, "column 1: an incident begins with a line `---` and its front matter")),
        (b"---\nid: \xff\n---\n", Trouble("INC-1.md", 2, "not UTF-8 text")),
        (b"---\nschema: stethoscope.incident/1\nid: INC-2\ntitle: t\n---\n",
         Trouble("INC-1.md", 0, "the file is named otherwise than its id INC-2")),
        (b"---\nschema: stethoscope.incident/1\nid: [\n---\n",
         Trouble("INC-1.md", 4, "column 1: while parsing a flow node did not find expected node content")),
        (b"---\nschema: stethoscope.incident/1\nid: INC-1\ntitle: t\n---\na\n<<<<<<< HEAD\n",
         Trouble("INC-1.md", 7, "what git could not merge: keep one side and take the marks away")),
        (b"x" * (8 * 2**20 + 1), Trouble("INC-1.md", 0, "larger than 8 MiB")),
    ],
)  # fmt: skip
def test_a_broken_file_is_told_with_its_line(files: IncidentFiles, content: bytes, trouble: Trouble) -> None:
    files.directory.mkdir()
    (files.directory / "INC-1.md").write_bytes(content)
    assert files.read("INC-1.md").troubles == (trouble,)


def test_ids_of_two_engineers_differ(files: IncidentFiles, tmp_path: Path) -> None:
    ids = {IncidentFiles(tmp_path / str(number % 2)).new_id("2026-03-14") for number in range(300)}
    assert len(ids) == 300
    assert all(one.startswith("INC-2026-03-14-") and len(one) == 20 for one in ids)


def test_what_a_killed_console_left_is_taken_away_after_an_hour(files: IncidentFiles) -> None:
    files.create(ONE)
    stray = files.directory / ".INC-2026-03-14-k7qmx.md.0123456789ab"
    stray.write_text("half")
    now = stray.stat().st_mtime
    files.tidy(now + 3000)
    assert stray.exists()
    files.tidy(now + 4000)
    assert sorted(path.name for path in files.directory.iterdir()) == ["INC-2026-03-14-k7qmx.md"]


_CHILD = """
import sys
from dataclasses import replace
from pathlib import Path
from stethoscope.session.incidents import Library
from stethoscope.model.incident import Incident, Times
base = Path(sys.argv[1])
library = Library(base / "incidents", base / "cache", seeds=False, drafts=base / "drafts")
one = library.create(Incident(id="", title="0", body="0 " * 20000, times=Times(began=1773454447.0)))
print(one.id, 0, flush=True)
number = 0
while True:
    number += 1
    library.save_draft("key", replace(one, title=str(number), body=f"{number} " * 20000))
    library.save(replace(one, title=str(number), body=f"{number} " * 20000), library.version(one.id))
    print(one.id, number, flush=True)
"""


@pytest.mark.parametrize("acknowledged", [1, 2, 3, 5, 8, 13])
def test_nothing_that_was_saved_is_lost_when_the_console_is_killed(tmp_path: Path, acknowledged: int) -> None:
    from stethoscope.session.incidents import Library

    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert child.stdout is not None
    try:
        lines = [child.stdout.readline() for _ in range(acknowledged)]
    finally:
        # In the midst of what comes next, wherever that is.
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
        child.stdout.close()
        child.wait()
    identity, last = [line for line in lines if line.endswith("\n")][-1].split()
    library = Library(tmp_path / "incidents", tmp_path / "cache", seeds=False, drafts=tmp_path / "drafts")
    one = library.get(identity)
    assert library.troubles == ()
    # The one that was said to be saved, or the one after it; and whole.
    assert int(one.title) - int(last) in (0, 1)
    assert one.body == f"{one.title} " * 20000
    assert [found.incident.id for found in library.search(f'"{one.title} {one.title}"').hits] == [identity]
    for draft in library.drafts():
        assert int(draft.incident.title) - int(last) in (0, 1)
        assert draft.incident.body == f"{draft.incident.title} " * 20000
    assert library.save(replace(one, title="after"), library.version(identity)) == library.version(identity)


def test_a_draft_is_kept_for_the_user_alone_until_it_is_dropped(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path / "drafts")
    assert drafts.all() == []
    first = Draft(key="verdict/job/4242", saved=1.0, incident=Incident(id="", title="", body="掉\n卡"))
    drafts.save(first)
    drafts.save(Draft(key="b", saved=2.0, expected="abc", incident=ONE))
    drafts.save(Draft(key="b", saved=3.0, expected="abc", incident=replace(ONE, title="newer")))
    assert [(draft.key, draft.incident.title) for draft in drafts.all()] == [("b", "newer"), (first.key, "")]
    assert drafts.all()[1] == first
    assert {stat.S_IMODE(path.stat().st_mode) for path in drafts.directory.iterdir()} == {0o600}
    (drafts.directory / "broken.json").write_text('{"schema": 1')
    (drafts.directory / "other.json").write_text("[]")
    drafts.save(Draft(key="\ud800", saved=0.0, incident=replace(ONE, title="\ud800")))
    assert len(drafts.all()) == 3
    drafts.drop("b")
    drafts.drop("b")
    assert [draft.key for draft in drafts.all()] == [first.key, "\ufffd"]
