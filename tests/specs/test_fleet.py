"""Fleet files: what they mean, and what is said about broken ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError, UsageError
from stethoscope.specs.fleet import Fleet, FleetNode, parse_interval, read_fleet

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """\
schema: stethoscope.fleet/1
name: demo
simulated: true
defaults: {user: sim, port: 2222, identity_file: /keys/id, known_hosts: kh, interval: 2s, gpus: 8}
groups:
  all: {nodes: "gpu-[001-003],login1", pod: pod-01, jump: bastion}
  rack-01: {nodes: "gpu-[001-002]", rack: rack-01}
  odd: {nodes: [gpu-001, gpu-003], rack: 7, interval: 500ms, jump: ""}
hosts:
  gpu-001: {address: 127.71.0.1, port: 22}
  gpu-009:
  "spare[1-2]": {gpus: 0}
"""


def fleet(tmp_path: Path, text: str) -> Fleet:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return read_fleet(path)


def error(tmp_path: Path, text: str) -> str:
    with pytest.raises(DataError) as caught:
        fleet(tmp_path, text)
    assert caught.value.exit_code == 65
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_the_most_specific_place_wins(tmp_path: Path) -> None:
    read = fleet(tmp_path, WHOLE)
    common = {"user": "sim", "port": 2222, "identity_file": "/keys/id", "known_hosts": str(tmp_path / "kh")}
    expected = (
        FleetNode(
            "gpu-001",
            **{**common, "port": 22},
            address="127.71.0.1",
            jump="",
            rack="7",
            pod="pod-01",
            tick_s=0.5,
            expected_gpus=8,
        ),
        FleetNode("gpu-002", **common, jump="bastion", rack="rack-01", pod="pod-01", tick_s=2.0, expected_gpus=8),
        FleetNode("gpu-003", **common, jump="", rack="7", pod="pod-01", tick_s=0.5, expected_gpus=8),
        FleetNode("login1", **common, jump="bastion", pod="pod-01", tick_s=2.0, expected_gpus=8),
        FleetNode("gpu-009", **common, tick_s=2.0, expected_gpus=8),
        FleetNode("spare1", **common, tick_s=2.0, expected_gpus=0),
        FleetNode("spare2", **common, tick_s=2.0, expected_gpus=0),
    )
    assert read.nodes == expected
    assert (read.name, read.simulated) == ("demo", True)
    assert read.groups == {
        "all": ("gpu-001", "gpu-002", "gpu-003", "login1"),
        "rack-01": ("gpu-001", "gpu-002"),
        "odd": ("gpu-001", "gpu-003"),
    }


def test_what_nobody_says_is_left_open(tmp_path: Path) -> None:
    read = fleet(tmp_path, "schema: stethoscope.fleet/1\nhosts: {n1: }\n")
    assert read == Fleet("fleet", (FleetNode("n1"),))


def test_a_large_fleet_ticks_more_slowly(tmp_path: Path) -> None:
    head = "schema: stethoscope.fleet/1\ngroups:\n"
    assert fleet(tmp_path, f'{head}  g: {{nodes: "n[1-256]"}}\n').nodes[0].tick_s == 2.0
    assert fleet(tmp_path, f'{head}  g: {{nodes: "n[1-257]"}}\n').nodes[0].tick_s == 5.0
    assert Fleet.from_hosts("n[1-256]").nodes[0].tick_s == 2.0
    assert Fleet.from_hosts("n[1-257]").nodes[0].tick_s == 5.0


def test_from_hosts() -> None:
    read = Fleet.from_hosts("gpu[08-10],login1")
    assert [node.name for node in read.nodes] == ["gpu08", "gpu09", "gpu10", "login1"]
    assert read.name == "gpu[08-10],login1"
    with pytest.raises(UsageError, match='"root@n1" is not a host name; give the user apart'):
        Fleet.from_hosts("root@n1")
    with pytest.raises(UsageError, match="is not a host name"):
        Fleet.from_hosts("-oProxyCommand=x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: []\n", "fleet.yaml: not a fleet file: it does not begin with `schema: stethoscope.fleet/1`"),
        ("", "fleet.yaml: not a fleet file: it does not begin with `schema: stethoscope.fleet/1`"),
        (
            "schema: stethoscope.fleet/2\n",
            "fleet.yaml:1:9: the schema is 'stethoscope.fleet/2'; this program reads stethoscope.fleet/1",
        ),
        (
            "schema: stethoscope.fleet/1\n",
            "fleet.yaml: names no node: it needs `groups` with `nodes`, or `hosts`",
        ),
        (
            "schema: stethoscope.fleet/1\nhosts:\n  n1: {adress: 10.0.0.1}\n",
            'fleet.yaml:3:8: unknown key "adress"; did you mean "address"?',
        ),
        (
            "schema: stethoscope.fleet/1\nhosts:\n  n1: {port: 22}\n  n1: {port: 23}\n",
            'fleet.yaml:4:3: the key "n1" stands here twice',
        ),
        (
            "schema: stethoscope.fleet/1\nhosts:\n  n1: {user: on}\n",
            'fleet.yaml:3:14: on is a truth value to some readers and text to others: write true, or "on"',
        ),
        (
            "schema: stethoscope.fleet/1\nhosts:\n  n1: {interval: 1:30}\n",
            'fleet.yaml:3:18: 1:30 is a number of base 60 to some readers: write "1:30" for text, or plain seconds',
        ),
        (
            "schema: stethoscope.fleet/1\nhosts:\n  n1: {interval: 2h}\n",
            "fleet.yaml:3:18: an interval is from 0.2 s to 600 s, not 7200 s",
        ),
        (
            "schema: stethoscope.fleet/1\ngroups:\n  g: {nodes: 'n[1-'}\n",
            'fleet.yaml:3:14: cannot read node set "n[1-"',
        ),
        (
            "schema: stethoscope.fleet/1\nhosts:\n  'n 1': {}\n",
            'fleet.yaml:3:10: "n 1" is not a host name; did you mean "n-1"?',
        ),
        (
            "schema: stethoscope.fleet/1\nhosts:\n  n1: {jump: -oProxyCommand=x}\n",
            "fleet.yaml:3:14: jump cannot begin with a dash or have blanks",
        ),
        ("schema: stethoscope.fleet/1\nhosts:\n  n1: {port: 70000}\n", "fleet.yaml:3:14: port: expected"),
        ("schema: stethoscope.fleet/1\nhosts: {n1: {\n", "fleet.yaml:3:1: "),
    ],
)
def test_errors_say_where(tmp_path: Path, text: str, message: str) -> None:
    assert error(tmp_path, text).startswith(message)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.yaml: No such file or directory"):
        read_fleet(tmp_path / "none.yaml")


@pytest.mark.parametrize(("text", "seconds"), [("2", 2.0), (2.5, 2.5), ("2s", 2.0), ("500ms", 0.5), ("1m", 60.0)])
def test_intervals(text: str | float, seconds: float) -> None:
    assert parse_interval(text) == seconds


@pytest.mark.parametrize("text", ["", "fast", "-1", "0", "11m", "1h", "nan", "1e9"])
def test_no_intervals(text: str) -> None:
    with pytest.raises(ValueError, match=r"interval|duration"):
        parse_interval(text)


def test_two_thousand_nodes_are_read_in_time_that_grows_with_them(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    groups = "".join(
        f'  rack-{rack:03}: {{nodes: "gpu-[{rack * 16 + 1:04}-{rack * 16 + 16:04}]", rack: rack-{rack:03}}}\n'
        for rack in range(125)
    )
    hosts = "".join(
        f"  gpu-{node:04}: {{address: 127.71.{node // 250}.{node % 250 + 1}, port: 2222}}\n" for node in range(1, 2001)
    )
    path.write_text(f"schema: stethoscope.fleet/1\ngroups:\n{groups}hosts:\n{hosts}")
    read_fleet(path)
    start = time.process_time()
    assert len(read_fleet(path).nodes) == 2000
    assert time.process_time() - start < 3, "it takes 0.05 s; looking at every node for every other takes a minute"


JOBS = """\
schema: stethoscope.fleet/1
groups: {all: {nodes: "gpu-[001-004]"}}
follow_jobs: 2
jobs:
- {id: 4242, nodes: "gpu-[001-002]", log: /shared/train-%j.out, name: pretrain, user: alice, samples_per_step: 1024}
- {id: tune, nodes: [gpu-004]}
"""


def test_jobs_and_where_their_logs_lie(tmp_path: Path) -> None:
    read = fleet(tmp_path, JOBS)
    first, second = read.jobs
    assert (first.id, first.nodes, first.stdout) == ("4242", ("gpu-001", "gpu-002"), "/shared/train-%j.out")
    assert (first.name, first.user, first.samples_per_step, first.source) == ("pretrain", "alice", 1024, "fleet file")
    assert (second.id, second.nodes, second.stdout) == ("tune", ("gpu-004",), "")
    assert read.follow_jobs == 2
    assert fleet(tmp_path, WHOLE).follow_jobs == 8


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("id: tune", "id: 4242", 'fleet.yaml:6:8: the job "4242" is there twice'),
        ("id: tune", "id: a/b", 'fleet.yaml:6:8: "a/b" cannot name a job: letters, digits and _ . + : @ -'),
        ("[gpu-004]", "[gpu-04]", 'fleet.yaml:6:21: job tune: no node of this file is called "gpu-04"'),
        ("/shared/train", "shared/train", 'fleet.yaml:5:43: "shared/train-%j.out" is not a whole path'),
        ("1024", "0", "fleet.yaml:5:112: samples_per_step"),
    ],
)
def test_what_is_said_about_broken_jobs(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert error(tmp_path, JOBS.replace(before, after, 1)).startswith(said)
