"""The fleet file's ports, expectations, sudo, job logs, Slurm login, and who gave what; each error with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError, UsageError
from stethoscope.specs.fleet import Fleet, FleetNode, PortPlace, SlurmLogin, login_node, read_fleet

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
schema: stethoscope.fleet/1
defaults: {gpus: 8, ib_ports: 2, ib_gbps: 400, sudo: "-n", job_logs: /shared/slurm-%j.out}
slurm: {via: "ops@login1:2222", jump: bastion}
groups:
  rack-01:
    nodes: gpu[1-2]
    rack: r1
    pod: p1
    ports:
      mlx5_[0-1]: {rail: "{n}", leaf: "leaf-{pod}-{n}"}
      mlx5_bond_0: {rail: storage}
  odd:
    nodes: gpu2
    sudo: false
    ports: {"mlx5_1": {rail: 7, leaf: "spare-{rack}"}}
hosts:
  gpu3: {job_logs: [/a/%j, /b/%N]}
"""


def fleet(directory: Path, text: str) -> Fleet:
    path = directory / "fleet.yaml"
    path.write_text(text)
    return read_fleet(path)


def test_ports_by_pattern_and_by_name(tmp_path: Path) -> None:
    one, two, three = fleet(tmp_path, TEXT).nodes
    assert one.ports == (
        PortPlace("mlx5_0", 1, "0", "leaf-p1-0"),
        PortPlace("mlx5_1", 1, "1", "leaf-p1-1"),
        PortPlace("mlx5_bond_0", 1, "storage", ""),
    )
    assert two.ports[1] == PortPlace("mlx5_1", 1, "7", "spare-r1")
    assert two.ports[0] == one.ports[0]
    assert three.ports == ()


def test_expectations_and_policies(tmp_path: Path) -> None:
    read = fleet(tmp_path, TEXT)
    one, two, three = read.nodes
    assert (one.expected_gpus, one.expected_ib_ports, one.expected_ib_gbps) == (8, 2, 400.0)
    assert (one.sudo, two.sudo) == (True, False)
    assert (one.job_logs, three.job_logs) == (("/shared/slurm-%j.out",), ("/a/%j", "/b/%N"))
    assert read.slurm == SlurmLogin(FleetNode("login1", user="ops", port=2222, jump="bastion"))


def test_who_gave_what(tmp_path: Path) -> None:
    origins = fleet(tmp_path, TEXT).origins
    assert origins["gpu1"]["rack"] == "groups.rack-01"
    assert origins["gpu1"]["expected_gpus"] == "defaults"
    assert origins["gpu2"]["sudo"] == "groups.odd"
    assert origins["gpu3"]["job_logs"] == "hosts.gpu3"


def test_a_second_port(tmp_path: Path) -> None:
    read = fleet(tmp_path, 'schema: stethoscope.fleet/1\nhosts: {a: {ports: {"mlx5_0:2": {leaf: "l{n}"}}}}\n')
    assert read.nodes[0].ports == (PortPlace("mlx5_0", 2, "", "l0"),)


def test_slurm_here(tmp_path: Path) -> None:
    read = fleet(tmp_path, "schema: stethoscope.fleet/1\nslurm: {via: local}\nhosts: {a: }\n")
    assert read.slurm == SlurmLogin()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hosts: {a: {ports: {mlx5_0: {leaf: 'x{nn}'}}}}", r'2:36: nothing is called "nn"; did you mean "n"\?'),
        ("hosts: {a: {ports: {'mlx5 0': {leaf: x}}}}", "is not a port: write mlx5_0"),
        ("hosts: {a: {ports: {'mlx5_0:3': {leaf: x}}}}", "is not a port"),
        ("hosts: {a: {ports: {mlx5_0: {leef: x}}}}", 'did you mean "leaf"'),
        ("hosts: {a: {sudo: maybe}}", "2:19: sudo is `-n`"),
        ("hosts: {a: {job_logs: logs/x}}", "is not a whole path"),
        ("hosts: {a: {ib_gbps: 0}}", "2:22"),
        ("hosts: {a: }\nslurm: {via: 'a b'}", "3:14.*is not a machine"),
        ("hosts: {a: }\nslurm: {via: local, user: x}", "user has no meaning"),
        ("hosts: {a: }\nslurm: {wia: x}", 'did you mean "via"'),
        ("hosts: {a: {jump: x, slurm: {via: x}}}", "slurm"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fleet(tmp_path, f"schema: stethoscope.fleet/1\n{line}\n")


@pytest.mark.parametrize("via", ["", "a b", "-oProxyCommand=x", "u;x@h", "h:99999", "@h"])
def test_what_is_no_login_node(via: str) -> None:
    with pytest.raises(UsageError):
        login_node(via)


def test_login_nodes() -> None:
    assert login_node("h") == FleetNode("h")
    assert login_node("u@h:2222") == FleetNode("h", user="u", port=2222)


def test_leaves_are_told_by_port() -> None:
    ports = (PortPlace("mlx5_0", 1, "0", "leaf-01"), PortPlace("mlx5_0", 2, "1", "leaf-02"), PortPlace("mlx5_1"))
    assert FleetNode("gpu1", ports=ports).leaves == (("mlx5_0", "leaf-01"), ("mlx5_0:2", "leaf-02"))
