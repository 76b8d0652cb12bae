"""The command of a person's own shell on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.collect.commands import Commands
from stethoscope.collect.journal import Journal
from stethoscope.collect.login import ssh_arguments
from stethoscope.errors import UsageError
from stethoscope.session.login import shell_on
from stethoscope.specs.fleet import FleetNode

if TYPE_CHECKING:
    from pathlib import Path


def test_ssh_goes_the_way_of_the_link() -> None:
    assert ssh_arguments(FleetNode("gpu-007")) == ["ssh", "--", "gpu-007"]
    node = FleetNode(
        "gpu-007", address="10.0.0.7", port=2222, user="kim", jump="", identity_file="/k", known_hosts="/my known"
    )
    assert ssh_arguments(node, "/c") == [
        "ssh", "-F", "/c", "-o", "HostName=10.0.0.7", "-p", "2222", "-l", "kim", "-i", "/k",
        "-o", 'UserKnownHostsFile="/my known"', "-J", "none", "--", "gpu-007",
    ]  # fmt: skip
    assert ssh_arguments(FleetNode("a", jump="kim@jump:2200"))[1:3] == ["-J", "kim@jump:2200"]


class _Session:
    def __init__(self, commands: Commands) -> None:
        self.source = self
        self.nodes = (FleetNode("gpu-001"),)
        self.commands = commands
        self.ssh_config = None
        self.simulated = False


async def test_a_shell_is_written_into_the_journal_and_refused_when_only_reading_is_allowed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", FixedClock())
    ran: list[list[str]] = []

    async def run(arguments: list[str]) -> int:
        ran.append(arguments)
        return 130

    assert await shell_on(_Session(Commands(journal)), "gpu-001", run) == 130
    assert ran == [["ssh", "--", "gpu-001"]]
    with pytest.raises(UsageError, match="--read-only allows no command but the stream probe"):
        await shell_on(_Session(Commands(journal, read_only=True)), "gpu-001", run)
    assert len(ran) == 1
    with pytest.raises(UsageError, match="gpu-009 is not reached by ssh"):
        await shell_on(_Session(Commands(journal)), "gpu-009", run)
    written = "".join(path.read_text() for path in (tmp_path / "journal").iterdir())
    assert written.count("ssh -- gpu-001") == 2
    assert "refused: --read-only" in written
