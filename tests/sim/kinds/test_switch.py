"""The kinds of leaf switches show what the catalogue says: where, in which direction, how much."""

from __future__ import annotations

import pytest

from stethoscope.sim.files import net
from stethoscope.sim.readings import Readings
from tests.sim.looks import printed, rate, step_s, total, view, waiting
from tests.sim.worlds import twin

LEAF, PORT = "leaf/leaf-01-5", 5
BEHIND, ELSEWHERE = (0, 1, 2, 3), (4, 5)
"""Nodes of the leaf's pod, and those of the other one."""


# ---------------------------------------------------------------- leaf_congestion


def test_a_congested_leaf_lets_its_ports_wait_and_damages_nothing() -> None:
    world = twin(f"at: 10s, fault: leaf_congestion, where: {LEAF}")
    assert waiting(twin(), 0, PORT) == pytest.approx(0.01, abs=0.002)
    world.advance_to(25)
    # Half of the ramp.
    assert 1 < (step_s(world) or 0) < 1 + 0.25 * (1 / 0.55 - 1)
    world.advance_to(60)
    assert step_s(world) == pytest.approx(1 + 0.25 * (1 / 0.55 - 1))
    shares = [waiting(world, node, PORT) for node in BEHIND]
    assert max(shares) == pytest.approx(0.3, abs=0.01)
    assert all(0.1 <= share <= 0.31 for share in shares)
    assert waiting(world, 4, PORT) < 0.02
    assert waiting(world, 0, 4) < 0.02
    for metric in ("ib_symbol_error", "ib_port_rcv_errors", "ib_port_xmit_discards", "ib_link_downed"):
        assert [total(world, metric, node, PORT) for node in range(6)] == [0] * 6
    assert set(Readings(world).port["ib_port_state"][0]) == {4}
    shown = world.shown()
    assert (shown[LEAF, "leaf_xmit_wait"], shown["job/7", "job_allreduce_p99"]) == (pytest.approx(0.3), 15.7)
    assert 60 <= float(shown[LEAF, "leaf_queue_depth"] or 0) <= 90


def test_the_published_case_120_to_180_ms() -> None:
    # Half of a step of 120 ms computes, 0.35 communicates: 0.12 * (0.65 + 0.35 / 0.41) = 0.1804 s.
    world = twin(
        f"at: 10s, fault: leaf_congestion, where: {LEAF}, params: {{comm_factor: 0.41, xmit_wait_ratio: 0.28}}",
        step_time_s=0.12,
        shares="{compute: 0.5, comm: 0.35, data: 0.05, other: 0.1}",
    )
    world.advance_to(60)
    assert step_s(world) == pytest.approx(0.18, rel=0.01)


def test_a_storm_of_pauses_is_one_of_ethernet() -> None:
    world = twin(f"at: 10s, fault: leaf_congestion, where: {LEAF}, params: {{mode: pfc}}")
    world.advance_to(60)
    name = "enp192s0np0"
    assert view(world, 0).netdev(PORT) == name

    def paused_us(node: int) -> int:
        text = net.files(view(world, node))[f"/sys/class/infiniband/mlx5_{PORT}/device/net/{name}"]
        return int(text.split("rx_prio3_pause_duration ")[1].split()[0])

    before = [paused_us(node) for node in range(6)]
    world.advance_to(120)
    shares = [(paused_us(node) - past) / 60e6 for node, past in enumerate(before)]
    assert max(shares) == pytest.approx(0.3, abs=0.01)
    assert all(share > 0.05 for share in shares[:4])
    assert shares[4:] == [0, 0]
    assert Readings(world).port["roce_np_cnp_sent"][0][PORT] == 0
    assert Readings(twin()).port["roce_np_cnp_sent"][0][PORT] == "unsupported"


# ---------------------------------------------------------------- leaf_down


