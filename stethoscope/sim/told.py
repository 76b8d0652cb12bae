"""Single values that no column carries: what a scenario sets, what a fault says, else what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.sim.board import DISKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.overrides import Override
    from stethoscope.sim.twin import Twin


class Spot(NamedTuple):
    """A node (by position), or on it a GPU, an NVLink of a GPU, a port or a disk (by number, -1 for none)."""

    node: int
    gpu: int = -1
    link: int = -1
    port: int = -1
    disk: int = -1


class Told:
    """What is said of single spots at the twin's moment."""

    def __init__(self, twin: Twin) -> None:
        """Sort the scenario's settings by metric."""
        self._twin = twin
        self._settings: dict[str, list[Override]] = {}
        for override in twin.overrides:
            if override.scope is None:
                self._settings.setdefault(override.event.metric, []).append(override)
        self._effects: Effects | None = None
        self._metrics: set[str] = set()

    def knows(self, *metrics: str) -> bool:
        """Tell whether anything is said of one of these metrics anywhere, so that looking up is not in vain."""
        if self._effects is not self._twin.effects:
            self._effects = self._twin.effects
            counted = (self._effects.shown, self._effects.grows, self._effects.extra, self._twin.grown)
            self._metrics = {*self._settings, *(metric for known in counted for _, metric in known)}
        return not self._metrics.isdisjoint(metrics)

    def state(self, metric: str, spot: Spot, modelled: float) -> float | None:
        """Return a gauge or state; None is Missing."""
        if not self.knows(metric):
            return modelled
        said = self._shown(metric, spot)
        value = modelled if said is None else said
        for override in self._of(metric, spot):
            if override.is_active(self._twin.t_s):
                if override.event.value is None:
                    return None
                value = override.moved(value, self._twin.t_s)
        return value

    def count(self, metric: str, spot: Spot, modelled: float) -> int:
        """Return the total of a counter, with what the rate that a scenario sets has added to it."""
        if not self.knows(metric):
            return int(modelled)
        said = self._shown(metric, spot)
        total = modelled if said is None else said
        key = (self._place(spot), metric)
        total += self._twin.effects.extra.get(key, 0.0) + self._twin.grown_at(key)
        return int(total + sum(override.grown(self._twin.t_s) for override in self._of(metric, spot)))

    def word(self, metric: str, node: int, modelled: str) -> str:
        """Return a version or a setting of a node."""
        said = self._twin.effects.shown.get((self._twin.layout.nodes[node], metric))
        modelled = said if isinstance(said, str) else modelled
        for override in self._of(metric, Spot(node)):
            if isinstance(override.event.value, str) and override.is_active(self._twin.t_s):
                modelled = override.event.value
        return modelled

    def _shown(self, metric: str, spot: Spot) -> float | None:
        shown = self._twin.effects.shown
        value = shown.get((self._place(spot), metric)) if shown else None
        return float(value) if isinstance(value, float | int) else None

    def _place(self, spot: Spot) -> str:
        name = self._twin.layout.nodes[spot.node]
        if spot.link >= 0:
            return f"{name}/nvlink/{spot.gpu}/{spot.link}"
        if spot.gpu >= 0:
            return f"{name}/gpu/{spot.gpu}"
        if spot.port >= 0:
            return f"{name}/ib/mlx5_{spot.port}"
        return name if spot.disk < 0 else f"{name}/disk/{DISKS[spot.disk]}"

    def _of(self, metric: str, spot: Spot) -> Iterator[Override]:
        for override in self._settings.get(metric, ()):
            where = override.event.where
            if where.form in ("gpu", "rank", "nvlink"):
                gpus = self._twin.layout.gpu_shape[1]
                hit = where.node == spot.node and where.index % gpus == spot.gpu
                hit = hit and (where.form != "nvlink" or where.link == spot.link)
            elif where.form == "ib":
                hit = where.node == spot.node and where.index == spot.port
            elif where.form == "disk":
                hit = where.node == spot.node and spot.disk >= 0 and where.name == DISKS[spot.disk]
            else:
                hit = where.form not in ("leaf", "storage") and bool(override.mask[spot.node])
            if hit:
                yield override
