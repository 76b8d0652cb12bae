"""`decode` and `triage --auto` say what looks like it in the past."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stethoscope.analysis.fold import FleetState
from stethoscope.cli import triage, triage_look
from stethoscope.cli.decode import command
from stethoscope.model.finding import Severity
from stethoscope.model.incident import Incident, Times
from stethoscope.model.logs import Culprit
from stethoscope.model.verdict import Diagnosis, Scene, Verdict
from stethoscope.session.incidents import Library
from stethoscope.specs.metric import load_catalogue

if TYPE_CHECKING:
    from pathlib import Path

LOG = "2026-03-14T02:07:00Z gpu-014 kernel: NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "kernel.log").write_text(LOG)
    return str(tmp_path / "kernel.log")


def decoded(*arguments: str) -> str:
    return CliRunner().invoke(command, arguments, standalone_mode=False).output


def test_the_page_names_what_looks_like_it_and_what_helped(log: str) -> None:
    page = decoded(log)
    assert "  like     REF-xid79-riser  reference  A GPU falls off the bus" in page
    assert "same Xid 79" in page
    assert "helps: A cold power cycle brings it back" in page
    assert "  like  " not in decoded(log, "--no-kb")


def test_the_document_has_it_too(log: str, tmp_path: Path) -> None:
    nights = tmp_path / "nights"
    night = Incident(
        "",
        "lost",
        root_cause="gpu_fallen_off_bus",
        places=("gpu-014",),
        symptoms=("xid.79",),
        times=Times(began=1.0),
        resolution="riser",
    )
    one = Library(nights).create(night)
    first, second = json.loads(decoded(log, "--json", "--incidents", str(nights)))["similar"][:2]
    assert (first["id"], first["fixed_by"], first["reasons"][0]) == (one.id, "riser", "same Xid 79 on the same node")
    assert (second["id"], second["status"]) == ("REF-xid79-riser", "reference")
    assert first["score"] > second["score"]
    assert json.loads(decoded(log, "--json", "--no-kb"))["similar"] == []


def test_where_nothing_is_wrong_nothing_looks_like_it(tmp_path: Path) -> None:
    (tmp_path / "quiet.log").write_text("step 1 loss 2.0\n" * 3)
    assert json.loads(decoded(str(tmp_path / "quiet.log"), "--json"))["similar"] == []


def test_an_unattended_triage_says_it_too(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Diagnosis(
        "local",
        "hardware",
        Verdict(
            "gpu_fallen_off_bus",
            0.9,
            Severity.P0,
            "gpu-014/gpu/3 is gone",
            (Culprit(place="gpu-014/gpu/3"),),
            signature="xid.79",
        ),
    )
    scene = Scene(0.0, FleetState(load_catalogue(), (), "prod").snapshot(0.0, 0.0))
    monkeypatch.setattr(triage_look, "triage", lambda *_, **__: triage_look.Outcome(found, None, True, scene))
    run = CliRunner()
    page = run.invoke(triage.command, ["--auto", "--hosts", "gpu-014"], standalone_mode=False).output
    assert "looks like:\n  REF-xid79-riser, a well-known kind: A GPU falls off the bus" in page
    assert "\n    helps: A cold power cycle" in page
    said = run.invoke(triage.command, ["--auto", "--hosts", "gpu-014", "--json"], standalone_mode=False).output
    assert json.loads(said)["similar"][0]["id"] == "REF-xid79-riser"
    none = run.invoke(triage.command, ["--auto", "--hosts", "gpu-014", "--no-kb"], standalone_mode=False).output
    assert "looks like" not in none
