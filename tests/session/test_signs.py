"""What tools print on a healthy fleet shows no fault."""

from __future__ import annotations

from stethoscope.errors import StethoscopeError
from stethoscope.session.played import Played
from stethoscope.sim.scenarios import vocabulary
from stethoscope.specs.load import loads
from stethoscope.specs.playbook import load_playbooks
from stethoscope.specs.scenario_read import read_scenario

HEALTHY = """
schema: stethoscope.scenario/1
id: healthy
title: Nothing wrong, and old counts
seed: 7
duration: 5m
fleet: {nodes: 4, gpus_per_node: 8, gpu: H100-SXM5-80GB, nodes_per_rack: 4, nodes_per_pod: 4}
jobs:
- id: "4242"
  nodes: gpu-[001-004]
  step_time_s: 1.0
  shares: {compute: 0.6, comm: 0.3, data: 0.05, other: 0.05}
  samples_per_step: 256
background:
- {at: 0s, fault: historic_counters, where: gpu-002/ib/mlx5_3, params: {symbol_errors: 65535, link_downed: 12}}
- {at: 0s, fault: historic_counters, where: gpu-002/gpu/3, params: {sbe: 91}}
"""
PLACES = (
    "gpu-002", "gpu-002/ib/mlx5_3", "gpu-002/gpu/3", "gpu-002/disk/nvme1n1", "leaf/leaf-01-3", "job/4242",
    "storage/shared",
)  # fmt: skip


def test_no_sign_of_a_fault_is_in_what_healthy_nodes_print() -> None:
    books = load_playbooks()
    played = Played(read_scenario(loads(HEALTHY, "healthy.yaml"), vocabulary()))
    played.advance(60)
    asked = 0
    for probe in sorted({probe for sign in books.signs for probe in sign.probe}):
        for place in PLACES:
            try:
                answers = played.measure(place, probe)
            except StethoscopeError:
                continue
            for answer in answers:
                asked += bool(answer.text)
                for sign in books.signs:
                    found = books.patterns[sign.id].search(answer.text) if probe in sign.probe else None
                    # What a tool tells of with its date is left alone when it is old.
                    assert not (found and sign.shows) or "date" in found.groupdict(), (sign.id, place, found[0])
    assert asked > 20
