"""Fault kinds of GPUs that go on computing: too hot, too little power, a low clock, or slow without a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stethoscope.sim.kinds.kind import Kind, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.sim.effects import Effects

_CLOCKS_SET = 0x2
_SW_POWER_CAP = 0x4
_HW_SLOWDOWN = 0x8
_SW_THERMAL = 0x20
_HW_THERMAL = 0x40
_POWER_BRAKE = 0x80
_REFERENCE_W = 700.0
_REFERENCE_MHZ = 1710.0
"""Default limit and busy clock of the board (H100 SXM) that the defaults of parameters are for; others scale."""


class _SlowGpus(Kind):
    """A GPU, or all of a node, whose computing takes longer."""

    scope = "local"
    targets = frozenset({"node", "gpu"})

    def hit(self, effects: Effects) -> list[tuple[int, int]]:
        """Return (node, GPU) of each that is hit."""
        return [(int(node), int(gpu)) for node, gpu in np.argwhere(effects.layout.gpus_at(self.fault.where))]

    def scaled(self, name: str, ratio: float) -> float:
        """Return a parameter as given; its default times what this board is (`ratio`) of the reference board."""
        value = self.number(name)
        return value * ratio if self.fault.params[name] == self.params[name].default else value


class GpuThermalThrottle(Kind):
    """One GPU is too hot: its temperature climbs over the first half of `ramp`, its clock falls over the second."""

    name = "gpu_thermal_throttle"
    title = "One GPU is too hot and slows down"
    root_cause = "gpu_thermal"
    scope = "local"
    severity = "P1"
    targets = frozenset({"gpu"})
    params: ClassVar[Mapping[str, Param]] = {
        "temp_c": Param(88.0, "C", meaning="where it settles"),
        "mem_temp_c": Param(None, "C", meaning="temperature of its memory, when that is the hot part"),
        "clock_mhz": Param(1100.0, "MHz", meaning="mean clock once it is throttled"),
        "ramp": Param("2m", "s", meaning="first half: the temperature climbs; second half: the clock falls"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp where the memory heats with it, else the second half: the first follows from the heat
        capacity."""
        return (0.0 if self.given("mem_temp_c") else self.number("ramp") / 2, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Heat the GPU, and slow its rank by what its clock loses."""
        at = (self.node, self.index)
        ramp_s, temp_c = self.number("ramp"), self.number("temp_c")
        effects.heat_to_c[at] = np.fmax(effects.heat_to_c[at], temp_c)
        # Three time constants fit into the first half: 95 % of the way.
        effects.heat_tau_s[at] = min(effects.heat_tau_s[at], max(ramp_s / 6, 0.1))
        if self.given("mem_temp_c"):
            # Memory sits some 10 K above the GPU while that works.
            above_c = self.number("mem_temp_c") - temp_c - 10
            effects.add("gpu_mem_temp", above_c * progress(age_s, 0.0, ramp_s / 2), *at)
        if age_s < ramp_s / 2:
            return
        board = effects.layout.board
        asked_mhz = self.number("clock_mhz")
        if self.fault.params["clock_mhz"] == self.params["clock_mhz"].default:
            asked_mhz *= board.busy_mhz / _REFERENCE_MHZ
        lowest = min(asked_mhz, board.busy_mhz)
        clock = board.busy_mhz + (lowest - board.busy_mhz) * progress(age_s, ramp_s / 2, ramp_s)
        if clock < board.busy_mhz:
            effects.hold(clock, *at)
        effects.heat_swing_c[at] = 1.0
        hard = temp_c >= board.slowdown_c
        effects.reasons[at] |= _SW_THERMAL | (_HW_SLOWDOWN | _HW_THERMAL if hard else 0)


class GpuPowerBrake(_SlowGpus):
    """A signal of the power supplies or of the board cuts the clocks: cool and slow, from one step to the next."""

    name = "gpu_power_brake"
    title = "The power brake halves the clocks"
    root_cause = "gpu_power"
    severity = "P1"
    params: ClassVar[Mapping[str, Param]] = {
        "clock_factor": Param(0.5, "ratio", meaning="clock while the brake is on, as a share of the ordinary"),
        "duty": Param(1.0, "ratio", meaning="share of the time in which the brake is on"),
        "ramp": Param("5s", "s", meaning="time until it is that bad"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Hold the clocks down while the brake is on; the voltage stays, so the power falls less than the clock."""
        board, reached = effects.layout.board, progress(age_s, *self.ramp())
        factor = 1 + (self.number("clock_factor") - 1) * reached
        duty = self.number("duty")
        for at in self.hit(effects):
            effects.hold(board.busy_mhz * factor, *at, duty=duty)
            effects.power_factor[at] *= 1 + 0.1 * duty * reached
            effects.reasons[at] |= _HW_SLOWDOWN | _POWER_BRAKE


class GpuPowerCapLow(_SlowGpus):
    """Somebody left a low power limit: power at the limit while it computes, a lower clock, cooler than its peers."""

    name = "gpu_power_cap_low"
    title = "A low power limit was left set"
    root_cause = "gpu_power"
    severity = "P1"
    params: ClassVar[Mapping[str, Param]] = {
        "limit_w": Param(400.0, "W", meaning="limit that is set"),
        "clock_mhz": Param(None, "MHz", meaning="clock when busy; follows from the limit unless given"),
        "ramp": Param("5s", "s", meaning="time until the clocks are down"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Set the limit at once; the clock follows."""
        board = effects.layout.board
        limit_w = self.scaled("limit_w", board.power_w / _REFERENCE_W)
        clock = board.busy_mhz * min(limit_w / board.power_w, 1.0) ** 0.6
        if self.given("clock_mhz"):
            clock = min(self.number("clock_mhz"), board.busy_mhz)
        clock = board.busy_mhz + (clock - board.busy_mhz) * progress(age_s, *self.ramp())
        for at in self.hit(effects):
            effects.power_limit_w[at] = min(effects.power_limit_w[at], limit_w)
            if limit_w < board.power_w:
                effects.hold(clock, *at)
                effects.reasons[at] |= _SW_POWER_CAP


class GpuClockLockedLow(_SlowGpus):
    """Clocks were set low, for a benchmark maybe, and left so: a flat line below the clock of the peers."""

    name = "gpu_clock_locked_low"
    title = "Clocks were left set low"
    root_cause = "gpu_clock_config"
    severity = "P1"
    params: ClassVar[Mapping[str, Param]] = {
        "clock_mhz": Param(1200.0, "MHz", meaning="what they are set to"),
        "how": Param(
            "app_clocks", "text", ("app_clocks", "lgc"), meaning="application clocks, or locked: then no reason shows"
        ),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Hold the clocks, whatever the GPU does."""
        board = effects.layout.board
        clock = self.scaled("clock_mhz", board.busy_mhz / _REFERENCE_MHZ)
        for at in self.hit(effects):
            effects.lock_mhz[at] = min(effects.lock_mhz[at], clock)
            if clock < board.busy_mhz:
                effects.hold(clock, *at)
            if self.fault.params["how"] == "app_clocks":
                effects.app_mhz[at] = min(effects.app_mhz[at], clock)
                effects.reasons[at] |= _CLOCKS_SET


class GpuSilentSlow(_SlowGpus):
    """A GPU takes longer for the same work, and nothing that can be read says why."""

    name = "gpu_silent_slow"
    title = "A GPU computes slower for no reason that can be read"
    root_cause = "straggler_or_slow_rank"
    severity = "P2"
    params: ClassVar[Mapping[str, Param]] = {
        "compute_factor": Param(1.1, "ratio", meaning="time of its computing, as a share of the ordinary"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Slow the ranks; clocks, power and heat stay as they are."""
        for at in self.hit(effects):
            effects.compute[at] *= self.number("compute_factor")


KINDS = (GpuThermalThrottle, GpuPowerBrake, GpuPowerCapLow, GpuClockLockedLow, GpuSilentSlow)
