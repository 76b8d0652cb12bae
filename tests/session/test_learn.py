"""Drafts for the playbooks, from what an incident keeps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.model.incident import Incident, Times
from stethoscope.session.learn import Draft, learn, write_drafts
from stethoscope.session.learn_case import case_draft
from stethoscope.session.learn_rule import rule_draft
from stethoscope.session.learn_signature import generalised, lines_of, signature_drafts, what_of
from stethoscope.session.lint import lint
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.playbook import load_playbooks
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_book
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from pathlib import Path

BODY = """## Evidence

The scratch mount stood still.

- gpu_temp: 91, expected below 83 °C, gpu-007/gpu/3 (2026-03-14T02:26:07Z)
- gpu_sm_clock: 1140, expected peers 1980 MHz, gpu-007/gpu/3 (2026-03-14T02:26:07Z)
- ib_symbol_error: 12000, expected below 10.1/h, gpu-007/ib/mlx5_3
- throughput lost, %: 20.7, expected its own past, job/42958

```log
2026-03-14T02:14:07Z gpu-007 scratchd[811]: mount /scratch/a lost server stor-04 (rc -110), retrying on gpu-007
NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.
mount /scratch/b lost server stor-04 (rc -13), retrying on gpu-007
Unrelated words of another daemon on a good day
```

## Path

