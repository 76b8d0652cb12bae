"""`stethoscope findings` as a command: what it looks at, what it keeps, what is said about one from the shell."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from stethoscope.analysis.night import found
from stethoscope.cli.findings import command, exit_code
from stethoscope.cli.findings_follow import _print_told
from stethoscope.cli.findings_select import Selection, check_rule
from stethoscope.clock import SystemClock, hms, iso
from stethoscope.errors import StethoscopeError, UsageError
from stethoscope.model.finding import Fact, Finding, Severity
from stethoscope.model.night import Entry, Found
from stethoscope.session.night import NightKeeper
from stethoscope.specs.metric import load_catalogue
from stethoscope.store.night import NightFile
from stethoscope.ui.present.finding_report import event_row, report_json, report_rows, sum_row
from stethoscope.ui.present.spans import UNICODE, plain
from tests.store.made import Fleet, record

if TYPE_CHECKING:
    from pathlib import Path

NOW = float(int(SystemClock().wall()))


def a_finding(
    id_: str, severity: str = "P1", where: tuple[str, ...] = ("gpu-001/gpu/4",), age_s: float = 60
) -> Finding:
    """Return an active finding."""
    fact = Fact("gpu_temp", 88.0, "below 83 °C", where[0], iso(NOW), "nvml")
    nodes = ",".join(dict.fromkeys(place.split("/")[0] for place in where))
    return Finding(
        id_, id_.split("@")[0], Severity(severity), where, nodes, iso(NOW - age_s), f"{id_} is so", evidence=(fact,)
    )


def kept(home: Path, fleet: str = "prod-a") -> None:
    """Keep a list of three findings, one of which has cleared."""
    keeper = NightKeeper(NightFile(fleet, home / "stethoscope" / "nights"))
    gone = a_finding("down@gpu-002/ib/mlx5_0", where=("gpu-002/ib/mlx5_0",), age_s=7200)
    some = (a_finding("hot@gpu-001/gpu/4"), a_finding("lost@gpu-003", "P0", ("gpu-003",)))
    keeper.take((*some, gone), NOW - 50)
    over = replace(gone, state="cleared", cleared_at=iso(NOW - 40))
    keeper.take((*some, over), NOW - 30)
    keeper.stop()


class Done(NamedTuple):
    """How a call of the verb ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str, home: Path) -> Done:
    """Call the verb in this process, with a state directory of its own."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("XDG_STATE_HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home))
        patch.setenv("LOGNAME", "kim")
        try:
            code = command.main(list(arguments), standalone_mode=False)
        except StethoscopeError as error:
            err.write(str(error))
            code = error.exit_code
    return Done(code, out.getvalue(), err.getvalue())


def entry(finding: Finding, end: float | None = None) -> Entry:
    """Return an entry of a list."""
    return Entry(finding, NOW, ((NOW - 60, end),), worst=finding.severity, ended="cleared" if end else "")


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (Selection(), "hot lost"),
        (Selection(everything=True), "hot lost old said"),
        (Selection(severity="P0"), "lost"),
        (Selection(severity="info"), "hot lost said"),
        (Selection(rule="h*"), "hot"),
        (Selection(nodes=frozenset({"gpu-003", "gpu-009"})), "lost"),
        (Selection(since_s=30), "hot lost old"),
        (Selection(since_s=10), "hot lost"),
    ],
)
def test_what_is_told_of(selection: Selection, chosen: str) -> None:
    entries = [
        entry(a_finding("hot@gpu-001")),
        entry(a_finding("lost@gpu-003", "P0", ("gpu-003",))),
        entry(a_finding("old@gpu-002", where=("gpu-002",)), NOW - 20),
        entry(a_finding("said@gpu-004", "info", ("gpu-004",))),
    ]
    assert " ".join(one.finding.rule for one in selection.of(entries, NOW)) == chosen


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("gpu_thermale", 'no rule "gpu_thermale"; did you mean "gpu_thermal"?'), ("zz*", 'no rule "zz*"')],
)
def test_a_rule_that_nobody_has_is_an_error_and_not_nothing_found(wanted: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--rule: {said}")):
        check_rule(wanted, ())


def test_a_rule_of_old_entries_or_of_a_pattern_is_one() -> None:
    check_rule("gone_since", (), ["gone_since"])
    check_rule("ib_*", ())
    check_rule(None, ())


def test_what_the_actions_of_a_rule_say_is_listed() -> None:
    finding = replace(
        a_finding("hot@gpu-001"), message="page the hall", held=("POST http://pager/",), log=("88 C on gpu-001",)
    )
    [first, *rows] = entry_rows(found(None, Found(at=NOW - 60, finding=finding, since=NOW - 70)))
    assert "alert" not in first
    assert rows[1:4] == [
        "       alert: page the hall",
        "       held back, not called: POST http://pager/",
        f"       {hms(NOW - 60)} log: 88 C on gpu-001",
    ]
    assert "alert" not in "".join(entry_rows(entry(replace(finding, message=finding.summary))))
    assert plain(event_row("new", entry(finding), NOW, UNICODE)).endswith(" · alert: page the hall")
    assert "alert" not in plain(event_row("cleared", entry(finding, NOW), NOW, UNICODE))


def entry_rows(one: Entry) -> list[str]:
    """Return how one finding is listed."""
    return [plain(row) for row in report_rows([one], NOW, UNICODE, load_catalogue())]


def test_exit_codes_are_of_what_is_active() -> None:
    assert exit_code([]) == 0
    assert exit_code([entry(a_finding("a@n", "P0"), NOW - 5)]) == 0
    assert exit_code([entry(a_finding("a@n", "P2"))]) == 1
    assert exit_code([entry(a_finding("a@n", "P2")), entry(a_finding("b@n", "P1"))]) == 2


def test_the_list_as_text() -> None:
    entries = [entry(a_finding("hot@gpu-001")), entry(a_finding("old@gpu-002", where=("gpu-002",)), NOW - 20)]
    rows = [plain(row) for row in report_rows(entries, NOW, UNICODE, load_catalogue())]
    assert rows[0] == "▲ P1   gpu-001/gpu/4 hot@gpu-001 is so · 60 s ago"
    assert rows[1] == "       GPU temperature 88 °C, expected below 83 °C"
    assert rows[2] == "       id hot@gpu-001"
    assert rows[3].startswith("· P1   gpu-002 old@gpu-002 is so · cleared ")
    assert "1 P1 · 1 cleared" in plain(sum_row(entries, "prod-a", NOW, UNICODE))
    document = report_json(entries, "prod-a", NOW, "night")
    assert document["summary"] == {
        "findings": {"P0": 0, "P1": 1, "P2": 0, "info": 0},
        "standing": {"loud": 1, "acknowledged": 0, "snoozed": 0, "cleared": 1},
        "worst": "P1",
    }


def test_what_happens_is_printed_as_it_happens(capsys: pytest.CaptureFixture[str]) -> None:
    class Session:
        """What is followed."""

        clock = SystemClock()
        source = Fleet(name="prod-a")
        night = NightKeeper()

    session: Any = Session()
    session.night.take((a_finding("hot@gpu-001"), a_finding("said@gpu-004", "info")), NOW - 50)
    session.night.take((replace(a_finding("hot@gpu-001"), state="cleared", cleared_at=iso(NOW - 5)),), NOW)
    _print_told(session, Selection(), as_json=False, ascii_only=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["new", "cleared"]
    assert lines[0].isascii()
    session.night.take((a_finding("hot@gpu-001", age_s=0),), NOW + 10)
    _print_told(session, Selection(), as_json=True, ascii_only=False)
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["event"], document["finding"]["times"]) == (
        "stethoscope.findings/1", "back", 2,
    )  # fmt: skip


def test_the_list_is_said_something_about_from_the_shell(tmp_path: Path) -> None:
    kept(tmp_path)
    done = run("--night", home=tmp_path)
    assert done.returncode == 2
    assert "lost@gpu-003" in done.stdout
    assert "cleared" in done.stdout
    assert run("ack", "lost", home=tmp_path).stdout == "lost@gpu-003 (prod-a): acknowledged\n"
    assert "until it changes" in run("snooze", "hot@gpu-001/gpu/4", home=tmp_path).stdout
    assert run("note", "hot", "fan", "swapped", home=tmp_path).returncode == 0
    document = json.loads(run("--night", "--json", home=tmp_path).stdout)
    by_id = {one["id"]: one for one in document["findings"]}
    assert document["schema"] == "stethoscope.findings/1"
    assert by_id["lost@gpu-003"]["standing"] == "acknowledged"
    assert by_id["hot@gpu-001/gpu/4"]["standing"] == "snoozed"
    assert [note["text"] for note in by_id["hot@gpu-001/gpu/4"]["notes"]] == ["fan swapped"]
    assert by_id["down@gpu-002/ib/mlx5_0"]["state"] == "cleared"
    assert run("ack", "lost", "--undo", home=tmp_path).stdout == "lost@gpu-003 (prod-a): loud again\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ack", "nothing"], 'no finding of tonight is called "nothing"'),
        (["note", "lost", "\x1b[31m"], "a note needs words"),
        (["ack", "gpu"], "say more of it, or which fleet with --of"),
        (["ack", "hot", "--of", "prod-b"], 'no list of a fleet "prod-b" is kept here; did you mean "prod-a"?'),
        (["snooze", "hot", "--for", "soon"], "--for:"),
        (["--since", "soon"], "--since:"),
        (["--node", "gpu-[001"], "node set"),
        (["--at", "+5m"], "--at is a time of a recording"),
        (["--follow", "--night"], "--follow needs nodes"),
        (["--demo", "--hosts", "gpu1"], "--demo is a fleet of its own"),
    ],
)
def test_what_does_not_fit_together(tmp_path: Path, arguments: list[str], words: str) -> None:
    kept(tmp_path)
    done = run(*arguments, home=tmp_path)
    assert done.returncode == 64
    assert words in done.stderr


def test_nothing_kept_is_said(tmp_path: Path) -> None:
    done = run("--night", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no list is kept" in done.stderr


def test_a_recording_shows_evidence_with_its_curve(tmp_path: Path) -> None:
    path = tmp_path / "night.sthr"
    record(path, "at: 20s, fault: ib_optic_degraded, where: gpu-003/ib/mlx5_3", until_s=80)
    done = run("--replay", str(path), home=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "gpu-003/ib/mlx5_3" in done.stdout
    assert "expected at most 120/h" in done.stdout
    assert "|" in done.stdout, "the curve marks since when it is so"
