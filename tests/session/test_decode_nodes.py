"""Kernel logs of nodes: fetched over links, each node's trouble its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.clock import FixedClock
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.commands import Commands
from stethoscope.session.decode import decode
from stethoscope.session.decode_nodes import NodeLog, kernel_logs

if TYPE_CHECKING:
    from stethoscope.session.session import Session

GONE = "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus."


class Link:
    def __init__(self, state: str) -> None:
        self.state = type("State", (), {"value": state})
        self.detail = "it refuses connections" if state == "refused" else ""
        self.next_try = 5.0 if state == "refused" else None


class FakeSession:
    """A session on nodes of which some answer; what it runs is what the real one would."""

    def __init__(self, answers: dict[str, Answer | CommandError | None]) -> None:
        self.clock = FixedClock()
        self.source = self
        self.commands = Commands()
        self.nodes: tuple[Any, ...] = ()
        self._answers = answers
        self.asked: list[tuple[str, str]] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    def snapshot(self, *, latest: bool) -> FakeSession:
        return self

    def node(self, name: str) -> Any:
        is_there = self._answers[name] is not None
        return type("Node", (), {"frames": int(is_there), "link": Link("live" if is_there else "refused")})

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        self.asked.append((node, line))
        answer = self._answers[node]
        assert answer is not None
        if isinstance(answer, CommandError):
            raise answer
        return answer


def fetch(answers: dict[str, Answer | CommandError | None]) -> tuple[list[NodeLog], FakeSession]:
    session = FakeSession(answers)
    asked: Session = session  # type: ignore[assignment]
    return asyncio.run(kernel_logs(asked, list(answers), 1773450000.0)), session


def test_each_node_answers_for_itself() -> None:
    line = f"1773454031.104233 gpu-001 kernel: {GONE}\n".encode()
    logs, session = fetch(
        {
            "gpu-001": Answer(0, b"stethoscope-log: journal 1773000000\n" + line, ""),
            "gpu-002": Answer(66, b"", "stethoscope-log: the kernel log is closed to me: add the user to a group"),
            "gpu-003": CommandError("gpu-003: the connection was lost"),
            "gpu-004": None,
        }
    )
    assert logs == [
        NodeLog("gpu-001", line),
        NodeLog("gpu-002", trouble="the kernel log is closed to me: add the user to a group"),
        NodeLog("gpu-003", trouble="gpu-003: the connection was lost"),
        NodeLog("gpu-004", trouble="it refuses connections"),
    ]
    assert [node for node, _ in session.asked] == ["gpu-001", "gpu-002", "gpu-003"]
    assert "1773450000" in session.asked[0][1]


def test_they_are_judged_like_files() -> None:
    line = f"1773454031.104233 gpu-001 kernel: {GONE}\n".encode()
    logs = [NodeLog("gpu-001", line), NodeLog("gpu-002", trouble="refused"), NodeLog("gpu-003")]
    found = decode([], clock=FixedClock(), of_nodes=logs)
    assert (found.verdict.signature, found.kernels) == ("xid.79", 2)
    assert found.log.events[0].origin.host == "gpu-001"
    assert found.log.events[0].at == pytest.approx(1773454031.104233)
    assert [(file.name, file.trouble) for file in found.log.files] == [
        ("kernel log of gpu-001", ""), ("kernel log of gpu-002", "refused"), ("kernel log of gpu-003", ""),
    ]  # fmt: skip


def test_kernels_that_said_nothing_are_healthy() -> None:
    found = decode([], clock=FixedClock(), of_nodes=[NodeLog("gpu-001")])
    assert found.verdict.root_cause == "healthy"
