"""What is made of the first lines of a fleet's nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from stethoscope.collect.commands import Commands
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.session.fleet_test import Advice, FleetTest, try_fleet
from stethoscope.specs.fleet import FleetNode
from stethoscope.ui.present.fleet_tried import tried_lines

if TYPE_CHECKING:
    from stethoscope.collect.command import SshRunner
    from stethoscope.collect.source import Sink

WALL = 1_773_454_447.0
PORT = wire.PortIdentity("mlx5_0", layer="InfiniBand")
GPUS = [wire.GpuIdentity(index) for index in range(8)]


class Played:
    """A source whose nodes say what they were given."""

    fleet = "lab"
    read_only = False

    def __init__(self, said: dict[str, list[Link | wire.Message]], **settings: object) -> None:
        self.said = said
        self.commands = Commands()
        self.nodes = tuple(FleetNode(name, user="ops", **settings) for name in said)  # type: ignore[arg-type]

    async def run(self, sink: Sink) -> None:
        for name, things in self.said.items():
            for thing in things:
                if isinstance(thing, Link):
                    sink.on_link(name, thing)
                else:
                    sink.on_frame(Frame(name, WALL, 1.0, wire.encode(thing)))
        await asyncio.Event().wait()


def lines(python: str = "3.9.18", off_s: float = 0.0, **changes: object) -> list[Link | wire.Message]:
    """Return what a node says that is well but for `changes`."""
    full: dict[str, object] = {"gpus": GPUS, "ports": [PORT], "port": {"ib_port_xmit_data": [1]}, **changes}
    return [
        Link(LinkState.CONNECTING, WALL),
        Link(LinkState.STARTING, WALL),
        wire.Hello(seq=0, mono=1.0, wall=WALL, python=python),
        Link(LinkState.LIVE, WALL),
        wire.Full(seq=1, mono=1.0, wall=WALL + off_s, **full),  # type: ignore[arg-type]
    ]


def tried(said: dict[str, list[Link | wire.Message]], limit_s: float = 5.0, **settings: object) -> FleetTest:
    def runner(_node: FleetNode) -> SshRunner:
        raise AssertionError("no sudo was allowed")

    return asyncio.run(try_fleet(Played(said, **settings), runner, limit_s=limit_s))  # type: ignore[arg-type]


def test_a_fleet_in_which_all_is_fine() -> None:
    result = tried({"gpu-001": lines(), "gpu-002": lines()}, expected_gpus=8)
    assert [node.is_fine for node in result.nodes] == [True, True]
    assert result.advice == []
    assert tried_lines(result) == [
        "lab: 2 nodes, 2 fine",
        "  gpu-[001-002]  Python 3.9.18, driver ok, kernel log ok, InfiniBand ok, clock ok",
    ]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            lines(notes={"kernel_log": "permission"}),
            Advice("kernel log unreadable", "gpu-[003-004]", "add ops to group systemd-journal (or adm)"),
        ),
        (
            lines(notes={"nvml": "hung for 9 s"}),
            Advice(
                "GPU driver: hung for 9 s", "gpu-[003-004]", "the driver does not answer: drain the node and reset it"
            ),
        ),
        (
            lines(gpus=GPUS[:7]),
            Advice("GPU driver: 7 of 8 GPUs", "gpu-[003-004]", "look at lspci and dmesg for what is missing"),
        ),
        (
            lines(port={"ib_port_xmit_data": ["permission"]}),
            Advice(
                "InfiniBand counters: permission",
                "gpu-[003-004]",
                "look at /sys/class/infiniband/*/ports/*/counters",
            ),
        ),
        (lines(off_s=3600.0), Advice("clock off by more than 2 s", "gpu-[003-004]", "look at chronyc tracking")),
        (
            [Link(LinkState.CLOSED, WALL, "the probe ended with exit status 1", WALL + 60)],
            Advice("no values (closed)", "gpu-[003-004]", "the probe ended with exit status 1"),
        ),
        (
            [Link(LinkState.AUTH_REFUSED, WALL, "jump host bastion: user ops: no key was offered", WALL + 600)],
            Advice("not reached (auth refused)", "gpu-[003-004]", "jump host bastion: user ops: no key was offered"),
        ),
    ],
)
def test_one_line_of_advice_for_each_thing(said: list[Link | wire.Message], advice: Advice) -> None:
    result = tried({"gpu-001": lines(), "gpu-003": said, "gpu-004": said}, expected_gpus=8)
    assert [node.is_fine for node in result.nodes] == [True, False, False]
    assert result.advice == [advice]


def test_the_driver_has_its_time_and_a_node_without_python_is_told() -> None:
    slow = lines(notes={"nvml": "starting"}, gpus=[])
    live = wire.Delta(seq=2, mono=3.0, wall=WALL, notes={})
    shell = [*lines(python="")]
    shell[3] = Link(LinkState.LIVE, WALL, "no Python, using sh")
    result = tried({"gpu-001": [*slow, live], "gpu-002": shell})
    assert [(node.driver, node.interpreter) for node in result.nodes] == [("ok", "3.9.18"), ("ok", "sh")]
    assert result.advice == [Advice("no Python", "gpu-002", "the probe in sh shows less: install Python 3.6 or newer")]


def test_who_does_not_answer_in_time_is_told() -> None:
    result = tried({"gpu-001": lines(), "gpu-002": [Link(LinkState.CONNECTING, WALL)]}, limit_s=0.3)
    assert result.advice == [Advice("not reached (connecting)", "gpu-002", "there was no time for it: --timeout")]


def test_nothing_that_a_node_says_reaches_the_terminal_as_it_came() -> None:
    evil = "\x1b]52;c;aGVsbG8=\x07\x1b[31m\u202e3.9\x00"
    hostile = lines(python=evil, notes={"kernel_log": evil, "nvml": evil})
    result = tried({"gpu-001": hostile})
    shown = tried_lines(result)
    assert all(line.isprintable() for line in shown)
    assert shown[1] == "  gpu-001  Python 3.9, driver 3.9, kernel log 3.9, InfiniBand ok, clock ok"
