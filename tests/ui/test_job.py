"""The job screen driven by keys, and its words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.model.job import Standing
from stethoscope.ui.present.job import job_lines, list_lines
from stethoscope.ui.present.job_json import jobs_json
from stethoscope.ui.present.job_words import job_segment, seconds_text, sparks, speed_text
from stethoscope.ui.present.spans import ASCII, UNICODE, plain, row_width
from stethoscope.ui.screens.job import JobScreen
from stethoscope.ui.screens.node import NodeScreen
from tests.builders import fleet
from tests.ui.job_scenes import JOB, several, slowed, standing, with_jobs
from tests.ui.test_console import line, ready, visible
from tests.ui.test_drift_screen import app_on
from tests.ui.test_pictures import pressing

if TYPE_CHECKING:
    from stethoscope.ui.present.job import JobLine


def texts(lines: list[JobLine]) -> list[str]:
    return [plain(line.row).rstrip() for line in lines]


def test_one_job_with_all_that_is_known() -> None:
    said = texts(job_lines(slowed(), JOB, UNICODE, 118))
    assert said[:7] == [
        "  nodes       gpu-[001-016] · 128 ranks",
        "  state       running · user alice · since 2026-03-14 00:14 UTC, 2 h · by Slurm",
        "  step        0.80→1.20 s · step 42,270 of 500,000 · 4 s ago · varies by 17 %",
        "  speed       640→426 samples/s · ▲ −33 % since 02:12:38, 89 s",
        "  loss        2.09 · variance 1.8e-05 · gradient norm 0.412 · learning rate 0.0003",
        "  data        the log says no time of waiting for data",
        "  checkpoint  31.5 s · 3 m ago",
    ]
    assert "  ▲ P1   job/4242 throughput -33 % against its own past · 97 s" in said
    assert not any("on no node of the job" in text for text in said)
    assert said[-2:] == [
        "  ▲ gpu-007              ranks 48–55     symbol errors +41/s",
        "  · gpu-[001-006,008-016] · 15 nodes with nothing found",
    ]


def test_what_is_not_known_is_said() -> None:
    snapshot = fleet(4)
    unread = texts(job_lines(with_jobs(snapshot, (JOB, None)), JOB, ASCII, 78))
    assert any("nobody says where it prints to" in text for text in unread)
    assert any("ranks not known | 12 of them not watched here" in text for text in unread)
    waiting = with_jobs(snapshot, (JOB, Standing()))
    assert any("no step understood in it" in text for text in texts(job_lines(waiting, JOB, ASCII, 78)))
    assert texts(list_lines(snapshot, ASCII, 100)) == [
        "  no job is known: there is no Slurm here, the fleet file names none, and no GPU process shows one"
    ]


def test_the_segment_of_the_fleet_screen() -> None:
    wide, narrow = job_segment(slowed(), UNICODE)
    assert plain(wide) == "job 4242 step 0.80→1.20 s ▲ −33 %"
    assert plain(narrow) == "job 4242 ▲ −33% since 02:12"
    calm = with_jobs(fleet(4), (JOB, standing(slow=0)))
    assert plain(job_segment(calm, UNICODE)[0]).rstrip() == "job 4242 step 0.80 s"
    assert job_segment(fleet(4), UNICODE) == ((), ())
    # Of many the worst is shown.
    assert plain(job_segment(several(), ASCII)[0]) == "job 4242 step 0.80->1.20 s ! -33 %"


def test_texts_of_numbers() -> None:
    assert [seconds_text(value) for value in (0.0312, 0.81, 12.44, 132.4)] == ["31.2 ms", "0.81 s", "12.4 s", "132 s"]
    assert [speed_text(value) for value in (3.167, 812.4, 46410)] == ["3.17", "812", "46,410"]
    assert set(sparks([1.0, 1.001, 0.999], 10, UNICODE)) <= set("▄▅"), "noise is no mountain range"
    assert sparks([1.0, None, 2.0], 10, UNICODE) == "▁ █"
    assert len(sparks([float(at) for at in range(1000)], 40, ASCII)) == 40


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_hostile_words_stay_words(glyphs: Any) -> None:
    snapshot = several()
    for lines in (list_lines(snapshot, glyphs, 78), *(job_lines(snapshot, job, glyphs, 78) for job in snapshot.jobs)):
        for entry in lines:
            assert row_width(entry.row) >= 0
            if glyphs is ASCII:
                own = plain(entry.row).encode("ascii", "replace").decode()
                assert "�" not in own


def test_json_has_null_for_what_is_not_known() -> None:
    snapshot = several()
    document = jobs_json(snapshot, snapshot.jobs)
    assert document["schema"] == "stethoscope.job/1"
    by_id = {job["id"]: job for job in document["jobs"]}
    assert by_id["4242"]["metrics"]["job_throughput_change"] == pytest.approx(-33, abs=2)
    assert by_id["4242"]["metrics"]["job_busbw"] is None
    assert by_id["4242"]["step"]["step"] == 42270
    assert by_id["4242"]["log"]["path"] == "/shared/train/slurm-4242.out"
    assert by_id["no-log"]["log"] is None
    assert by_id["no-log"]["metrics"]["job_step_time"] is None


async def test_keys_lead_to_jobs_nodes_and_back() -> None:
    async with app_on(several()).run_test(size=(100, 30)) as pilot:
        app = await ready(pilot)
        await pilot.press("J")
        await pilot.pause(0.1)
        assert isinstance(app.screen, JobScreen)
        assert "jobs  4 of them" in line(app, "top")
        assert visible(app)[0].split()[:2] == ["▲", "4242"], "the worst stands first"
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert "job 4242" in line(app, "top")
        assert any(text.startswith("  step        0.80→1.20 s") for text in visible(app))
        await pilot.press("G", "enter")
        await pilot.pause(0.1)
        await pilot.press("escape", "escape", "escape", "escape")
        await pilot.pause(0.1)
        assert app.screen is app.fleet_screen


async def test_a_finding_leads_to_its_node_and_the_log_can_be_decoded() -> None:
    async with app_on(slowed()).run_test(size=(120, 40)) as pilot:
        app = await ready(pilot)
        assert "job 4242 step 0.80→1.20 s ▲ −33 %" in line(app, "legend")
        await pilot.press("J")
        await pilot.pause(0.1)
        assert "job 4242" in line(app, "top"), "of one job there is no list"
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert isinstance(app.screen, NodeScreen)
        await pilot.press("escape", "L")
        await pilot.pause(0.1)
        assert isinstance(app.screen, JobScreen), "a session over pictures can read no log, and says so"


@pytest.mark.parametrize("size", [pytest.param((80, 24), id="job-narrow"), pytest.param((200, 60), id="job-wide")])
def test_the_job_screen_looks_as_it_did(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(app_on(slowed()), terminal_size=size, run_before=pressing("J", "down"))


def test_a_job_of_a_fleet_without_it_is_not_shown_as_another() -> None:
    snapshot = slowed()
    assert job_segment(replace(snapshot, jobs=()), UNICODE) == ((), ())
