"""One node that somebody asks for: whom else it takes, and what is waited for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.errors import UsageError
from stethoscope.model import wire
from stethoscope.model.frame import Frame, LinkState
from stethoscope.session.check import ONE_APART_S, PARTS_S, TIMEOUT_S, check
from stethoscope.session.open import open_session
from stethoscope.session.resolve import with_peers
from stethoscope.specs.fleet import Fleet, FleetNode
from tests.session.test_check import FakeSource

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.session.check import CheckResult


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def look(source: FakeSource, name: str) -> CheckResult:
    session = open_session(source, source.clock, single_look=True)
    return asyncio.run(check(session, apart_s=ONE_APART_S, wanted=(name,)))


class Telling(FakeSource):
    """Nodes that send their parts with every full frame."""

    def _send(self, name: str) -> None:
        super()._send(name)
        for group in ("gpu", "identity", "tuning"):
            part = wire.Part(seq=0, mono=self.clock.monotonic(), wall=self.clock.wall(), name=group, s=30.0)
            self._sink.on_frame(Frame(name, self.clock.wall(), self.clock.monotonic(), wire.encode(part)))


def test_others_are_not_waited_for() -> None:
    source = Telling(
        FixedClock(), ["gpu-001", "gpu-002", "gpu-003"], {"gpu-002": LinkState.CONNECTING}, mute={"gpu-003"}
    )
    result = look(source, "gpu-001")
    assert ONE_APART_S <= result.seconds < TIMEOUT_S / 2
    assert "gpu-001" not in result.seen_once
    assert result.snapshot.node("gpu-001").parts.keys() == {"gpu", "identity", "tuning"}


def test_the_end_comes_at_once_when_all_are_done() -> None:
    result = look(Telling(FixedClock(), ["gpu-001", "gpu-002"]), "gpu-002")
    assert result.seconds < TIMEOUT_S / 2


def test_parts_that_never_come_are_not_waited_for_without_end() -> None:
    source = FakeSource(FixedClock(), ["gpu-001"])
    result = look(source, "gpu-001")
    assert ONE_APART_S + PARTS_S <= result.seconds < TIMEOUT_S / 2
    assert len(source.asked) == 1


def test_a_node_that_cannot_be_reached_ends_the_look() -> None:
    source = FakeSource(FixedClock(), ["gpu-001", "gpu-002"], {"gpu-001": LinkState.REFUSED})
    assert look(source, "gpu-001").seconds < TIMEOUT_S / 2


def test_the_most_alike_of_a_large_fleet_are_asked() -> None:
    pods = [FleetNode(f"gpu-{number:04}", pod=f"pod-{number // 64}", expected_gpus=8) for number in range(2000)]
    fleet = Fleet("prod-a", (FleetNode("login-1"), *pods))
    chosen = with_peers(fleet, "gpu-0700", most=32).nodes
    assert len(chosen) == 33
    assert {node.pod for node in chosen} == {"pod-10"}
    assert [node.name for node in chosen] == sorted(node.name for node in chosen)
    assert [node.name for node in with_peers(fleet, "login-1", most=1).nodes] == ["login-1", "gpu-0000"]


def test_a_node_that_is_not_in_the_fleet_is_named_before_anybody_is_asked() -> None:
    with pytest.raises(UsageError, match='no node is called "gpu-0O1"; did you mean "gpu-001"'):
        with_peers(Fleet("prod-a", (FleetNode("gpu-001"), FleetNode("gpu-002"))), "gpu-0O1")
