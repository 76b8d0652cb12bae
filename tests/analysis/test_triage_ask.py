"""The diagnosis asked step by step, and what a person's answers change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.analysis.triage import diagnose
from stethoscope.analysis.triage_ask import ACCEPTED, CHOSEN, SKIPPED, Answer, Asked, ask, condition_words
from stethoscope.model.verdict import Measured, Seen
from stethoscope.specs.playbook import Playbooks, load_playbooks
from stethoscope.specs.playbook_forms import WhenSpec
from tests.builders import WALL, fleet
from tests.ui.job_scenes import JOB, standing, with_jobs
from tests.ui.scenes import finding
from tests.ui.triage_scenes import LINK, SINCE, quiet, scene, sick_link


@pytest.fixture(scope="module")
def books() -> Playbooks:
    return load_playbooks()


def asked(books: Playbooks, **said: tuple[str, str]) -> Asked:
    answers = {("slow", step): Answer(*answer) for step, answer in said.items()}
    return ask(scene(sick_link()), books, answers)


def test_each_question_has_the_answer_that_the_facts_give(books: Playbooks) -> None:
    found = asked(books)
    assert (found.flow, found.place, found.trouble, found.at) == ("slow", "job/4242", "slower", 0)
    assert [(step.id, step.proposed, step.how) for step in found.steps] == [
        ("scope", "all alike", ""),
        ("communication", "no", ""),
    ]
    scope, communication = found.steps
    assert [(each.sign, each.fact.where) for each in scope.facts] == [("+", "job/4242")]
    assert communication.decides
    assert {each.fact.where for each in communication.facts if each.sign == "+"} >= {LINK}
    assert [one.probe for one in communication.wanted][:1] == ["mlxlink"]
    assert found.found.verdict.root_cause == "ib_link_fault"
    assert communication.why[1].startswith('+ "no" when layer of what is found so far is communication')


def test_what_was_accepted_stands_while_it_is_proposed(books: Playbooks) -> None:
    found = asked(books, scope=("all alike", ACCEPTED))
    assert (found.at, found.steps[0].how) == (1, ACCEPTED)
    assert [step.by for step in found.found.path] == ["you", "auto"]
    # The facts say something else now: it is asked again.
    assert asked(books, scope=("some are late", ACCEPTED)).at == 0


def test_another_answer_leads_on_and_leaves_what_fits(books: Playbooks) -> None:
    found = asked(books, communication=("yes", CHOSEN))
    assert [step.id for step in found.steps][:3] == ["scope", "communication", "hardware"]
    verdict = found.found.verdict
    assert (verdict.root_cause, verdict.confidence) == ("unknown", 0.3)
    assert verdict.summary == "By your answers it is not ib_link_fault, and nothing else that was found fits them"
    assert found.found.alternatives[0].root_cause == "ib_link_fault", "it is not lost"
    assert "mlxlink" in [one.probe for one in found.found.wanted]
    # What a person knows of the scope says nothing against a root cause.
    assert asked(books, scope=("some are late", CHOSEN)).found.verdict.root_cause == "ib_link_fault"


def test_a_skipped_question_leads_on(books: Playbooks) -> None:
    found = asked(books, scope=("all alike", SKIPPED))
    assert (found.steps[0].answer, found.at) == ("cannot be told", 1)


def test_nothing_wrong_is_said(books: Playbooks) -> None:
    found = ask(scene(quiet(), slow=False), books, {})
    assert found.found.verdict.root_cause == "healthy"
    assert [(step.id, step.proposed) for step in found.steps] == [("findings", "no")]


def test_the_way_says_of_all_ranks_what_the_verdict_says(books: Playbooks) -> None:
    seen = tuple(each for each in scene(sick_link()).seen if each.what != "late_nobody")
    found = ask(replace(scene(sick_link()), seen=seen), books, {})
    assert found.found.scope == "global"
    assert [(step.step, step.answer) for step in found.found.path] == [("scope", "all alike"), ("communication", "no")]
    assert found.steps[0].decides


def test_a_node_that_is_well_is_not_blamed_and_what_stands_elsewhere_is_told(books: Playbooks) -> None:
    found = diagnose(scene(sick_link(), focus="gpu-009"), books)
    assert found.verdict.root_cause == "unknown"
    assert "nothing at gpu-009 says why; elsewhere ib_link_fault is found: gpu-007/ib/mlx5_3" in found.verdict.summary
    assert [verdict.root_cause for verdict in found.also] == ["ib_link_fault"]
    calm = diagnose(scene(sick_link(), focus="gpu-032", slow=False), books)
    facts = {each.fact: (each.value, each.where) for each in calm.verdict.supports}
    assert facts["nodes that answer"] == (1, "gpu-032")
    assert facts["findings elsewhere in the fleet"] == (2, "fleet")


def test_what_was_there_when_one_began_to_watch_is_not_too_late_for_an_older_trouble(books: Playbooks) -> None:
    began = WALL - 20
    sick, slow = sick_link().findings
    late = replace(sick_link(), findings=(replace(sick, since="2026-03-14T02:13:50Z"), slow))
    seen = (Seen("job_slow", "job/4242", WALL - 400, None, 37.6, "its own past"),)
    unknown = replace(scene(late), seen=seen)
    assert all(entry.spans[0][0] > WALL - 200 for entry in unknown.entries if entry.finding.rule == "ib_symbol_errors")
    known = replace(unknown, watched_since=began)
    first, second = (diagnose(each, books).verdict for each in (unknown, known))
    assert first.root_cause == second.root_cause == "ib_link_fault"
    assert second.confidence > first.confidence


def test_nothing_wrong_is_less_sure_before_the_rules_had_their_time(books: Playbooks) -> None:
    snapshot = quiet()
    old, new = (
        replace(snapshot, nodes=tuple(replace(node, frames=frames, tick_s=2.0) for node in snapshot.nodes))
        for frames in (30, 4)
    )
    assert diagnose(scene(old, slow=False), books).verdict.confidence > 0.8
    hasty = diagnose(scene(new, slow=False), books).verdict
    assert hasty.confidence == 0.7
    assert hasty.supports[-1].fact == "seconds that it was watched"
    assert hasty.supports[-1].value == 8


def test_a_loss_that_jumps_is_settled_whatever_else_is_found(books: Playbooks) -> None:
    """A node that only fell silent stands before it; what computes wrongly shows in a diagnosis alone."""
    silent = replace(finding("P2", "gpu-031", "sends no data", SINCE, "node_silent"), root_cause="telemetry_lost")
    snapshot = with_jobs(fleet(32, name="prod-a", findings=[silent]), (JOB, standing(slow=0)))
    jumps = Seen("loss_spikes", "job/4242", WALL - 60, None, 6, "none")
    found = diagnose(replace(scene(snapshot, slow=False), seen=(jumps,)), books)
    assert found.verdict.root_cause == "telemetry_lost"
    assert "dcgmi_diag" in {one.probe for one in found.wanted}
    assert "dcgmi_diag" not in {one.probe for one in diagnose(scene(snapshot, slow=False), books).wanted}


def test_a_setting_of_all_nodes_is_the_jobs_though_one_of_them_has_another_fault(books: Playbooks) -> None:
    drift = finding("P2", JOB.nodes[1], "driver 535", SINCE, "driver_version_differs")
    found = replace(drift, root_cause="version_mismatch")
    snapshot = with_jobs(fleet(32, name="prod-a", findings=[found]), (JOB, standing()))
    text = "rank 0 NCCL_IB_HCA=mlx5_0,mlx5_1\n"
    measured = tuple(Measured(node, "env_diff", WALL - 5, text) for node in JOB.nodes)
    verdict = diagnose(replace(scene(snapshot), measured=measured), books).verdict
    assert (verdict.root_cause, verdict.places) == ("config_env_error", ("job/4242",))


def test_what_was_found_speaks_for_a_yes_that_no_other_answer_holds_against(books: Playbooks) -> None:
    found = ask(scene(sick_link(), slow=False), books, {})
    step = found.steps[0]
    assert (found.flow, step.id, step.proposed) == ("quiet", "findings", "yes")
    assert [(each.sign, each.fact.where) for each in step.facts][:1] == [("+", LINK)]


def test_the_same_scene_gives_the_same_questions(books: Playbooks) -> None:
    assert asked(books) == asked(books)


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (WhenSpec(fact="trouble", one_of=["stopped", "ended"]), "when what the job does is stopped or ended"),
        (WhenSpec(event=["xid."]), "when the logs have xid"),
        (WhenSpec(finding=["gpu_thermal"]), "when found: gpu_thermal"),
        (
            WhenSpec(all=[WhenSpec(fact="phase", equals="checkpoint"), WhenSpec(none=WhenSpec(fact="loss_odd"))]),
            "when what the job's log says that it does beside its steps is checkpoint and not "
            "(seen: the loss is NaN or diverges)",
        ),
    ],
)
def test_conditions_in_words(when: WhenSpec, words: str) -> None:
    assert condition_words(when) == words
