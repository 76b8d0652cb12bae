"""The guided triage in a plain terminal: what is asked, what may be typed, what is kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from stethoscope.cli.interview import Interview, answer_meant, summary_of
from stethoscope.session.asking import RecordedMoment
from stethoscope.session.guided import Answers, keep_place, said_by_place
from stethoscope.specs.playbook import load_playbooks
from tests.builders import WALL
from tests.ui.triage_scenes import quiet, scene, sick_link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.model.verdict import Scene


class Typed:
    """What a person types; then the end."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = iter(words)

    def next(self) -> asyncio.Future[str | None]:
        line: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        line.set_result(next(self._words, None))
        return line


def interview(about: Scene, *words: str, answers: Answers | None = None) -> tuple[Interview, bool, Answers, list[int]]:
    """Ask about a scene while `words` are typed; return also whether there is a verdict, and each time it was kept."""
    kept: list[int] = []
    answers = answers if answers is not None else Answers({}, WALL)
    subject = RecordedMoment(about)
    talk = Interview(subject, load_playbooks(), answers, lambda: kept.append(1), lambda: WALL, Typed(words))
    return talk, asyncio.run(talk.run()), answers, kept


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_number_a_word_or_its_beginning_is_an_answer() -> None:
    answers = ("some are late", "all alike", "all idle")
    assert answer_meant("1", answers) == "some are late"
    assert answer_meant("4", answers) is None
    assert answer_meant("ALL ALIKE", answers) == "all alike"
    assert answer_meant("some", answers) == "some are late"
    assert answer_meant("all", answers) is None, "two begin so"
    assert answer_meant("s", answers) is None, "a letter is a key"


def test_from_question_to_verdict_in_eighty_columns(capfd: pytest.CaptureFixture[str]) -> None:
    talk, is_verdict, answers, kept = interview(scene(sick_link()), "all", "w", "m", "", "")
    assert is_verdict
    assert {each.how for each in answers.given.values()} == {"accepted"}
    assert len(kept) == 2
    talk.print_verdict()
    out, err = capfd.readouterr()
    assert "ib_link_fault" in out.splitlines()[0] or "ib_link_fault" in out.splitlines()[1]
    assert "1  Are all ranks slow alike" in err
    assert "scope: all alike > communication ? > verdict" in err
    assert '+ "no" when layer of what is found so far' in err
    assert " a recording runs nothing" in err
    assert " 1 " in err
    assert "enter accept | number or word: another answer | m measure | s skip | b back" in err
    assert max(map(len, (*out.splitlines(), *err.splitlines()))) <= 80
    assert "\x1b" not in out + err


def test_leaving_keeps_what_was_said_and_the_next_one_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    talk, is_verdict, answers, kept = interview(scene(sick_link()), "all alike", "nonsense", "q")
    assert not is_verdict
    assert len(kept) == 1
    assert summary_of(talk.asked)[0].startswith("so far: ib_link_fault, sure 0.")
    saved = keep_place({}, "job/4242", answers.to_keep())
    assert '"nonsense" is no answer here' in capfd.readouterr().err
    again = Answers(said_by_place(saved)["job/4242"], WALL + 60)
    _, is_verdict, answers, _ = interview(scene(sick_link()), "b", answers=again)
    assert not is_verdict, "ctrl-d leaves like q"
    assert answers.given == {}
    assert "resumed with your answers since" in capfd.readouterr().err


def test_nothing_wrong_ends_with_the_card(capfd: pytest.CaptureFixture[str]) -> None:
    talk, is_verdict, _, _ = interview(scene(quiet(), slow=False), *[""] * 8)
    assert is_verdict
    talk.print_verdict()
    assert capfd.readouterr().out.startswith(" ·  Nothing is wrong that can be seen from here")
    assert summary_of(talk.asked) == []


def test_the_card_tells_of_the_nodes_as_they_were_before_they_were_left(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, is_verdict, _, _ = interview(scene(sick_link()), *[""] * 8)
    assert is_verdict
    left = property(lambda _: pytest.fail("the nodes are left: all of them are lost now"))
    monkeypatch.setattr(RecordedMoment, "snapshot", left)
    talk.print_verdict()
    out = capfd.readouterr().out
    assert "lost" not in out.partition("not        ")[0].replace("throughput lost", "")
    assert out.count("(you agreed)") == 2, "the last question too"
    assert talk.asked is not None
    assert [step.by for step in talk.asked.found.path] == ["you", "you"]


def test_skipping_and_the_verdict_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    talk, is_verdict, answers, _ = interview(scene(sick_link()), "s", "v")
    assert is_verdict
    assert [each.how for each in answers.given.values()] == ["skipped"]
    assert "scope: skipped" in capfd.readouterr().err
    assert talk.scene is not None
