"""What is frozen gives the same verdict again, and keeps no secret."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stethoscope.analysis.triage import diagnose
from stethoscope.cli import triage
from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item
from stethoscope.model.verdict import Measured
from stethoscope.session.freeze import freeze, redacted, redacted_line, thaw
from stethoscope.session.open import session_maker
from stethoscope.session.triage import scene_of_recording
from stethoscope.specs.playbook import load_playbooks
from stethoscope.store.bundle import Bundle
from stethoscope.store.tape import open_tape
from tests.store.made import record
from tests.ui.triage_scenes import scene, sick_link

if TYPE_CHECKING:
    from pathlib import Path

LOST = "at: 10s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2"


@pytest.fixture
def no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_bundle_gives_the_same_verdict_and_the_tape_before_it(no_configuration: Path) -> None:
    tmp_path = no_configuration
    record(tmp_path / "a.sthr", LOST, until_s=40)
    tape, make, books = open_tape(tmp_path / "a.sthr"), session_maker(remember=False), load_playbooks()
    scene = scene_of_recording(tape, make, 38.0)
    told = Measured("gpu-001", "env_diff", scene.now_s, "WANDB_API_KEY=abcdefgh\nNCCL_DEBUG=INFO", (
        Item("", "rx", Missing(Reason.UNSUPPORTED)), Item("gpu/1", "power", 1.5, "W", "warning"),
    ))  # fmt: skip
    scene = replace(scene, measured=(told,))
    found = diagnose(scene, books)
    assert found.verdict.root_cause == "gpu_fallen_off_bus"
    path = tmp_path / "a.bundle"
    freeze(path, tape, 38.0, scene, found, "# card with password=hunter22")
    bundle = Bundle(path)
    assert bundle.head["root_cause"] == "gpu_fallen_off_bus"
    bundle.extract("recording.sthr", tmp_path / "b.sthr")
    again = open_tape(tmp_path / "b.sthr")
    assert again.wall_span[1] == pytest.approx(scene.now_s)
    thawed = thaw(bundle, again, make)
    assert json.dumps(diagnose(thawed, books).as_json()) == json.dumps(found.as_json()), "byte for byte: 1 is not 1.0"
    assert thawed.measured[0].items == told.items
    assert thawed.measured[0].text == "WANDB_API_KEY=[removed]\nNCCL_DEBUG=INFO"
    assert bundle.read("verdict.md") == b"# card with password=[removed]"
    assert json.loads(bundle.read("triage.json"))["schema"] == "stethoscope.triage/1"


def test_without_a_recording_the_rest_is_frozen(tmp_path: Path) -> None:
    found = diagnose(known := scene(sick_link()), load_playbooks())
    written = freeze(tmp_path / "a.bundle", None, 0.0, known, found, "# card")
    assert written.records == 0
    bundle = Bundle(written.path)
    assert "recording.sthr" not in bundle.members
    assert bundle.head["root_cause"] == "ib_link_fault"
    assert json.loads(bundle.read("findings.json"))
    result = CliRunner().invoke(triage.command, ["--auto", "--bundle", str(written.path)], standalone_mode=False)
    assert "frozen without a recording (--no-record); its verdict: tar xOf a.bundle" in str(result.exception)


def test_secrets_leave_lines_of_json_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "geheim-42")
    plain = b'{"kind":"delta","seq":7,"v":[1,2]}'
    assert redacted_line(plain, ()) is plain
    line = redacted_line(b'{"text":"train.py --api-key abc123 \\"x\\"","n":1,"u":"geheim-42 is here"}', ["geheim-42"])
    assert json.loads(line) == {"text": 'train.py --api-key [removed] "x"', "n": 1, "u": "[removed] is here"}
    assert redacted({"env": {"AWS_SECRET": "abc def", "HOME": "/root"}}) == {
        "env": {"AWS_SECRET": "[removed]", "HOME": "/root"}
    }
    assert redacted_line(b"token=abcdef not json", ()) == b"token=[removed] not json"
