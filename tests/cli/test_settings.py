"""The user's settings are defaults of flags, each by its name; what is wrong with them is told with its line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from stethoscope.cli.main import VERBS, group
from stethoscope.cli.settings import flags_of
from stethoscope.errors import DataError
from stethoscope.specs.config import load_config, settings_of, unknown_names

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "stethoscope").mkdir()
    return tmp_path / "stethoscope" / "config.yaml"


def run(*arguments: str) -> dict[str, object]:
    """Return the parameters that a verb would run with."""
    seen: dict[str, object] = {}
    verb = group.get_command(click.Context(group), arguments[0])
    assert verb is not None
    kept, verb.callback = verb.callback, lambda **given: seen.update(given)
    try:
        group.main(list(arguments), standalone_mode=False)
    finally:
        verb.callback = kept
    return seen


def test_a_flag_takes_its_default_from_the_settings_and_the_command_line_wins(settings: Path) -> None:
    settings.write_text("schema: stethoscope.config/1\nmetric: gpu_temp\nbell: false\nwatch:\n  keep-size: 5G\n")
    seen = run("watch")
    assert (seen["metric"], seen["bell"], seen["keep_size"], seen["title"]) == ("gpu_temp", False, "5G", True)
    assert run("watch", "--metric", "gpu_util", "--bell")["metric"] == "gpu_util"
    assert run("demo")["metric"] == "gpu_temp"
    assert run("demo")["speed"] == 1.0


def test_a_verb_without_the_flag_does_not_mind(settings: Path) -> None:
    settings.write_text("metric: gpu_temp\n")
    assert "metric" not in run("lint")


def test_a_wrong_name_below_a_verb_is_told_with_its_place(settings: Path) -> None:
    settings.write_text("watch:\n  keep-sise: 5G\n")
    with pytest.raises(
        DataError, match=r'config.yaml:2:\d+: "keep-sise" is no flag of watch; did you mean "keep-size"'
    ):
        run("watch")


def test_names_that_no_verb_has_are_found_by_lint(settings: Path) -> None:
    settings.write_text("metrik: x\nbell: true\ndemo:\n  sped: 2\n")
    loaded = load_config()
    assert loaded is not None
    flags = {verb: flags_of(group.get_command(click.Context(group), verb)) for verb in VERBS}  # type: ignore[arg-type]
    assert [str(error).partition("config.yaml:")[2] for error in unknown_names(loaded, flags)] == [
        '1:9: no verb has a flag "metrik"; did you mean "metric"?',
        '4:9: "sped" is no flag of demo; did you mean "speed"?',
    ]


def test_a_broken_file_is_an_error_of_data(settings: Path) -> None:
    settings.write_text("- a\n")
    with pytest.raises(DataError, match="name: value"):
        run("watch")
    settings.write_text("schema: other/1\n")
    with pytest.raises(DataError, match=r"is not stethoscope\.config/1"):
        load_config()
    settings.write_text("watch: 5\n")
    loaded = load_config()
    assert loaded is not None
    with pytest.raises(DataError, match="what is below watch"):
        settings_of(loaded, "watch", {"metric": "metric"}, VERBS)


def test_a_name_that_no_verb_has_is_told_whatever_is_called(settings: Path) -> None:
    settings.write_text("bel: true\n")
    for verb in ("watch", "check"):
        with pytest.raises(DataError, match=r'config.yaml:1:\d+: no verb has a flag "bel"; did you mean "bell"'):
            run(verb)
    assert run("doctor") == {"as_json": False}


def test_a_value_that_a_flag_does_not_take_is_told_with_its_line(settings: Path) -> None:
    settings.write_text("bell: true\ntheme: ligth\n")
    with pytest.raises(DataError, match=r"config.yaml:2:\d+: theme: 'ligth' is not one of"):
        run("watch")
    settings.write_text("watch:\n  bell: maybe\n")
    with pytest.raises(DataError, match=r"config.yaml:2:\d+: bell: 'maybe'"):
        run("watch")


@pytest.mark.parametrize("wrong", ["bel: true", "theme: ligth", "watch: {them: dark}", "- a", "watch: {bell: maybe}"])
def test_doctor_says_what_is_wrong_with_the_settings(settings: Path, wrong: str) -> None:
    settings.write_text(f"{wrong}\n")
    told = json.loads(CliRunner().invoke(group, ["doctor", "--json"]).output)["remarks"]
    assert [remark["level"] for remark in told if "config.yaml" in remark["says"]] == ["warning"]


def test_right_settings_are_not_told(settings: Path) -> None:
    settings.write_text("theme: light\ninterval: 5s\ndemo: {speed: 2}\n")
    told = json.loads(CliRunner().invoke(group, ["doctor", "--json"]).output)["remarks"]
    assert not [remark for remark in told if "config.yaml" in remark["says"]]