1. Are all ranks slow alike, or do some keep the others waiting? some are late
2. Is a GPU, its links, its power or cooling or the host held back? yes
"""
NIGHT = Incident(
    "INC-2026-03-14-k7qmx",
    "gpu-007/gpu/3: stands still",
    severity=Severity.P1,
    root_cause="shared_fs_stall",
    places=("gpu-007/gpu/3",),
    times=Times(began=1_773_454_447.0),
    resolution="stor-04 was failed over",
    body=BODY,
)


def test_the_drafts_of_a_night_pass_lint_and_nothing_is_written_over(tmp_path: Path) -> None:
    learned = learn(NIGHT)
    assert [draft.kind for draft in learned.drafts][:2] == ["signature", "rule"]
    files = write_drafts(learned.drafts, tmp_path / "tree")
    assert lint(tmp_path / "tree").errors == ()
    with pytest.raises(DataError, match="is there already"):
        write_drafts(learned.drafts, tmp_path / "tree")
    assert files[0].read_text().startswith("# Learned from INC-2026-03-14-k7qmx: look it over before it is used.\n")


def test_a_signature_has_an_anchor_groups_and_samples_of_both_sorts() -> None:
    drafts, notes = signature_drafts(NIGHT, load_signatures(), "shared_fs_stall")
    assert notes == []
    first, second = drafts
    assert first["id"] == "own.lost_server_stor"
    assert first["anchors"] == ["lost server stor-"]
    assert first["samples"]["match"] == [
        "mount /scratch/a lost server stor-04 (rc -110), retrying on gpu-007",
        "mount /scratch/b lost server stor-04 (rc -13), retrying on gpu-007",
    ]
    assert first["patterns"] == [
        r"mount (?P<path>/[\w./@-]{1,200}) lost server stor-(?:\d{1,18}(?:\.\d{1,9})?) "
        r"\(rc (?:-?\d{1,18}(?:\.\d{1,9})?)\), retrying on (?P<host>[\w.-]{1,80})"
    ]
    assert first["meaning"] == "Stands still."
    match = re.search(first["patterns"][0], first["samples"]["match"][0], re.ASCII)
    assert match is not None
    assert match.groupdict()["host"] == "gpu-007"
    assert (first["role"], first["root_cause"]) == ("cause", "shared_fs_stall")
    assert first["culprit"] == {"blame": "named", "host": "host"}
    assert first["next_checks"] == ["last time it helped: stor-04 was failed over"]
    assert all(re.search(first["patterns"][0], text) is None for text in first["samples"]["no_match"])
    assert second["id"] != first["id"]


def test_a_line_that_tells_of_no_trouble_makes_no_night_bad() -> None:
    drafts, _ = signature_drafts(NIGHT, load_signatures(), "shared_fs_stall")
    assert [(one["role"], one.get("root_cause"), one["severity"]) for one in drafts] == [
        ("cause", "shared_fs_stall", "P1"),
        ("context", None, "info"),
    ]
    assert learn(NIGHT).drafts[0].id == drafts[0]["id"]


def test_lines_that_are_known_teach_nothing() -> None:
    known = Incident("INC-1", "x", body="```\nNVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.\n```\n")
    assert signature_drafts(known, load_signatures(), "") == (
        [],
        ["no signature: its 1 lines of logs are known already"],
    )
    assert "keeps no line" in signature_drafts(Incident("INC-1", "x"), load_signatures(), "")[1][0]


def test_a_fence_inside_of_a_block_does_not_end_it() -> None:
    body = "~~~\nlost server stor-04\n```\nlost server stor-05\n~~~\nwords of a person\n"
    assert list(lines_of(Incident("INC-1", "x", body=body))) == ["lost server stor-04", "lost server stor-05"]


@given(st.text(max_size=200))
@settings(deadline=None, max_examples=60)
def test_any_line_makes_a_pattern_that_finds_it(text: str) -> None:
    incident = Incident("INC-1", "x", places=("gpu-007/gpu/1",), body=f"```\n{text}\n```\n")
    for line in lines_of(incident):
        pattern, _, anchor = generalised(line, incident)
        assert re.search(pattern, line, re.ASCII) is not None
        assert anchor in line


def rule_of(incident: Incident, *, is_forced: bool = False) -> tuple[dict | None, list[str]]:
    catalogue, causes = load_catalogue(), load_root_causes()
    book = load_book(catalogue, causes)
    return rule_draft(incident, catalogue, book.rules, causes, is_forced=is_forced)


def test_a_rule_asks_for_the_middle_between_what_was_and_what_should_be() -> None:
    rule, notes = rule_of(NIGHT)
    assert notes == []
    assert rule is not None
    assert rule["rule_id"] == "learned_2026_03_14_k7qmx"
    assert rule["trigger"] == [
        {"metric": "gpu_temp", "operator": ">", "threshold": 87.0, "window": "30s"},
        {"metric": "gpu_sm_clock", "peers": {"of": "model", "below": 0.79, "by": "ratio"}, "window": "30s"},
    ]
    assert [test["expect"] for test in rule["tests"]] == ["P1", "none"]


def test_what_a_rule_found_already_needs_none_unless_it_is_asked_for() -> None:
    hot = Incident("INC-2", "hot", root_cause="gpu_thermal", symptoms=("gpu_thermal",), body=BODY)
    assert rule_of(hot) == (None, ["no rule: gpu_thermal found it already"])
    assert rule_of(hot, is_forced=True)[0] is not None
    assert "names no value" in rule_of(Incident("INC-3", "x"))[1][0]


def test_a_case_keeps_the_answers_of_a_flow() -> None:
    books = load_playbooks()
    flow = books.flows["slow"]
    path = f"1. {flow.steps[0].question} all alike (agreed)\n"
    first = next(answer for answer in flow.steps[0].answers if answer.answer == "all alike")
    second = next(step for step in flow.steps if step.id == first.then)
    path += f"2. {second.question} over another network\n"
    night = Incident("INC-2026-03-14-k7qmx", "x", root_cause="wrong_interface", body=f"## Path\n\n{path}")
    found, notes = case_draft(night, books)
    assert notes == []
    assert found is not None
    assert found[:2] == ("slow", "flow_slow.yaml")
    cases = yaml.safe_load(found[2])["flow"]["cases"]
    assert len(cases) == len(flow.cases) + 1
    assert cases[-1]["name"] == "INC-2026-03-14-k7qmx wrong_interface"
    assert cases[-1]["facts"] | {"layer": "communication", "cause": "wrong_interface"} == cases[-1]["facts"]
    assert cases[-1]["answers"] == ["all alike", "over another network"]
    assert "keeps no path" in case_draft(Incident("INC-1", "x"), books)[1][0]


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError):
        write_drafts([Draft("rule", "x", "rules/x.yaml", "")], tmp_path / "file")


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("gpu-014/gpu/3: DMA engine stalls", "DMA engine stalls"),
        ("gpu-014: DMA engine stalled on gpu-014/gpu/3", "DMA engine stalled"),
        ("DMA of gpu-014: engine stalls", "DMA: engine stalls"),
        ("DMA stalls on gpu-0145", "DMA stalls on gpu-0145"),
        ("gpu-014", "Gpu-014"),
    ],
)
def test_what_is_learned_names_no_place_of_its_night(title: str, said: str) -> None:
    one = Incident("INC-2026-03-14-k7qmx", title, places=("gpu-014/gpu/3",), nodes="gpu-014")
    assert what_of(one) == said
