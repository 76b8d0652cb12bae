"""The kinds of addresses and reachability show what the catalogue says: where, in which direction, how much."""

from __future__ import annotations

import pytest

from stethoscope.parse.tools import reach
from stethoscope.sim import tools
from stethoscope.sim.files import net
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import identity
from tests.sim.looks import printed, rate, step_s, total, view, waiting
from tests.sim.worlds import mean, twin

HERE, NODE, PORT = "gpu-002/ib/mlx5_3", 1, 3


# ---------------------------------------------------------------- roce_gid_missing


def test_without_its_address_a_port_is_perfect_and_the_next_start_of_the_job_fails() -> None:
    world = twin(f"at: 10s, fault: roce_gid_missing, where: {HERE}")
    said = world.advance_to(40)
    assert {port.layer for port in identity(world, NODE).ports} == {"Ethernet"}
    assert world.shown()[HERE, "ib_gid_present"] == 0
    assert Readings(world).port["ib_port_state"][NODE][PORT] == 4
    assert total(world, "ib_hw_req_cqe_error", NODE, PORT) == 0
    failed = [line for line in said if "ibv_modify_qp failed with error Network is unreachable errno 101" in line.text]
    assert [line.rank for line in failed] == list(range(8, 16))
    closed = {line.node for line in said if "Connection closed by remote peer gpu-002.cluster" in line.text}
    assert closed == {"gpu-001", "gpu-003", "gpu-004", "gpu-005"}
    assert world.job_states()[0].state == "FAILED"
    assert world.job_states()[0].steps <= 10


def test_queue_pairs_that_break_while_the_job_runs_are_counted() -> None:
    world = twin(f"at: 10s, fault: roce_gid_missing, where: {HERE}, params: {{when: running}}")
    world.advance_to(40)
    assert total(world, "ib_hw_req_cqe_error", NODE, PORT) > 1000
    assert total(world, "ib_hw_req_cqe_error", 0, PORT) == 0
    assert world.job_states()[0].state == "FAILED"


# ---------------------------------------------------------------- mtu_mismatch


@pytest.mark.parametrize(("place", "nodes"), [(HERE, {1}), ("leaf/leaf-01-3", {0, 1, 2, 3})])
def test_a_smaller_mtu_slows_large_messages_and_nothing_else(place: str, nodes: set[int]) -> None:
    world = twin(f"at: 10s, fault: mtu_mismatch, where: {place}")
    world.advance_to(60)
    assert step_s(world) == pytest.approx(1 + 0.25 * (1 / 0.4 - 1))
    for node in range(6):
        files = net.files(view(world, node))
        expected = "2200\n" if node in nodes else "4200\n"
        assert files["/sys/class/net/enp94s0np0/mtu"] == expected
        assert files["/sys/class/net/enp24s0np0/mtu"] == "4200\n"
    assert rate(world, "ib_symbol_error", NODE, PORT) == 0
    assert waiting(world, NODE, PORT) < 0.02
    assert Readings(world).port["ib_port_rate"][NODE][PORT] == 400


# ---------------------------------------------------------------- nccl_wrong_interface


def test_over_the_management_network_the_fabric_is_silent_and_the_job_crawls() -> None:
    world = twin("at: 10s, fault: nccl_wrong_interface, where: job/7")
    said = world.advance_to(120)
    assert step_s(world) == pytest.approx(1 + 0.25 * (1 / 0.1 - 1))
    assert len([line for line in said if line.text.endswith("NCCL INFO Using network Socket")]) == 40
    assert "gpu-003:" in next(
        line.text for line in said if line.rank == 16 and "NET/Socket : Using [0]eno1:10.0.0.3<0>" in line.text
    )

    def sent(node: int) -> int:
        row = next(line for line in net.files(view(world, node))["/proc/net/dev"].splitlines() if "eno1:" in line)
        return int(row.split()[9])

    def again(node: int) -> int:
        return int(net.files(view(world, node))["/proc/net/snmp"].split("\n")[1].split()[12])

    before = [(sent(node), again(node)) for node in range(6)]
    assert rate(world, "ib_port_xmit_data", 0, 0) == 0
    grown = [
        ((sent(node) - bytes_) * 8e-9 / 60, (again(node) - lost) / 60) for node, (bytes_, lost) in enumerate(before)
    ]
    for gbps, lost in grown[:5]:
        assert gbps == pytest.approx(9.4, abs=0.2)
        assert 20 <= lost <= 201
    assert grown[5][0] == pytest.approx(0.02, abs=0.005)
    assert grown[5][1] == pytest.approx(0.1, abs=0.1)
    readings = Readings(world)
    assert 6 <= float(readings.node["cpu_softirq"][0] or 0) <= 15
    assert float(readings.node["cpu_softirq"][5] or 0) < 0.2
    assert mean(readings, "gpu_util", 0) >= 97
    # 19 % of the step computes at 640 W; the rest of it waits at 160 W.
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(262, abs=20)
    assert set(readings.port["ib_port_state"][0]) == {4}
    assert net.files(view(world, 0))["/sys/class/net/eno1/speed"] == "10000\n"


