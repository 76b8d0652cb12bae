"""What needs root, read by a real user of this machine with a real `sudo -n`, which may run exactly what is listed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope.collect.payload import line_of, watch_line
from stethoscope.collect.watchlist import watch_groups
from stethoscope.model import wire
from stethoscope.model.metric import Scope
from stethoscope.parse.parts import read_part
from tests import needs
from tests.probe.running import wait_for
from tests.probe.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stethoscope.model.facts import Facts
    from tests.probe.running import RunningProbe

USER = f"stethtest{os.getpid()}"
SMARTCTL = """[ "$(id -u)" = 0 ] || { echo '{"smartctl":{"messages":[{"string":"Smartctl open device: '$3' failed: \
Permission denied","severity":"error"}],"exit_status":2}}'; exit 2; }
echo '{"smartctl":{"exit_status":0},"device":{"name":"'$3'","protocol":"ATA"},"smart_status":{"passed":true},\
"power_on_time":{"hours":21043}}'"""
IPMITOOL = """[ "$(id -u)" = 0 ] || { echo 'Could not open device at /dev/ipmi0: Permission denied' >&2; exit 1; }
printf 'Device ID                 : 32\\nFirmware Revision         : 13.05\\nIPMI Version              : 2.0\\n'"""
REFUSED = {"smart": "smartctl needs root", "bmc": "ipmitool needs root"}


class Node:
    """A node with two disks, its tools, and a user who is not root."""

    def __init__(self, base: Path, rules: Path) -> None:
        self.tools = base / "tools"
        self.tools.mkdir()
        self.log = base / "log"
        self.log.touch()
        self.log.chmod(0o666)
        self.tree = Tree.healthy(base / "root")
        for disk in ("sda", "sdb"):
            self.tree.put(f"dev/{disk}", "")
        self.rules = rules

    def put(self, name: str, body: str) -> None:
        """Install a tool that takes down who ran it, and how."""
        path = self.tools / name
        path.write_text(f'#!/bin/sh\necho "$(id -u) {name} $*" >>{self.log}\n{body}\n')
        path.chmod(0o755)

    def allow(self, *rules: str) -> None:
        """Write what sudo lets the user do."""
        lines = [f'Defaults:{USER} secure_path="{self.tools}:/usr/bin:/bin"', *(f"{USER} {rule}" for rule in rules)]
        self.rules.write_text("\n".join(lines) + "\n")
        self.rules.chmod(0o440)
        subprocess.run([needs.tool("visudo"), "-cqf", self.rules], check=True)

    def ran(self) -> list[str]:
        """Return what ran so far."""
        return self.log.read_text().splitlines()


@pytest.fixture
def node() -> Iterator[Node]:
    """Yield a node with a user of its own on this machine, of which nothing stays."""
    if os.geteuid() or "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("only root, where sudo can work, can make a user to try it with")
    useradd, userdel = needs.tool("useradd"), needs.tool("userdel")
    for name in ("sudo", "visudo", "runuser"):
        needs.tool(name)
    rules = Path("/etc/sudoers.d") / USER
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        subprocess.run([useradd, "-M", "-N", "-s", "/bin/sh", USER], check=True)
        try:
            made = Node(Path(place), rules)
            made.put("smartctl", SMARTCTL)
            made.put("ipmitool", IPMITOOL)
            yield made
        finally:
            rules.unlink(missing_ok=True)
            # What runs as the user may take a moment to end.
            assert wait_for(lambda: not subprocess.run([userdel, USER], stderr=subprocess.DEVNULL).returncode, 10.0)


@pytest.fixture
def watch(node: Node, start: Callable[..., RunningProbe]) -> Callable[[], RunningProbe]:
    """Return a function that starts a probe as the user."""

    def begin() -> RunningProbe:
        probe = start(
            {"STETHOSCOPE_ROOT": str(node.tree.root)},
            path=f"{node.tools}:/usr/bin:/bin",
            through=[needs.tool("runuser"), "-u", USER, "--", "/bin/sh", "-c"],
        )
        probe.until(lambda message: isinstance(message, wire.Full))
        return probe

    return begin


def facts(probe: RunningProbe) -> tuple[Facts, Facts]:
    """Return what the identity and the disks of the node are said to be."""
    return (read_part(part(probe, "identity")), read_part(part(probe, "smart")))


def part(probe: RunningProbe, name: str) -> wire.Part:
    """Read on to the next whole part of a name."""
    found = probe.until(lambda message: isinstance(message, wire.Part) and message.name == name and not message.same)
    assert isinstance(found, wire.Part)
    return found


def passed(disks: Facts) -> dict[str, object]:
    """Return the health of each disk."""
    devices = disks.devices[Scope.DISK]
    return dict(zip(devices.names, devices.values["smart_passed"], strict=True))


def test_exactly_what_is_listed_runs_as_root(node: Node, watch: Callable[[], RunningProbe]) -> None:
    node.allow(f"ALL=(root) NOPASSWD: {node.tools}/smartctl --json=c -a /dev/sda, {node.tools}/ipmitool mc info")
    probe = watch()
    probe.write(watch_line(True))
    identity, disks = facts(probe)
    assert (identity.words["bmc_firmware"], identity.notes) == ("13.05", {})
    # The other disk is not listed, and says so; the first is read all the same.
    assert passed(disks) == {"sda": 1, "sdb": "permission"}
    assert node.ran() == ["0 ipmitool mc info", "0 smartctl --json=c -a /dev/sda"]


@pytest.mark.parametrize("rules", [(), ("ALL=(root) ALL",)], ids=["not in sudoers", "with a password"])
def test_who_may_not_is_told_so_and_not_asked_again(
    node: Node, watch: Callable[[], RunningProbe], rules: tuple[str, ...]
) -> None:
    node.allow(*rules)
    probe = watch()
    groups = [group for group in watch_groups(sudo=True) if group["name"] in ("identity", "smart")]
    probe.write(line_of([{**group, "s": 1} for group in groups]))
    identity, disks = facts(probe)
    assert {**identity.notes, **disks.notes} == REFUSED
    assert passed(disks) == {"sda": "permission", "sdb": "permission"}
    # Each refusal stands in the node's log: sudo, were it asked again, would allow it now.
    node.allow("ALL=(root) NOPASSWD: ALL")
    for _ in range(3):
        again = probe.until(lambda message: isinstance(message, wire.Part) and message.name == "smart")
        assert again.same
    assert node.ran() == []


def test_without_leave_to_use_sudo_nothing_asks_for_it(node: Node, watch: Callable[[], RunningProbe]) -> None:
    node.allow("ALL=(root) NOPASSWD: ALL")
    probe = watch()
    probe.write(watch_line(False))
    identity, disks = facts(probe)
    assert {**identity.notes, **disks.notes} == REFUSED
    own = {line.split()[0] for line in node.ran()}
    assert len(own) == 1
    assert own != {"0"}


def test_a_tool_that_is_not_there_does_not_start_sudo(node: Node, watch: Callable[[], RunningProbe]) -> None:
    node.allow("ALL=(root) NOPASSWD: ALL")
    for name in ("smartctl", "ipmitool"):
        (node.tools / name).unlink()
    node.put("sudo", "exit 9")
    probe = watch()
    probe.write(watch_line(True))
    identity, disks = facts(probe)
    assert "bmc_firmware" not in identity.words
    assert disks.notes == {"smart": "smartctl is not installed"}
    assert passed(disks) == {"sda": "unsupported", "sdb": "unsupported"}
    assert node.ran() == []
