"""On-demand probes: many at once, what their answers mean, what is kept and journaled."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.clock import FixedClock
from stethoscope.collect import ondemand as scripts
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.journal import read_journal
from stethoscope.errors import UsageError
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, Report, ToolError
from stethoscope.session import ondemand, probe_result
from stethoscope.session.aims import Refusal
from stethoscope.session.ondemand import OnDemandRuns
from stethoscope.session.probe_result import Result, Status, read_answer, reader, result_json
from stethoscope.session.session import Session
from stethoscope.specs.fleet import FleetNode
from stethoscope.specs.probes import OnDemand, load_manifest
from tests.builders import WALL, catalogue, fleet
from tests.session.asked import MARK, Nodes, framed, ibstat, ok, runs_on

if TYPE_CHECKING:
    from pathlib import Path


PROBES = {probe.id: probe for probe in load_manifest().ondemand}


async def finished(batch: ondemand.Batch) -> list[Result]:
    assert batch.task is not None
    await batch.task
    return batch.results


# ---------------------------------------------------------------- running


async def test_sixteen_nodes_at_once_and_their_progress() -> None:
    runs, source = runs_on(fleet(16), ibstat)
    source.gate.clear()
    preview = runs.preview("ibstat", [f"gpu-{number:03}" for number in range(1, 17)])
    batch = runs.start(preview)
    assert batch.progress(3.4) == "asking 16 nodes for ibstat, 0 back, 3 s"
    while source.at_once < 16:
        await asyncio.sleep(0)
    assert runs.batches == [batch]
    source.gate.set()
    results = await finished(batch)
    assert batch.progress(3.4) == "asking 16 nodes for ibstat, 16 back, 3 s"
    assert {result.status for result in results} == {Status.OK}
    assert runs.batches == []
    assert [result.aim.node for result in runs.results_of("gpu-003")] == ["gpu-003"]


async def test_one_script_at_a_time_on_one_node() -> None:
    runs, source = runs_on(fleet(1))
    results = await finished(runs.start(runs.preview("mlxlink", ["gpu-001"])))
    assert len(results) == 8
    assert source.most_at_once == 1
    assert source.asked[0] == ("gpu-001", scripts.command("mlxlink", 40, ["mlx5_0", "1"], sudo=True), 40)


async def test_sudo_only_where_the_fleet_file_allows_it_and_it_is_of_use() -> None:
    runs, _ = runs_on(fleet(2))
    assert [step.sudo for step in runs.preview("ibqueryerrors", ["gpu-001", "gpu-002"]).steps] == [True, False]
    assert [step.sudo for step in runs.preview("ibstat", ["gpu-001"]).steps] == [False]


async def test_the_preview_is_what_is_sent() -> None:
    runs, source = runs_on(fleet(1))
    preview = runs.preview("mlxlink", ["gpu-001/ib/mlx5_3"])
    assert preview.sha256 == hashlib.sha256(scripts.script("mlxlink").encode()).hexdigest()
    await finished(runs.start(preview))
    assert [line for _, line, _ in source.asked] == [preview.line(step) for step in preview.steps]
    for line in preview.commands.split("\n"):
        assert line.strip() in scripts.script("mlxlink")


async def test_a_busy_gpu_is_refused_at_the_preview_and_again_at_the_run(tmp_path: Path) -> None:
    idle = {(f"gpu-001/gpu/{index}", "gpu_util"): 0.0 for index in range(8)}
    snapshots = [fleet(1, set=idle), fleet(1)]
    snapshots = [replace(one, nodes=(replace(one.nodes[0], processes=()),)) for one in snapshots]
    source = Nodes(snapshots[0], ok, journal=tmp_path)
    runs = OnDemandRuns(source, FixedClock(WALL), lambda: snapshots[0])  # type: ignore[arg-type]
    preview = runs.preview("dcgm_diag_r1", ["gpu-001"])
    assert [step.refusal for step in preview.steps] == [None]
    del snapshots[0]  # a job begins meanwhile
    (result,) = await finished(runs.start(preview))
    assert (result.status, result.words) == (Status.REFUSED, "busy: GPU 0-7")
    assert source.asked == []
    assert list(read_journal(tmp_path)) == []

    preview = runs.preview("dcgm_diag_r1", ["gpu-001"])
    assert [step.refusal for step in preview.steps] == [Refusal("busy: GPU 0-7", can_force=True)]
    (result,) = await finished(runs.start(preview, force=True))
    assert (result.forced, len(source.asked)) == (True, 1)
    (entry,) = read_journal(tmp_path)
    assert entry.command.startswith("dcgm_diag_r1: forced although busy: GPU 0-7; exec sh -c '")


async def test_what_cannot_be_forced_is_not(tmp_path: Path) -> None:
    snapshot = replace(fleet(1), read_only=True)
    runs, source = runs_on(snapshot, journal=tmp_path)
    (result,) = await finished(runs.start(runs.preview("ibstat", ["gpu-001"]), force=True))
    assert (result.status, result.words) == (Status.REFUSED, "--read-only allows no command but the stream probe")
    assert source.asked == []


async def test_a_recording_runs_nothing() -> None:
    class Recording:
        nodes = (FleetNode("gpu-001"),)

    runs = OnDemandRuns(Recording(), FixedClock(WALL), lambda: fleet(1))  # type: ignore[arg-type]
    assert runs.why_not == "a recording runs nothing"
    (result,) = await finished(runs.start(runs.preview("ibstat", ["gpu-001"])))
    assert (result.status, result.words) == (Status.REFUSED, "a recording runs nothing")


async def test_the_journal_tells_all_that_is_needed_to_do_it_again(tmp_path: Path) -> None:
    runs, source = runs_on(fleet(1), lambda *_: Answer(3, framed(("mlxlink", "x", 3)), ""), journal=tmp_path)
    preview = runs.preview("mlxlink", ["gpu-001/ib/mlx5_3"])
    await finished(runs.start(preview))
    (entry,) = read_journal(tmp_path)
    assert (entry.node, entry.kind, entry.result) == ("gpu-001", "ondemand", "failed: status 3")
    line, script = entry.command.removeprefix("mlxlink mlx5_3 1: ").split(" < ")
    assert line == source.asked[0][1]
    assert (tmp_path / "scripts" / script).read_text() == scripts.script("mlxlink")
    assert (tmp_path / "scripts" / script).stat().st_mode & 0o077 == 0


async def test_no_second_tool_beside_one_that_is_stuck() -> None:
    runs, source = runs_on(fleet(2), lambda *_: Answer(None, b"", "", late=True))
    (result,) = await finished(runs.start(runs.preview("nvidia_smi_q", ["gpu-001/gpu/3"])))
    assert result.status is Status.STUCK
    refused = Refusal("the last nvidia-smi is stuck there since 02:14:07 UTC", can_force=True)
    assert [step.refusal for step in runs.preview("nvidia_smi_topo", ["gpu-001"]).steps] == [refused]
    assert [step.refusal for step in runs.preview("nvidia_smi_topo", ["gpu-002"]).steps] == [None]
    assert [step.refusal for step in runs.preview("ibstat", ["gpu-001"]).steps] == [None]
    await finished(runs.start(runs.preview("nvidia_smi_topo", ["gpu-001"])))
    assert len(source.asked) == 1
    # To ask for the same again neither forgets that it is stuck nor what it said.
    (again,) = await finished(runs.start(runs.preview("nvidia_smi_q", ["gpu-001/gpu/3"])))
    assert again.status is Status.REFUSED
    assert runs.results[result.key] is result
    await finished(runs.start(runs.preview("nvidia_smi_q", ["gpu-001/gpu/3"])))
    assert len(source.asked) == 1


async def test_a_node_that_breaks_costs_itself() -> None:
    def answer(node: str, _line: str) -> Answer:
        if node == "gpu-001":
            raise CommandError("the connection was lost")
        if node == "gpu-002":
            raise RuntimeError("a \x1b[31mdefect")
        return ibstat(node, "")

    runs, _ = runs_on(fleet(3), answer)
    results = await finished(runs.start(runs.preview("ibstat", ["gpu-001", "gpu-002", "gpu-003"])))
    said = {result.aim.node: (result.status.value, result.words) for result in results}
    assert said == {
        "gpu-001": ("not run", "the connection was lost"),
        "gpu-002": ("not run", "RuntimeError: a defect"),
        "gpu-003": ("ok", ""),
    }


async def test_the_last_result_of_each_aim_is_kept() -> None:
    runs, _ = runs_on(fleet(1))
    for _ in range(2):
        await finished(runs.start(runs.preview("mlxlink", ["gpu-001/ib/mlx5_3", "gpu-001/ib/mlx5_4"])))
    assert sorted(result.aim.place for result in runs.results_of("gpu-001")) == [
        "gpu-001/ib/mlx5_3",
        "gpu-001/ib/mlx5_4",
    ]


async def test_results_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ondemand, "KEPT", 5000)
    runs, _ = runs_on(fleet(4), lambda *_: Answer(0, framed(("ibstat", "x" * 2000, 0)), ""))
    for number in (1, 2, 3, 4, 3):
        await finished(runs.start(runs.preview("ibstat", [f"gpu-00{number}"])))
    assert [node for node, _, _ in runs.results] == ["gpu-004", "gpu-003"]


async def test_a_recording_that_runs_takes_every_result_and_a_broken_one_costs_itself() -> None:
    notes: list[tuple[str, dict[str, object]]] = []

    class Tap:
        def __init__(self, *, breaks: bool = False) -> None:
            self._breaks = breaks

        def on_link(self, node: str, link: Link) -> None:
            pass

        def on_note(self, kind: str, value: object) -> None:
            if self._breaks:
                raise OSError("the disk is full")
            assert isinstance(value, dict)
            notes.append((kind, value))

    snapshot = fleet(1)
    source = Nodes(snapshot, ibstat)
    session = Session(source, catalogue(), FixedClock(WALL), taps=[Tap(breaks=True), Tap()])  # type: ignore[arg-type, list-item]
    session.on_link("gpu-001", Link(LinkState.LIVE, WALL))
    await finished(session.ondemand.start(session.ondemand.preview("ibstat", ["gpu-001"])))
    assert [(kind, value["probe"], value["status"]) for kind, value in notes] == [("ondemand", "ibstat", "ok")]
    assert session.lost_lines == 1


async def test_ending_the_session_gives_up_what_runs() -> None:
    runs, source = runs_on(fleet(1))
    source.gate.clear()
    runs.start(runs.preview("ibstat", ["gpu-001"]))
    while not source.at_once:
        await asyncio.sleep(0)
    await runs.close()
    assert (source.at_once, runs.batches) == (0, [])


def test_an_unknown_probe() -> None:
    runs, _ = runs_on(fleet(1))
    with pytest.raises(UsageError, match='no probe is called "mlxlnk"; did you mean "mlxlink"'):
        runs.preview("mlxlnk", ["gpu-001"])


# ---------------------------------------------------------------- what an answer means

PLAIN = OnDemand("x", "x", "x", "x.sh", tool="xtool", limit_s=30)


def test_each_command_has_its_own_text_and_end() -> None:
    out = framed(("a -s", "one\n\ttwo", 0), ("a -e", "", 4))
    err = f"{MARK}$ a -s\nfirst\n{MARK}$ a -e\nsecond\nthird\n"
    status, words, sections = read_answer(Answer(4, out, err), PLAIN, "n1")
    assert status is Status.FAILED
    assert words == "xtool ended with status 4: third"
    assert [(one.command, one.text, one.err, one.exit) for one in sections] == [
        ("a -s", "one\n\ttwo", "first", 0),
        ("a -e", "", "second\nthird\n", 4),
    ]


def test_a_text_without_frames_is_one_command() -> None:
    status, _, (section,) = read_answer(Answer(0, b"hello\n", "warn"), PLAIN, "n1")
    assert (status, section.command, section.text, section.err, section.exit) == (
        Status.OK, "xtool", "hello\n", "warn", 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (
            Answer(127, b"", f"{MARK}not installed: mlxlink\n"),
            Status.NOT_INSTALLED,
            "mlxlink is not installed on n1",
        ),
        (
            Answer(126, b"", f"{MARK}needs root: smartctl\n"),
            Status.NEEDS_ROOT,
            "smartctl needs root on n1: log in as root, or allow sudo without a password there "
            "(fleet file: sudo; sudoers: NOPASSWD)",
        ),
        (Answer(127, b"", "sh: not found"), Status.FAILED, "xtool ended with status 127: sh: not found"),
        (Answer(0, b"", f"{MARK}not installed: mlxlink\n"), Status.OK, ""),
        (Answer(124, b"", ""), Status.TIMED_OUT, "xtool did not end within 30 s and was ended"),
        (Answer(137, b"", ""), Status.TIMED_OUT, "xtool did not end within 30 s and was ended"),
        (
            Answer(None, b"", "", late=True),
            Status.STUCK,
            "xtool did not end within 30 s, not even when killed: it is stuck in the kernel",
        ),
        (
            Answer(None, b"", f"{MARK}no timeout\n", late=True),
            Status.TIMED_OUT,
            "xtool did not end within 30 s and was told to end; n1 has no command timeout",
        ),
        (
            Answer(124, b"", "", held=True),
            Status.STUCK,
            "xtool did not end within 30 s and could not be ended: it may still run on n1",
        ),
        (Answer(None, b"x" * 1024, "", cut=True), Status.FAILED, "xtool printed 1 KiB without an end"),
        (Answer(None, b"", ""), Status.FAILED, "xtool was ended by a signal"),
    ],
)
def test_why_there_is_nothing(answer: Answer, status: Status, words: str) -> None:
    assert read_answer(answer, PLAIN, "n1")[:2] == (status, words)


def test_what_was_said_before_the_limit_is_there() -> None:
    cut = framed(("a", "one", 0)) + f"{MARK}$ b\nhalf a li".encode()
    _, _, sections = read_answer(Answer(None, cut, "", late=True), PLAIN, "n1")
    assert [(one.command, one.text, one.exit) for one in sections] == [("a", "one", 0), ("b", "half a li", None)]


@given(st.binary(max_size=400), st.text(max_size=200), st.integers(0, 255) | st.none())
def test_nothing_that_a_node_says_reaches_a_screen_raw(out: bytes, err: str, status: int | None) -> None:
    hostile = out + b"\x1b]0;title\x07\x1b[2J" + framed(("\x1b[31ma\r", "\x9b2J \u202e", 0))
    _, words, sections = read_answer(Answer(status, hostile, err + "\x1b[2J"), PLAIN, "n1")
    for text in (words, *(part for one in sections for part in (one.command, one.text, one.err))):
        assert text.replace("\n", "").replace("\t", "").isprintable()


def test_a_parser_reads_each_command(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int, str]] = []

    def read(text: str, *, exit: int, err: str) -> Report:  # noqa: A002
        calls.append((text, exit, err))
        if text == "bad":
            raise ToolError("no_device", "no such device: mlx5_9")
        if text == "worse":
            raise KeyError("oops")
        return Report("x", (Item("a", "light", -9.5, "dBm", "warning"), Item("a", "lanes", 4)), ("says so",), ("odd",))

    monkeypatch.setattr(probe_result, "reader", lambda _name: read)
    out = framed(("a", "good", 0), ("b", "bad", 1), ("c", "worse", 0))
    status, words, sections = read_answer(Answer(1, out, ""), PLAIN, "n1")
    assert calls == [("good", 0, ""), ("bad", 1, ""), ("worse", 0, "")]
    assert (status, words) == (
        Status.OK,
        "b: no such device: mlx5_9; c: it could not be read: KeyError: 'oops'",
    ), "what one command could not do is no failure of the others"
    assert [one.report is not None for one in sections] == [True, False, False]
    assert sections[1].unread == "no such device: mlx5_9"
    assert sections[2].unread == "it could not be read: KeyError: 'oops'"
    assert [one.text for one in sections] == ["good", "bad", "worse"]


def test_what_takes_its_timeout_with_it_when_it_is_killed_was_ended() -> None:
    assert read_answer(Answer(None, b"", ""), PLAIN, "n1", 32.0)[0] is Status.TIMED_OUT
    assert read_answer(Answer(None, b"", ""), PLAIN, "n1", 29.0)[0] is Status.FAILED


def test_what_the_login_prints_is_not_read_as_what_the_tool_said() -> None:
    printed = b"Welcome!\nno line feed" + framed(("ibstat", "CA 'mlx5_0'\n\tCA type: MT4129", 0))
    err = f"hello{MARK}$ ibstat\ncomplaint\n"
    status, words, (section,) = read_answer(Answer(0, printed, err), PROBES["ibstat"], "n1")
    assert (status, words, section.command, section.exit) == (Status.OK, "", "ibstat", 0)
    assert section.err == "complaint\n"
    assert section.report is not None


def test_what_sudo_did_not_run_is_no_command() -> None:
    out = f"{MARK}$ sudo -n mlxlink\n\n{MARK}exit refused\n".encode() + framed(("mlxlink", "light", 0))
    err = f"{MARK}$ sudo -n mlxlink\nsudo: a password is required\n{MARK}$ mlxlink\nown\n"
    _, _, (section,) = read_answer(Answer(0, out, err), PLAIN, "n1")
    assert (section.command, section.text, section.err) == ("mlxlink", "light", "own\n")


def test_an_end_without_anything_that_could_be_read_is_a_failure() -> None:
    status, words, (section,) = read_answer(Answer(0, framed(("ibstat", "hello", 0)), ""), PROBES["ibstat"], "n1")
    assert (status, words) == (Status.FAILED, 'this is not what ibstat prints: "hello"')
    assert section.text == "hello"


def test_nothing_that_could_be_read_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(text: str, *, exit: int, err: str) -> Report:  # noqa: A002
        raise ToolError("no_device", f"no such device: {text}")

    monkeypatch.setattr(probe_result, "reader", lambda _name: read)
    status, words, _ = read_answer(Answer(1, framed(("a", "mlx5_9", 1)), ""), PLAIN, "n1")
    assert (status, words) == (Status.FAILED, "xtool ended with status 1: no such device: mlx5_9")


@pytest.mark.parametrize("probe", PROBES.values(), ids=lambda probe: probe.id)
def test_every_probe_has_its_parser(probe: OnDemand) -> None:
    read = reader(probe.parser)
    assert read is not None
    with pytest.raises(ToolError):
        read("", exit=0, err="")


def test_a_parser_that_is_not_there() -> None:
    assert reader("") is None
    assert reader("no_such_parser") is None


async def test_a_result_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    items = (
        Item("p", "lanes", 4, "lanes"),
        Item("p", "light", -9.5, "dBm", "critical"),
        Item("p", "v", Missing(Reason.PERMISSION)),
    )
    monkeypatch.setattr(probe_result, "reader", lambda _name: lambda *_args, **_named: Report("x", items, ("bad",)))
    runs, _ = runs_on(fleet(1))
    (result,) = await finished(runs.start(runs.preview("mlxlink", ["gpu-001/ib/mlx5_3"])))
    document = json.loads(json.dumps(result_json(result)))
    assert document["items"][0] == {
        "where": "p", "name": "light", "value": -9.5, "missing": None, "unit": "dBm", "level": "critical",
    }  # fmt: skip
    assert document["items"][2] == {
        "where": "p", "name": "v", "value": None, "missing": "permission", "unit": "", "level": "",
    }  # fmt: skip
    assert (document["place"], document["arguments"]) == ("gpu-001/ib/mlx5_3", ["mlx5_3", "1"])
    assert (document["status"], document["at"], document["remarks"]) == ("ok", "2026-03-14T02:14:07Z", ["bad"])
    assert document["commands"][0]["text"] == "fine"
