"""Fault kinds of power supplies, fans and cooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stethoscope.sim.board import INLET_C, SUPPLIES
from stethoscope.sim.kinds.kind import Kind, Line, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects

_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _HW_POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
_BRAKED = 0.5
"""What a power brake leaves of the clock."""
_STEP_S = 10.0
"""How often what changes over minutes is worked out anew."""


class PsuFailed(Kind):
    """One power supply or its feed fails; with too few left the board brakes its GPUs."""

    name = "psu_failed"
    title = "A power supply fails"
    root_cause = "psu_fault"
    scope = "local"
    severity = "P1"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "supplies_ok": Param(5.0, "count", meaning="of 6"),
        "brake": Param(False, "bool", meaning="too few are left, and the board slows its GPUs"),
    }
    lines = (
        Line("sel", 0.0, "node", " {n} | {ts_sel} | Power Supply PSU3_Status | Failure detected | Asserted"),
        Line("sel", 0.0, "node", " {n} | {ts_sel} | Power Supply PSU3_Status | Power Supply AC lost | Asserted"),
    )

    def apply(self, effects: Effects, age_s: float) -> None:
        """Lose the supplies, and brake."""
        where = (self.fault.where.text, "bmc_psu_status")
        before = effects.shown.get(where)
        left = before if isinstance(before, float) else float(SUPPLIES)
        effects.shown[where] = max(left - (SUPPLIES - self.number("supplies_ok")), 0.0)
        if self.fault.params["brake"]:
            effects.reasons[self.node] |= _HW_SLOWDOWN | _HW_POWER_BRAKE
            for gpu in range(effects.layout.gpu_shape[1]):
                effects.hold(_BRAKED * effects.layout.board.busy_mhz, self.node, gpu)


class FanFailed(Kind):
    """A fan stops or turns too slowly; the GPUs behind it get warm over minutes."""

    name = "fan_failed"
    title = "A fan stops"
    root_cause = "cooling_fault"
    scope = "local"
    severity = "P1"
    targets = frozenset({"node"})
    params: ClassVar[Mapping[str, Param]] = {
        "rpm": Param(0.0, "rpm", meaning="at which it still turns"),
        "temp_rise_c": Param(6.0, "C", meaning="how much warmer the GPUs behind it get", signed=True),
        "gpus": Param((), "list", meaning="numbers of the GPUs behind it; none: all get a little warmer"),
        "throttle": Param(False, "bool", meaning="whether they get so hot that they slow down"),
        "clock_mhz": Param(1300.0, "MHz", meaning="their clock then"),
        "ramp": Param("8m", "s", meaning="until the heat is there"),
    }
    lines = (
        Line(
            "sel", 0.0, "node",
            " {n} | {ts_sel} | Fan FAN7_TACH1 | Lower Critical going low  | Asserted | "
            "Reading {rpm} < Threshold 1500 RPM",
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return moments while the heat comes."""
        return (*np.arange(0.0, self.number("ramp"), _STEP_S).tolist(), self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Stop the fan, warm the GPUs, and slow those down that get too hot."""
        effects.shown[(self.fault.where.text, "bmc_fan_rpm")] = self.number("rpm")
        listed = self.fault.params["gpus"]
        count = effects.layout.gpu_shape[1]
        behind = [int(gpu) for gpu in listed if gpu < count] if isinstance(listed, tuple) else []
        gpus = behind or list(range(count))
        reached = progress(age_s, 0.0, self.number("ramp"))
        effects.warmer_c[self.node, gpus] += self.number("temp_rise_c") * reached
        if self.fault.params["throttle"]:
            _throttle(effects, self.node, gpus, self.number("clock_mhz"), reached)


class RackCoolingFault(Kind):
    """The air that a rack draws in gets hot, and its hottest GPUs slow down."""

    name = "rack_cooling_fault"
    title = "The cooling of a rack fails"
    root_cause = "cooling_fault"
    scope = "local"
    severity = "P1"
    core = False
    targets = frozenset({"rack"})
    params: ClassVar[Mapping[str, Param]] = {
        "inlet_c": Param(38.0, "C", meaning="air at the inlets; 24 is healthy", signed=True),
        "ramp": Param("5m", "s", meaning="until it is that hot"),
        "throttle": Param(True, "bool", meaning="whether GPUs get so hot that they slow down"),
    }

    def changes(self) -> Iterable[float]:
        """Return moments while the heat comes."""
        return (*np.arange(0.0, self.number("ramp"), _STEP_S).tolist(), self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Warm the air of every node of the rack, and slow down what sits last in it."""
        reached = progress(age_s, 0.0, self.number("ramp"))
        count = effects.layout.gpu_shape[1]
        last = sorted({count // 2 - 1, count - 1} - {-1})
        for node in np.flatnonzero(effects.layout.nodes_at(self.fault.where)).tolist():
            effects.inlet_rise_c[node] += (self.number("inlet_c") - INLET_C) * reached
            if self.fault.params["throttle"]:
                _throttle(effects, node, last, 1300.0, reached)


def _throttle(effects: Effects, node: int, gpus: list[int], clock_mhz: float, reached: float) -> None:
    """Let GPUs go to their limit while heat comes (`reached` 0..1) and slow down over its second half."""
    board = effects.layout.board
    limit_c = board.slowdown_c - 1.5
    effects.heat_to_c[node, gpus] = np.fmax(effects.heat_to_c[node, gpus], limit_c * reached)
    effects.heat_tau_s[node, gpus] = np.minimum(effects.heat_tau_s[node, gpus], 75.0)
    if reached < 0.5:
        return
    lowest = min(clock_mhz, board.busy_mhz)
    clock = board.busy_mhz + (lowest - board.busy_mhz) * progress(reached, 0.5, 1.0)
    effects.reasons[node, gpus] |= _SW_THERMAL
    effects.heat_swing_c[node, gpus] = 1.0
    for gpu in gpus:
        effects.hold(clock, node, gpu)


KINDS = (PsuFailed, FanFailed, RackCoolingFault)
