"""Where a fault can come in a fleet, and one that a seed chooses: for who trains people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim.board import DISKS, boards
from stethoscope.sim.kinds.registry import KINDS

if TYPE_CHECKING:
    from random import Random

    from stethoscope.specs.scenario import Scenario

HARMLESS_OF = 8
"""Of so many surprises one is harmless: who is trained must be able to say that nothing is wrong."""
_SURPRISES = ("historic_counters", "checkpoint_periodic")
"""Harmless kinds that look bad and need no special place."""


def places_of(kind: str, scenario: Scenario, *, busy: bool = False) -> list[str]:
    """Return every place at which a kind can be; with `busy` those alone that a job feels, and never the whole fleet
    where something smaller can be meant."""
    fleet = scenario.fleet
    names = fleet.node_names()
    at = sorted({node for job in scenario.jobs for node in job.nodes}) if busy else range(fleet.nodes)
    gpus, ports = range(fleet.gpus_per_node), range(fleet.ib_ports_per_node)
    forms = KINDS[kind].targets
    found: list[str] = []
    for form in sorted(forms - {"fleet"} if busy and len(forms) > 1 else forms):
        match form:
            case "node":
                found += [names[node] for node in at]
            case "cpu":
                found += [f"{names[node]}/cpu" for node in at]
            case "gpu":
                found += [f"{names[node]}/gpu/{gpu}" for node in at for gpu in gpus]
            case "ib":
                found += [f"{names[node]}/ib/mlx5_{port}" for node in at for port in ports]
            case "nvlink":
                links = range(boards()[fleet.gpu].links)
                found += [f"{names[node]}/nvlink/{gpu}/{link}" for node in at for gpu in gpus for link in links]
            case "disk":
                found += [f"{names[node]}/disk/{disk}" for node in at for disk in DISKS]
            case "rack":
                found += dict.fromkeys(f"rack/{fleet.rack(node)}" for node in at)
            case "pod":
                found += dict.fromkeys(f"pod/{fleet.pod(node)}" for node in at)
            case "leaf":
                found += dict.fromkeys(f"leaf/{fleet.leaf(node, port)}" for node in at for port in ports)
            case "job":
                found += [f"job/{job.id}" for job in scenario.jobs]
            case "rank":
                found += [
                    f"job/{job.id}/rank/{rank}"
                    for job in scenario.jobs
                    for rank in range(len(job.nodes) * fleet.gpus_per_node)
                ]
            case "storage":
                found.append("storage/shared")
            case "fleet":
                found.append("fleet")
    return found


def surprise(random: Random, scenario: Scenario, kind: str = "") -> tuple[str, str]:
    """Return a kind, `kind` when it is given, and a place for it; the same `random` gives the same."""
    if not kind:
        harmful = [name for name, one in KINDS.items() if one.root_cause != "healthy"]
        kind = random.choice(_SURPRISES if random.randrange(HARMLESS_OF) == 0 else harmful)
    return kind, random.choice(places_of(kind, scenario, busy=True) or places_of(kind, scenario))