def test_a_dead_leaf_takes_the_same_port_of_every_node_of_its_pod_at_once() -> None:
    world = twin(f"at: 10s, fault: leaf_down, where: {LEAF}", nodes=8, job_nodes="gpu-[001-003,005-006]")
    said = world.advance_to(20)
    states = Readings(world).port["ib_port_state"]
    assert [states[node][PORT] for node in range(8)] == [1, 1, 1, 1, 4, 4, 4, 4]
    assert {state for node in range(8) for port, state in enumerate(states[node]) if port != PORT} == {4}
    assert [total(world, "ib_link_downed", node, PORT) for node in range(8)] == [1, 1, 1, 1, 0, 0, 0, 0]
    assert step_s(world) is None
    kernel = [(line.at_s, line.node, line.text) for line in said if line.sink == "kernel"]
    # The idle node behind the leaf says it too.
    assert kernel == [
        (10.0, f"gpu-00{node}", "mlx5_core 0000:c0:00.0 mlx5_5: Port: 1 Link DOWN") for node in (1, 2, 3, 4)
    ]
    errors = [line for line in said if "mlx5_5:1 Got async event : port error" in line.text]
    assert [line.rank for line in errors] == list(range(24))
    assert all(line.text.startswith(f"{line.node}:") for line in errors)
    assert world.shown()[LEAF, "leaf_up"] == 0
    world.advance_to(75)
    assert world.job_states()[0].state == "FAILED"


def test_a_leaf_that_starts_again_brings_its_ports_back() -> None:
    world = twin(f"at: 10s, fault: leaf_down, where: {LEAF}, params: {{back_after: 2m}}")
    said = world.advance_to(140)
    assert {Readings(world).port["ib_port_state"][node][PORT] for node in range(6)} == {4}
    assert sum(line.text.endswith("Link ACTIVE") for line in said) == 4
    assert world.job_states()[0].state == "FAILED"
    assert rate(world, "ib_link_downed", 0, PORT) == 0


# ---------------------------------------------------------------- what the tools print


def _waits(text: str) -> dict[str, float]:
    rows = [line.split() for line in text.splitlines() if line.startswith("port ")]
    return {row[1]: float(row[3].removesuffix("/s")) / 156_250_000 for row in rows}


def test_one_port_of_a_starved_leaf_waits_and_is_scheduled_otherwise() -> None:
    world = twin(f"at: 10s, fault: leaf_congestion, where: {LEAF}")
    healthy = _waits(printed(world, 0, "switch_counters", "mlx5_5", "1"))
    assert max(healthy.values()) < 0.03
    assert len(healthy) == 8
    world.advance_to(60)
    text = printed(world, 0, "switch_counters", "mlx5_5", "1")
    assert "leaf-01-5" in text
    assert sorted(_waits(text).values())[-1] == pytest.approx(0.3, abs=0.01)
    assert sorted(_waits(text).values())[-2] < 0.1
    arbitration = [line for line in printed(world, 1, "switch_qos", "mlx5_5", "1").splitlines() if "vl-arb" in line]
    assert sum("strict_priority" in line for line in arbitration) == 1
    assert "strict_priority" not in printed(world, 4, "switch_qos", "mlx5_5", "1")


def test_the_leaf_waits_for_the_one_adapter_that_does_not_keep_up() -> None:
    world = twin("at: 10s, fault: nic_pcie_downgraded, where: gpu-003/ib/mlx5_5")
    world.advance_to(60)
    waits = _waits(printed(world, 0, "switch_counters", "mlx5_5", "1"))
    assert max(waits, key=lambda port: waits[port]) == "3"
    assert waits["3"] > 0.2
    assert "strict" not in printed(world, 0, "switch_qos", "mlx5_5", "1")


def test_a_dead_leaf_does_not_answer() -> None:
    world = twin(f"at: 10s, fault: leaf_down, where: {LEAF}")
    world.advance_to(20)
    assert "port 1" not in printed(world, 0, "switch_counters", "mlx5_5", "1")
    assert "port 1 " in printed(world, 0, "switch_counters", "mlx5_4", "1")