def test_a_port_that_goes_down_is_not_missed_over_sockets() -> None:
    world = twin(
        "at: 10s, fault: nccl_wrong_interface, where: job/7, params: {mgmt_gbps: 25}",
        f"at: 100s, fault: ib_link_down, where: {HERE}, params: {{outcome: hang}}",
    )
    world.advance_to(200)
    assert step_s(world) == pytest.approx(3.25)
    assert net.files(view(world, 0))["/sys/class/net/eno1/speed"] == "25000\n"


# ---------------------------------------------------------------- firewall_blocked


@pytest.mark.parametrize(
    ("mode", "until_s", "last"),
    [("refused", 60, "exceeded retries (20000)"), ("timeout", 420, "exceeded timeouts (3)")],
)
def test_behind_a_filter_the_job_starts_and_never_steps(mode: str, until_s: float, last: str) -> None:
    world = twin(f"at: 10s, fault: firewall_blocked, where: gpu-002, params: {{mode: {mode}}}")
    said = world.advance_to(until_s)
    steps = world.job_states()[0].steps
    ranks = {line.rank for line in said if line.text.endswith(last)}
    # The node behind the filter is the one that says nothing.
    assert ranks == set(range(40)) - set(range(8, 16))
    assert any("Connection refused, retrying" in line.text for line in said) == (mode == "refused")
    readings = Readings(world)
    for node in range(5):
        assert mean(readings, "gpu_util", node) == 0
        assert mean(readings, "gpu_power_draw", node) == pytest.approx(115, abs=8)
        assert 300 <= mean(readings, "gpu_fb_used", node) <= 1000
    assert rate(world, "ib_port_xmit_data", 0, 0) == 0
    state = world.job_states()[0]
    assert (state.state, state.step_time_s, state.steps) == ("RUNNING", None, steps)
    assert all(state.rank_alive)


def test_a_filter_on_the_whole_fleet_lets_every_rank_complain() -> None:
    world = twin("at: 10s, fault: firewall_blocked, where: fleet")
    said = world.advance_to(60)
    assert {line.rank for line in said if "exceeded retries" in line.text} == set(range(40))


# ---------------------------------------------------------------- what the tools print


def test_the_tools_name_the_port_without_its_address_and_the_host_that_filters() -> None:
    world = twin(f"at: 10s, fault: roce_gid_missing, where: {HERE}", "at: 10s, fault: firewall_blocked, where: gpu-004")
    assert 'users:(("python3"' in printed(world, 2, "ss")
    world.advance_to(20)
    rows = [line.split() for line in printed(world, NODE, "show_gids").splitlines()]
    with_address = {row[0] for row in rows if "v2" in row and "10.10" in " ".join(row)}
    assert with_address == {f"mlx5_{port}" for port in range(8)} - {"mlx5_3"}
    assert ["mlx5_3", "1", "Ethernet", "ACTIVE", "enp94s0np0", "4200"] in rows
    assert "tcp dport 1024-65535 reject with tcp reset" in printed(world, 3, "ss")
    assert "reject" not in printed(world, 2, "ss")


def test_a_host_that_drops_answers_ping_and_one_that_is_down_nothing() -> None:
    world = twin(
        "at: 10s, fault: firewall_blocked, where: gpu-004, params: {mode: timeout}",
        "at: 10s, fault: node_down, where: gpu-003",
    )
    world.advance_to(20)
    _, text, _ = tools.output(world, 0, "reach", ["gpu-002", "gpu-003", "gpu-004"])  # type: ignore[misc]
    report = reach.read(text)
    assert report.get("gpu-002", "tcp/29500") == "refused"
    assert report.get("gpu-004", "address") == "10.0.0.4"
    assert report.remarks == (
        "gpu-003: nothing is answered",
        "gpu-004: tcp/29500 is not answered, ping, tcp/22 is: a filter between",
    )


def test_a_scenario_may_say_it_of_a_port_itself() -> None:
    world = twin(f"at: 10s, set: {{where: {HERE}, metric: ib_gid_present, value: 0}}")
    assert printed(world, NODE, "show_gids").count("10.103.") == 2
    world.advance_to(20)
    assert "10.103." not in printed(world, NODE, "show_gids")
