"""A full frame and the deltas after it always fold to what the next full frame says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from types import ModuleType

CELLS = st.one_of(st.integers(0, 3), st.sampled_from(["lost", "hung", "unsupported"]), st.just(1.5))
NAMES = st.sampled_from(["a", "b", "c"])


@st.composite
def states(draw: st.DrawFn) -> dict[str, Any]:
    """Return one reading: inventories of up to three, and columns as long as them."""
    gpus, ports = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    column = {key: st.lists(CELLS, min_size=count, max_size=count) for key, count in (("gpu", gpus), ("port", ports))}
    return {
        "gpus": [{"index": index} for index in range(gpus)],
        "ports": [{"device": f"mlx5_{index}", "port": 1} for index in range(ports)],
        "node": draw(st.fixed_dictionaries({"x": CELLS, "y": CELLS})),
        "gpu": draw(st.fixed_dictionaries({"u": column["gpu"], "v": column["gpu"]})) if gpus else {},
        "port": draw(st.fixed_dictionaries({"w": column["port"]})) if ports else {},
        "notes": draw(st.dictionaries(NAMES, NAMES, max_size=2)),
    }


def send(probe: Any, state: dict[str, Any], *, now: float, full: bool = False) -> None:
    """Let the probe send a reading."""
    probe.gpus.identities, probe.gpus.values = state["gpus"], state["gpu"]
    probe.gpus.node, probe.gpus.note, probe.gpus.stuck = {}, "", 0
    probe.host_values, probe.port_state, probe.log.notes = (
        state["node"],
        (state["ports"], state["port"]),
        state["notes"],
    )
    probe.send_frame(now, now, full)


def fold(known: dict[str, Any], kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Apply one line as the wire's rules say."""
    scopes = ("node", "gpu", "port")
    if kind == "full":
        return {"gpus": [], "ports": [], "node": {}, "gpu": {}, "port": {}, "notes": {}, **fields}
    known = {**known, **{scope: dict(known[scope]) for scope in scopes}}
    known["node"].update(fields.get("node", {}))
    for scope in ("gpu", "port"):
        for metric, values in fields.get(scope, {}).items():
            before = known[scope].get(metric, values)
            known[scope][metric] = [old if new is None else new for old, new in zip(before, values, strict=True)]
    known["notes"] = fields.get("notes", known["notes"])
    return known


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(readings=st.lists(states(), min_size=1, max_size=8))
def test_folding_gives_every_reading(stream: ModuleType, readings: list[dict[str, Any]]) -> None:
    probe = stream.Probe("n", 2.0, b"")
    lines: list[tuple[str, dict[str, Any]]] = []
    probe.put = lambda kind, now, wall, fields: lines.append((kind, fields))
    known: dict[str, Any] = {}
    for second, reading in enumerate(readings):
        send(probe, reading, now=float(second))
        known = fold(known, *lines[-1])
        assert known == reading
    assert lines[0][0] == "full"
    send(probe, readings[-1], now=float(len(readings)), full=True)
    assert lines[-1][0] == "full"
    assert fold({}, *lines[-1]) == known


def test_a_full_frame_comes_every_minute_and_nothing_twice(stream: ModuleType) -> None:
    probe = stream.Probe("n", 2.0, b"")
    lines: list[tuple[str, dict[str, Any]]] = []
    probe.put = lambda kind, now, wall, fields: lines.append((kind, fields))
    reading = {"gpus": [], "ports": [], "node": {"x": 1}, "gpu": {}, "port": {}, "notes": {}}
    for second in range(0, 122, 2):
        send(probe, reading, now=float(second))
    assert [position * 2 for position, (kind, _) in enumerate(lines) if kind == "full"] == [0, 60, 120]
    assert all(fields == {} for kind, fields in lines if kind == "delta")


@pytest.mark.parametrize(
    ("value", "tick_s"),
    [
        (1, 1.0),
        (2.5, 2.5),
        (0.01, 0.2),
        (0, 2.0),
        (3601, 2.0),
        (True, 2.0),
        ("3", 2.0),
        (None, 2.0),
        (float("nan"), 2.0),
        (10**400, 2.0),
    ],
)
def test_ticks_of_control_lines(stream: ModuleType, value: object, tick_s: float) -> None:
    probe = stream.Probe("n", 2.0, b"")
    probe.commands.append({"do": "tick", "s": value})
    assert probe.obey() == (tick_s != 2.0)
    assert probe.tick_s == tick_s
