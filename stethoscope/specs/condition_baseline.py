"""Reads a comparison with what is expected: `{metric: gpu_sm_clock, baseline: {below: 20%}}`, or short
`{metric: ib_port_xmit_data, baseline: 20%}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.model.units import quantity
from stethoscope.specs.condition import Held, OfMetric

if TYPE_CHECKING:
    from stethoscope.model.metric import Metric
    from stethoscope.specs.condition import Condition
    from stethoscope.specs.condition_read import ConditionReader, Path

EXPECTED, SPEC, FLEET_FILE, STORED = "expected", "spec", "fleet_file", "stored"
SOURCES = (EXPECTED, SPEC, FLEET_FILE, STORED)
"""expected: what the fleet file says, else the device's own maximum, else what most comparable rows have; spec: the
device's own maximum alone; fleet_file: what the fleet file says alone; stored: a baseline that was measured and
kept."""
GRADES = {"warning": 10.0, "minor": 10.0, "critical": 20.0, "major": 20.0}
"""Words for how far away is too far, in percent."""
OWN_MAXIMUM = {
    "gpu_sm_clock": "gpu_sm_clock_max", "gpu_pcie_link_gen": "gpu_pcie_link_gen_max",
    "gpu_pcie_link_width": "gpu_pcie_link_width_max", "pcie_link_speed": "pcie_max_link_speed",
    "pcie_link_width": "pcie_max_link_width", "gpu_power_limit": "gpu_power_limit_default",
}  # fmt: skip
"""Metric -> the one that says what the device can do."""
SAID = ("gpu_count", "ib_port_rate")
"""What a fleet file can say of a node and of its ports."""
_KEYS = ("of", "below", "above", "grade", "deviation")


@dataclass(frozen=True, slots=True)
class Deviates(OfMetric):
    """A metric that is further from what is expected than it may be."""

    of: str
    below: float | None
    """Share of the expectation that may be missing: 0.2 for 20 %."""
    above: float | None

    def reads(self) -> tuple[str, ...]:
        """Return the metric, and the one that it is compared with."""
        other = OWN_MAXIMUM.get(self.metric) if self.of in (EXPECTED, SPEC) else None
        return (self.metric,) if other is None else (self.metric, other)


def read_baseline(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the comparison with what is expected that `data`, at `path`, describes."""
    reader.only(data, ("metric", "baseline", "window", "for"), path)
    metric = reader.metric(data, path)
    if metric.bitmask or (metric.words and metric.kind != "gauge"):
        raise reader.error(f"{metric.id} is a state: nothing lies a share below it", (*path, "metric"))
    said, here = data["baseline"], (*path, "baseline")
    if not isinstance(said, dict):
        said = {"deviation": said}
        reader.loaded.written[*here, "deviation"] = "baseline"
    reader.only(said, _KEYS, here)
    of = reader.word(said.get("of", EXPECTED), SOURCES, "of", (*here, "of"))
    if of == SPEC and metric.id not in OWN_MAXIMUM:
        known = ", ".join(OWN_MAXIMUM)
        raise reader.error(f"no device says what its {metric.id} can be: spec is known of {known}", (*here, "of"))
    if of == FLEET_FILE and metric.id not in SAID:
        raise reader.error(f"a fleet file says {' and '.join(SAID)}, not {metric.id}", (*here, "of"))
    below, above = (_share(reader, said[key], (*here, key)) if key in said else None for key in ("below", "above"))
    both = [key for key in ("grade", "deviation") if key in said]
    if len(both) + (below is not None or above is not None) != 1:
        raise reader.error("baseline needs below or above, or one grade: 10%, 20%, warning, critical", here)
    if both:
        below, above = _directed(metric, _share(reader, said[both[0]], (*here, both[0])))
    window_s = reader.window(data, metric, path)
    deviates = Deviates(metric.id, of, below, above)
    return Held(deviates, window_s) if window_s else deviates


def _directed(metric: Metric, share: float) -> tuple[float | None, float | None]:
    """Return how far below and above the expectation is too far: on the side that is worse, else on both."""
    return (None if metric.worse == "high" else share), (None if metric.worse == "low" else share)


def _share(reader: ConditionReader, value: Any, path: Path) -> float:
    if isinstance(value, str):
        percent = GRADES.get(value.strip().lower(), quantity(value.strip(), "%") if "%" in value else None)
    else:
        # 20 is twenty percent, 0.2 the same share.
        number = reader.number(value, str(path[-1]), path)
        percent = number * 100 if 0 < number < 1 else number
    if percent is None or not 0 < percent <= 1000:
        raise reader.error("a deviation is a share such as 20%, or a grade: warning (10%), critical (20%)", path)
    return percent / 100
