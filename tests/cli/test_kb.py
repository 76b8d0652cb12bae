"""`stethoscope kb`: every verb on a library of its own, as a shell calls it."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stethoscope.cli.main import group
from stethoscope.errors import DataError, UsageError
from stethoscope.session.incidents import Library
from tests.cli.kb_shell import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.kb_shell import Shell

TRIAGE = {
    "schema": "stethoscope.triage/1",
    "scope": "global",
    "layer": "communication",
    "verdict": {
        "root_cause": "ib_link_fault", "signature": None, "confidence": 0.93, "severity": "P1",
        "culprits": [{"place": "gpu-007/ib/mlx5_3", "rank": None, "host": "gpu-007", "device": "ib/mlx5_3"}],
        "summary": "one sick link slows the job", "supports": [], "contradicts": [], "next_checks": [],
    },
    "alternatives": [], "path": [], "similar": [], "actions": [],
}  # fmt: skip


def test_what_flags_say_is_recorded_without_secrets(kb: Shell, tmp_path: Path) -> None:
    made = kb.json(
        "add", "--title", "Slow", "--nodes", "gpu-003,gpu-001,gpu-002", "--severity", "P0", "--tag", "a", "--tag", "b",
        "--link", "ticket:OPS-1", "--job", "4242", "--detected", "2026-03-14T02:15:00Z", "--body", "-", "--author",
        "kim", stdin="\ufeff## Evidence\n\npassword=hunter2hunter2\n",
    )  # fmt: skip
    one = made["incident"]
    assert (one["nodes"], one["severity"], one["tags"], one["job"]) == ("gpu-[001-003]", "P0", ["a", "b"], "4242")
    assert (one["times"]["detected"], one["times"]["began"]) == ("2026-03-14T02:15:00Z", None)
    assert (one["redacted"], one["author"], one["links"]) == (1, "kim", [{"how": "ticket", "to": "OPS-1"}])
    assert one["body"].startswith("## Evidence\n"), "what Windows puts before a text is none of it"
    path = tmp_path / "data" / "stethoscope" / "incidents" / f"{one['id']}.md"
    assert str(path) == made["file"]
    assert "hunter2" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0


def test_what_does_not_fit_is_a_usage_error_that_names_the_nearest(kb: Shell) -> None:
    for arguments, words in (
        (["--cause", "ib_link_falt"], 'did you mean "ib_link_fault"'),
        (["--component", "optics"], 'did you mean "optic"'),
        (["--link", "OPS-1"], "not HOW:TO"),
        (["--began", "someday"], "--began"),
        (["--nodes", "gpu-[1-"], "cannot read node set"),
        (["--draft", "x"], "nothing was begun"),
        (["--of", "prod"], "--finding"),
    ):
        with pytest.raises(UsageError, match=words.replace("[", "\\[")):
            kb("add", "--title", "x", *arguments)
    with pytest.raises(UsageError, match="--title"):
        kb("add", "--no-edit")
    assert kb("list") == ""


def test_an_incident_is_made_of_a_triage_and_looks_like_the_last_one(kb: Shell, tmp_path: Path) -> None:
    first = kb.json("add", "--triage", "-", "--fixed", "optic swapped", stdin=json.dumps(TRIAGE))["incident"]
    assert (first["root_cause"], first["places"], first["status"]) == (
        "ib_link_fault", ["gpu-007/ib/mlx5_3"], "resolved",
    )  # fmt: skip
    file = tmp_path / "triage.json"
    file.write_text(json.dumps(TRIAGE))
    second = kb.json("add", "--triage", str(file))
    assert second["similar"][0]["id"] == first["id"]
    assert second["similar"][0]["fixed_by"] == "optic swapped"
    assert kb.json("similar", "--triage", str(file))["similar"][0]["reasons"]
    assert kb.json("similar", first["id"])["similar"][0]["id"] == second["incident"]["id"]
    with pytest.raises(DataError, match="stdin: not what `triage --auto --json` prints"):
        kb("add", "--triage", "-", stdin="{")
    with pytest.raises(DataError, match=r"stethoscope\.decode/1"):
        kb("add", "--decode", str(file))
    with pytest.raises(UsageError, match="say one"):
        kb("similar")


def test_show_is_for_people_and_machines(kb: Shell) -> None:
    first, second = recorded(kb), recorded(kb, "It came back")
    kb("link", second, "same_as", first[-5:])
    assert kb("show", first).splitlines()[:2] == [f"{first}  P1  open", "GPU fell off the bus"]
    assert f"named by  {second} (same_as)" in kb("show", first)
    document = kb.json("show", first[-5:])
    assert document["linked_from"] == [{"id": second, "how": "same_as"}]
    assert document["incident"]["times"]["began"] == "2026-03-14T02:14:07Z"
    assert kb("show", "--raw", first).startswith("---\nschema: stethoscope.incident/1\n")
    with pytest.raises(UsageError, match="no incident"):
        kb("show", "INC-1999-01-01-aaaaa")


def test_search_finds_words_of_any_language_and_never_fails(kb: Shell) -> None:
    first = recorded(kb, "GPU 掉卡，更换 riser 后恢复")
    assert first in kb("search", "掉卡")
    assert kb.json("search", "xid:79", "node:gpu-014")["hits"][0]["id"] == first
    assert kb.json("search", "-riser", "掉卡")["total"] == 0
    kb("search", "nothinglikethis")
    assert "nothing is known of this" in kb.err
    for words in ("((", '"', "a:b:c", "--x", "-", "AND OR NOT", "*", "after:xx"):
        kb("search", words)


def test_lists_are_filtered_and_say_what_is_left_out(kb: Shell) -> None:
    first, second = recorded(kb), recorded(kb, "Other", "--status", "mitigated")
    assert len(kb("list").splitlines()) == 2
    assert kb("list", "--status", "mitigated").startswith(second)
    assert kb("list", "fell").startswith(first)
    assert len(kb("list", "--limit", "1").splitlines()) == 1
    assert "1 of 2" in kb.err
    assert "REF-" in kb("list", "--references", "--limit", "0")
    assert kb.json("list")["total"] == 2
    assert kb.json("list", "--drafts")["drafts"] == []


def test_a_broken_file_costs_itself_alone_and_can_be_mended(kb: Shell, tmp_path: Path) -> None:
    first = recorded(kb)
    path = tmp_path / "data" / "stethoscope" / "incidents" / f"{first}.md"
    whole = path.read_text()
    path.write_text(whole.replace("status: open", "status: opne"))
    second = recorded(kb, "Other")
    assert kb("list").startswith(second)
    assert "kb list --troubles" in kb.err
    assert f"{first}.md:5: " in kb("list", "--troubles", status=65)
    assert kb.json("list", "--troubles", status=65)["troubles"][0]["line"] == 5
    with pytest.raises(DataError, match='did you mean "open"'):
        kb("show", first)
    with pytest.raises(DataError, match="none of open"):
        kb("edit", first, "--file", "-", stdin=path.read_text())
    kb("edit", first, "--file", "-", stdin=whole)
    assert kb("list", "--troubles") == ""


def test_close_says_what_fixed_it_and_when(kb: Shell) -> None:
    first = recorded(kb)
    with pytest.raises(UsageError, match="--fixed"):
        kb("close", first)
    kb("close", first, "--mitigated", "--at", "2026-03-14T02:30:00Z")
    assert kb.json("show", first)["incident"]["status"] == "mitigated"
    said = kb("close", first, "--fixed", "换了 riser", "--at", "2026-03-14T04:14:07Z")
    assert said == f"{first}: resolved (work on after 16 m, repaired in 2 h)\n"
    one = kb.json("close", first, "--fixed", "new riser")["incident"]
    assert (one["times"]["resolved"], one["resolution"]) == ("2026-03-14T04:14:07Z", "new riser")
    kb("close", first, "--fixed", "set token=abcdef1234567890 anew")
    assert kb.err == "1 secret was taken out\n"
    with pytest.raises(UsageError, match="came with the program"):
        kb("close", "REF-xid79-riser", "--fixed", "x")


def test_no_time_stands_before_it_began(kb: Shell) -> None:
    first = recorded(kb)
    with pytest.raises(UsageError, match="resolved 2026-03-14T01:00:00Z is before it began, 2026-03-14T02:14:07Z"):
        kb("close", first, "--fixed", "x", "--at", "2026-03-14T01:00:00Z")
    with pytest.raises(UsageError, match="before it was seen"):
        kb("add", "--no-edit", "--title", "x", "--detected", "2026-03-14T02:00", "--located", "2026-03-14T01:00")
    # What was fixed long after it began: nobody knows when.
    said = kb.json("add", "--no-edit", "--title", "x", "--began", "2026-03-14T02:00", "--fixed", "riser")["incident"]
    assert (said["status"], said["times"]["resolved"], said["took"]["repair_s"]) == ("resolved", None, None)
    # What broke again is not resolved any more.
    kb("close", first, "--fixed", "x", "--at", "2026-03-14T03:00:00Z")
    again = kb.json("close", first, "--mitigated", "--at", "2026-03-14T02:30:00Z")["incident"]
    assert (again["status"], again["times"]["resolved"]) == ("mitigated", None)


def test_a_place_is_a_name(kb: Shell) -> None:
    for place in ("gpu 014", "", " "):
        with pytest.raises(UsageError, match="is no name"):
            kb("add", "--no-edit", "--title", "x", "--place", place)


def test_the_same_night_recorded_twice_is_said(kb: Shell) -> None:
    first = recorded(kb)
    second = recorded(kb, "Xid 79 once more")
    assert "same night" not in kb.err, "JSON is for programs"
    kb("add", "--no-edit", "--title", "x", "--place", "gpu-014/gpu/3", "--symptom", "xid.79", "--cause",
       "gpu_fallen_off_bus", "--component", "gpu", "--began", "2026-03-14T02:20:00Z")  # fmt: skip
    assert "the same night? `kb link INC-2026-03-14-" in kb.err
    kb("link", second, "same_as", first)
    assert kb.json("stats")["same_as_left_out"] == 1


def test_links_are_of_known_kinds_and_to_what_is_there(kb: Shell) -> None:
    first, second = recorded(kb), recorded(kb, "Other")
    assert kb("link", first, "ticket", "OPS-12") == f"{first}: ticket OPS-12\n"
    kb("link", first, "ticket", "OPS-12")
    assert "already" in kb.err
    with pytest.raises(UsageError, match='did you mean "same_as"'):
        kb("link", first, "same_a", second)
    with pytest.raises(UsageError, match="no incident"):
        kb("link", first, "same_as", "INC-x")
    with pytest.raises(UsageError, match="with itself"):
        kb("link", first, "same_as", first)
    assert kb.json("link", first, "ticket", "OPS-12", "--undo")["incident"]["links"] == []
    kb("link", first, "ticket", "OPS-12", "--undo", status=65)


def test_stats_count_no_reference(kb: Shell) -> None:
    recorded(kb, "a", "--fixed", "x", "--resolved", "2026-03-14T04:14:07Z")
    recorded(kb, "b")
    document = kb.json("stats", "--by", "month")
    assert (document["incidents"], document["periods"]) == (2, ["2026-03-01"])
    assert document["time_to"]["repair"]["n"] == 1
    assert document["repeats"][0]["place"] == "gpu-014/gpu/3"
    lines = kb("stats", "--ascii").splitlines()
    assert lines[0] == "2 incidents, 2026-03-14"
    assert all(line.isascii() and len(line) <= 80 for line in lines)
    assert kb.json("stats", "cause:host_oom")["incidents"] == 0
    kb("stats", "cause:gpu_fallen_of_bus")
    assert "did you mean: cause:gpu_fallen_off_bus" in kb.err
    assert kb.json("stats", "--since", "1d")["incidents"] == 0
    assert kb.json("reindex")["incidents"] == 2
    recorded(kb, "c", "--began", "2d", "--fixed", "at some time")
    assert kb.json("list")["incidents"][0]["times"]["resolved"] is None
    recorded(kb, "d", "--began", "1d")
    assert kb.json("stats")["lemons"][0]["place"] == "gpu-014/gpu/3"
    assert "lemons" in kb("stats").splitlines()


def test_an_export_is_one_file_of_the_form_that_its_name_says(kb: Shell, tmp_path: Path) -> None:
    first, second = recorded(kb), recorded(kb, "Other <b>")
    assert kb("export", first).startswith(f"# {first}: GPU fell off the bus\n")
    page = tmp_path / "morning.html"
    kb("export", "place:gpu-014", "-o", str(page))
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert second in text
    assert "<b>" not in text
    document = json.loads(kb("export", first, second, "--format", "json"))
    assert [one["id"] for one in document["incidents"]] == [first, second]
    with pytest.raises(UsageError, match="nothing fits"):
        kb("export", "place:none")
    with pytest.raises(UsageError, match="no incident"):
        kb("export", "INC-2026-03-14-zzzzz")
    with pytest.raises(DataError, match="No such file"):
        kb("export", first, "-o", str(tmp_path / "no" / "x.md"))


def test_an_import_takes_everything_once(kb: Shell, tmp_path: Path) -> None:
    source = tmp_path / "old"
    source.mkdir()
    (source / "ops.csv").write_text(
        "Title,Start Time,Fix\nGPU lost,2026-03-14 02:14,riser\nLink sick,14 Mar 2026,optic\n"
    )
    (source / "pm.md").write_text("# Postmortem: Lustre stalls\n\nDate: 2026-03-15\n")
    (source / "README.md").write_text("# Not one\n")
    (source / "bad.csv").write_text("a,b\n1,2\n")
    dry = kb.json("import", str(source), "--dry-run", status=65)
    assert [one["how"] for one in dry["incidents"]] == ["fault", "new", "new", "new"]
    assert kb("list") == ""
    done = kb.json("import", str(source), status=65)
    assert [one["id"] for one in done["incidents"]] == [one["id"] for one in dry["incidents"]]
    assert [one["how"] for one in kb.json("import", str(source), status=65)["incidents"]][1:] == ["here"] * 3
    assert kb.json("list")["total"] == 3
    # Another directory of incidents comes with its ids.
    other = tmp_path / "other"
    kb("import", str(tmp_path / "data" / "stethoscope" / "incidents"), "--incidents", str(other))
    assert kb.json("list", "--incidents", str(other))["total"] == 3
    with pytest.raises(UsageError, match="no zone"):
        kb("import", str(source), "--tz", "Mars")
    with pytest.raises(UsageError, match='did you mean "title"'):
        kb("import", str(source), "--column", "titel=x")
    kb("import", str(tmp_path / "none.csv"), status=65)
    assert "No such file" in kb.err
    for name, content, said in (
        ("a.xlsx", b"PK\x03\x04", "save it as CSV"),
        ("a.json", b"{}", "CSV and Markdown are read"),
        ("a.csv", b"title\0,start\n", "NUL bytes"),
        ("a.md", b"# 2 incidents\n\n", "a report of several incidents"),
    ):
        (tmp_path / name).write_bytes(content)
        kb("import", str(tmp_path / name), status=65)
        assert said in kb.err, name
    # A dry run of an import into a directory that it would make reads all the same.
    new = kb.json("import", "--dry-run", str(source / "pm.md"), "--incidents", str(tmp_path / "new"))
    assert new["incidents"][0]["how"] == "new"
    assert not (tmp_path / "new").exists()


def test_the_directory_is_that_of_the_flag_or_of_the_settings(kb: Shell, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not there"):
        kb("list", "--incidents", str(tmp_path / "typo"))
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a directory"):
        kb("list", "--incidents", str(tmp_path / "file"))
    (tmp_path / "config" / "stethoscope").mkdir(parents=True)
    (tmp_path / "config" / "stethoscope" / "config.yaml").write_text(f"incidents: {tmp_path / 'shared'}\n")
    assert kb("list") == ""
    recorded(kb)
    assert len(list((tmp_path / "shared").glob("INC-*.md"))) == 1


def test_a_draft_goes_on(kb: Shell) -> None:
    first = recorded(kb)
    books = Library()
    one = books.get(first)
    books.save_draft("verdict/job/4242", replace(one, id="", title="", root_cause=""))
    books.save_draft(first, replace(one, resolution="riser"), books.version(first))
    assert [line.split()[0] for line in kb("list", "--drafts").splitlines()] == [first, "verdict/job/4242"]
    made = kb.json("add", "--draft", "verdict/job/4242", "--title", "From the console")["incident"]
    assert (made["title"], made["root_cause"]) == ("From the console", None)
    assert kb.json("add", "--draft", first)["incident"]["resolution"] == "riser"
    books.save_draft(first, one, replace(books.version(first), digest="0"))
    with pytest.raises(DataError, match="changed by somebody else"):
        kb("add", "--draft", first)
    assert kb.json("list")["total"] == 2
    assert len(kb.json("list", "--drafts")["drafts"]) == 1


def test_settings_of_kb_are_those_of_each_of_its_verbs(kb: Shell, tmp_path: Path) -> None:
    (tmp_path / "config" / "stethoscope").mkdir(parents=True)
    settings = tmp_path / "config" / "stethoscope" / "config.yaml"
    settings.write_text(f"kb:\n  incidents: {tmp_path / 'own'}\n  limit: 1\n")
    for number in "12":
        arguments = ["kb", "add", "--title", number]
        assert CliRunner().invoke(group, arguments, standalone_mode=False, catch_exceptions=False).return_value == 0
    assert len(list((tmp_path / "own").glob("INC-*.md"))) == 2
    listed = CliRunner().invoke(group, ["kb", "list"], standalone_mode=False, catch_exceptions=False)
    assert len(listed.stdout.splitlines()) == 1
