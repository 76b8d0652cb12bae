"""The options that say which nodes a verb looks at."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from stethoscope.cli.source import SourceOptions, open_source, source_options
from stethoscope.clock import FixedClock
from stethoscope.collect.local import LocalSource
from stethoscope.collect.ssh import SshSource
from stethoscope.errors import DataError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = FixedClock()


def test_options_arrive_as_one_argument() -> None:
    @click.command()
    @source_options
    @click.option("--json", "as_json", is_flag=True)
    def command(source: SourceOptions, as_json: bool) -> None:
        click.echo(f"{source} {as_json}")

    result = CliRunner().invoke(command, ["--hosts", "n[1-2]", "--port", "2222", "--accept-new", "--json"])
    assert result.output.strip() == f"{SourceOptions(hosts='n[1-2]', port=2222, accept_new=True)} True"
    assert CliRunner().invoke(command, ["--port", "0"]).exit_code == 2


def test_no_source_is_this_machine() -> None:
    source = open_source(SourceOptions(interval="5s"), CLOCK)
    assert isinstance(source, LocalSource)
    assert [node.tick_s for node in source.nodes] == [5.0]


def test_hosts_with_what_the_command_line_says_of_them() -> None:
    options = SourceOptions(hosts="n[1-2]", user="u", port=23, identity="/k", known_hosts="/h", interval="500ms")
    source = open_source(options, CLOCK)
    assert isinstance(source, SshSource)
    assert [
        (node.name, node.user, node.port, node.identity_file, node.known_hosts, node.tick_s) for node in source.nodes
    ] == [("n1", "u", 23, "/k", "/h", 0.5), ("n2", "u", 23, "/k", "/h", 0.5)]


def test_a_fleet_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("schema: stethoscope.fleet/1\nname: lab\nsimulated: true\nhosts: {n1: {user: a}, n2: {port: 24}}\n")
    source = open_source(SourceOptions(fleet=str(path), user="b"), CLOCK)
    assert isinstance(source, SshSource)
    assert (source.fleet, source.simulated) == ("lab", True)
    assert [(node.user, node.port) for node in source.nodes] == [("b", None), ("b", 24)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SourceOptions(hosts="n1", fleet="f"), "--hosts and --fleet"),
        (SourceOptions(user="u"), "--user is about SSH"),
        (SourceOptions(accept_new=True), "--accept-new is about SSH"),
        (SourceOptions(hosts="n[1-"), "cannot read node set"),
        (SourceOptions(hosts=""), "names no node"),
        (SourceOptions(hosts="n1", interval="soon"), '--interval: "soon" is not a duration'),
    ],
)
def test_what_does_not_fit_together(options: SourceOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        open_source(options, CLOCK)
    assert caught.value.exit_code == 64


def test_a_fleet_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("schema: stethoscope.fleet/1\n")
    for name, message in (("none.yaml", "No such file"), ("empty.yaml", "names no node")):
        with pytest.raises(DataError, match=message) as caught:
            open_source(SourceOptions(fleet=str(tmp_path / name)), CLOCK)
        assert caught.value.exit_code == 65


def test_opening_a_source_imports_no_ssh() -> None:
    code = (
        "import sys; from stethoscope.cli.source import *; from stethoscope.clock import SystemClock;"
        "open_source(SourceOptions(hosts='n[1-9]'), SystemClock()); sys.exit('asyncssh' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
