"""Signatures of an operator: the judge has no method for them and takes them at their word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.decode import Scanner
from stethoscope.analysis.judge import judge
from stethoscope.specs.signature import load_signatures
from tests.analysis.job_lines import NOW, answer, steps

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.logs import LogVerdict

WRITTEN = """
schema: stethoscope.signatures/1
signatures:
- id: {id}
  anchors: [lost server]
  patterns: ['mount (?P<mount>\\S{{1,80}}) lost server (?P<server>\\S{{1,80}})']
  role: {role}
  severity: P1
  root_cause: shared_fs_stall
  meaning: A scratch server does not answer.
  next_checks: [scratchctl status SERVER]
  samples: {{match: ['mount /scratch lost server stor-04'], no_match: [lost server]}}
"""


def judged(directory: Path, name: str, role: str, lines: list[str]) -> LogVerdict:
    (directory / "signatures").mkdir()
    (directory / "signatures" / "scratch.yaml").write_text(WRITTEN.format(id=name, role=role))
    signatures = load_signatures(directory)
    scanner = Scanner(signatures, now=NOW)
    data = "\n".join(lines).encode()
    scan = scanner.file("job.log", size=len(data), modified_at=NOW)
    scan.feed(data)
    scan.end("")
    return judge(scanner.finish(), signatures)[0]


LOST = "Mar 14 02:05:06 node-c02 scratchd[811]: mount /scratch lost server stor-04 (rc -110), retrying"


@pytest.mark.parametrize("name", ["scratch.server_lost", "run.server_lost", "nfs.server_lost"])
def test_a_cause_is_a_cause_whatever_its_name(tmp_path: Path, name: str) -> None:
    verdict = judged(tmp_path, name, "cause", [*steps(10, 60), LOST])
    assert answer(verdict) == ("shared_fs_stall", "P1", [(None, "node-c02")])
    assert verdict.summary.startswith("node-c02: A scratch server does not answer")
    assert verdict.next_checks[0] == "scratchctl status SERVER"


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ("{blame: named, host: server}", "stor-04"),
        ("{blame: peer, peer: server}", "stor-04"),
        ("{blame: named, rank: mount}", "node-c02"),
        ("{blame: reporter}", "node-c02"),
    ],
)
def test_whom_its_fields_name_is_who_is_to_blame(
    tmp_path: Path, names: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        globals(), "WRITTEN", WRITTEN + "  culprit: " + names.replace("{", "{{").replace("}", "}}") + "\n"
    )
    verdict = judged(tmp_path, "scratch.server_lost", "cause", [*steps(10, 60), LOST])
    assert answer(verdict) == ("shared_fs_stall", "P1", [(None, host)])


def test_what_a_job_outlived_is_no_cause(tmp_path: Path) -> None:
    assert judged(tmp_path, "scratch.server_lost", "cause", [LOST, *steps(10, 200)]).root_cause == "healthy"


def test_context_raises_nothing(tmp_path: Path) -> None:
    assert judged(tmp_path, "scratch.server_lost", "context", [LOST]).root_cause == "healthy"
