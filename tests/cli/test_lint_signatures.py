"""`stethoscope lint` on signatures: their samples, anchors, overlaps and regexes, each error at its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from stethoscope.cli.lint import command
from stethoscope.session.lint_signatures import samples_of
from stethoscope.specs.compiled import playbook_files
from stethoscope.specs.signature import PATTERN
from stethoscope.specs.signature_file import read_written

GOOD = """\
schema: stethoscope.signatures/1
signatures:
- id: scratch.lost
  anchors: [" lost server "]
  patterns:
  - 'mount (?P<path>/\\S{1,80}) lost server (?P<server>\\w{1,40})'
  - 'client lost server (?P<server>\\w{1,40})'
  role: cause
  severity: P1
  meaning: The server is gone.
  fold_by: [server]
  samples:
    match:
    - {text: "mount /scratch lost server stor4", fields: {server: stor4}}
    - client lost server stor4
    no_match:
    - "we lost server "
"""


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def lint(directory: Path, text: str) -> tuple[int, list[str]]:
    (directory / "signatures").mkdir(exist_ok=True)
    (directory / "signatures" / "own.yaml").write_text(text)
    result = CliRunner().invoke(command, ["--playbooks", str(directory)], standalone_mode=False)
    assert result.exception is None
    return result.return_value, result.stdout.splitlines()


def test_one_of_the_operator_is_counted(tmp_path: Path) -> None:
    bundled = read_written(playbook_files(PATTERN))
    code, lines = lint(tmp_path, GOOD)
    assert code == 0
    assert lines[-1].endswith(": nothing wrong")
    counts = {"signatures": len(bundled) + 1, "samples": sum(map(samples_of, bundled)) + 3}
    for what, count in counts.items():
        assert re.search(rf", {count:,} {what}[,:]", lines[-1])


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        (("- client lost server stor4\n", "- client found server stor4\n"), "15:7", "no pattern matches this sample"),
        (("- client lost server stor4\n", "- mount /a lost server b\n"), "7:5", "no sample matches this pattern"),
        (("{server: stor4}", "{server: stor5}"), "14:67", 'server is "stor4", not "stor5"'),
        (("{server: stor4}", "{serve: stor4}"), "14:66", 'serve is nothing, not "stor4"'),
        (('- "we lost server "', "- a client lost server x"), "17:7", "this sample must not match"),
        (('[" lost server "]', "[lost servers]"), "14:7", "no anchor is in this sample"),
        (('[" lost server "]', "[server]"), "4:13", 'the anchor "server" is a common word: take more of the line'),
        (
            ("client lost server (?P<server>\\w{1,40})", "(?P<server>\\w{0,900}) lost server s"),
            "7:5",
            " ms for a line of ",
        ),
        (("meaning:", "meanin:"), "10:3", 'unknown key "meanin"; did you mean "meaning"?'),
    ],
)
def test_errors(change: tuple[str, str], place: str, message: str, tmp_path: Path) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    code, lines = lint(tmp_path, text)
    assert code == 65
    assert any(line.startswith(f"{tmp_path}/signatures/own.yaml:{place}: ") and message in line for line in lines), (
        lines
    )


def test_a_pattern_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stethoscope.session import regex_time

    monkeypatch.setattr(regex_time, "PATIENCE_S", 2.0)
    text = GOOD.replace(
        "'client lost server (?P<server>\\w{1,40})'", "'client lost (?:s+e*r*v*)+ (?P<server>(\\w+)+)$'"
    )
    code, lines = lint(tmp_path, text.replace("client lost server stor4", "client lost serv stor4"))
    assert code == 65
    assert any("own.yaml:7:5: this pattern takes seconds for a line of 10,000 characters" in line for line in lines)


def test_two_that_claim_one_line(tmp_path: Path) -> None:
    both = GOOD + GOOD[GOOD.index("- id") :].replace("scratch.lost", "scratch.gone")
    code, lines = lint(tmp_path, both)
    assert code == 65
    assert len(lines) == 4
    said = '"scratch.gone" matches this sample too: one of the two must name the other in yields_to'
    assert lines[0] == f"{tmp_path}/signatures/own.yaml:14:7: {said}"
    for key in ("yields_to", "beside"):
        assert lint(tmp_path, both.replace("  fold_by: [server]\n", f"  {key}: [scratch.gone]\n", 1))[0] == 0


def test_one_without_samples(tmp_path: Path) -> None:
    code, lines = lint(tmp_path, GOOD[: GOOD.index("    match:")] + "    match: []\n")
    assert (code, lines) == (65, [f"{tmp_path}/signatures/own.yaml:13:5: it needs a sample that matches"])


def test_the_example_of_the_documentation_is_right_and_found(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "signatures.md").read_text()
    example = text.split("```yaml\n")[1].split("```")[0]
    assert example.startswith("schema: stethoscope.signatures/1\n")
    code, lines = lint(tmp_path, example)
    assert (code, lines[-1].endswith("nothing wrong")) == (0, True)
    line = text.split("writes `")[1].split("`")[0]
    from stethoscope.cli.decode import command as decode

    log = tmp_path / "scratch.log"
    log.write_text(f"Feb  3 04:05:06 node-c02 {line}\n")
    arguments = ["--json", "--playbooks", str(tmp_path), str(log)]
    result = CliRunner().invoke(decode, arguments, standalone_mode=False)
    (event,) = json.loads(result.stdout)["events"]
    assert (event["signature"], event["fields"]["server"]) == ("scratch.server_lost", "stor-04")
