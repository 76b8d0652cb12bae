"""The kinds of ports and adapters show what the catalogue says: where, in which direction, how much."""

from __future__ import annotations

import pytest

from stethoscope.sim.files import net, pci
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import Speaker
from tests.sim.looks import printed, rate, step_s, total, view, waiting
from tests.sim.worlds import mean, twin

HERE, NODE, PORT = "gpu-002/ib/mlx5_3", 1, 3
HEALTHY_S = 1.0


# ---------------------------------------------------------------- ib_optic_degraded


def test_the_tool_at_a_degraded_optic_sees_one_dark_lane_and_the_bit_errors() -> None:
    world = twin(f"at: 10s, fault: ib_optic_degraded, where: {HERE}, params: {{module_temp_c: 74}}")
    healthy = printed(world, NODE, "mlxlink", "mlx5_3", "1")
    world.advance_to(200)
    text = printed(world, NODE, "mlxlink", "mlx5_3", "1")
    received = next(line for line in text.splitlines() if line.startswith("Rx Power"))
    lanes = received.split(": ")[1].split()[0].split(",")
    assert sorted(map(float, lanes))[0] == -9.5
    assert sorted(map(float, lanes))[1] > 1
    assert "Bad signal integrity" in text
    assert "1E-9" in text
    assert "74 [-5..75]" in text
    assert "IB-NDR" in text
    assert "No issue was observed" in healthy
    assert "-9.5" not in healthy


# ---------------------------------------------------------------- ib_link_down


def test_a_port_that_is_down_stops_everybody_and_its_neighbours_name_it() -> None:
    world = twin(f"at: 10s, fault: ib_link_down, where: {HERE}")
    said = world.advance_to(40)
    readings = Readings(world)
    assert (readings.port["ib_port_state"][NODE][PORT], readings.port["ib_port_phys_state"][NODE][PORT]) == (1, 2)
    assert (readings.port["ib_port_state"][0][PORT], readings.port["ib_port_state"][NODE][2]) == (4, 4)
    assert [total(world, "ib_link_downed", node, PORT) for node in range(3)] == [0, 1, 0]
    assert step_s(world) is None
    assert rate(world, "ib_port_xmit_data", 0, 0, 5) == 0
    # All ranks wait inside NCCL, those of the node too: at full clock, with a quarter of the power.
    for node in range(5):
        assert mean(readings, "gpu_util", node) >= 97
        assert mean(readings, "gpu_power_draw", node) == pytest.approx(160, abs=8)
    kernel = [line for line in said if line.sink == "kernel"]
    assert [(line.node, line.text) for line in kernel] == [
        ("gpu-002", "mlx5_core 0000:5e:00.0 mlx5_3: Port: 1 Link DOWN")
    ]
    # Every process of the node opens all adapters.
    errors = [line for line in said if "mlx5_3:1 Got async event : port error" in line.text]
    assert [line.rank for line in errors] == list(range(8, 16))
    said = world.advance_to(90)
    lost = [line for line in said if "status=12" in line.text]
    assert {line.at_s for line in lost} == {48.0}
    assert {line.node for line in lost} == {"gpu-001", "gpu-003"}
    assert all("Got completion from peer 10.0.0.2<" in line.text for line in lost)
    closed = [line for line in said if "Connection closed by remote peer" in line.text]
    assert closed
    assert all("gpu-002.cluster" in line.text and line.at_s > 55 for line in closed)
    assert world.job_states()[0].state == "FAILED"
    assert [total(world, "ib_link_downed", node, PORT) for node in range(3)] == [0, 1, 0]


def test_a_lost_port_error_hangs_until_the_watchdog_and_no_rank_is_silent() -> None:
    world = twin(f"at: 10s, fault: ib_link_down, where: {HERE}, params: {{outcome: hang}}")
    said = world.advance_to(600)
    assert not any("status=12" in line.text for line in said)
    assert world.job_states()[0].state == "RUNNING"
    said = world.advance_to(640)
    caught = {line.rank for line in said if "Watchdog caught collective operation timeout" in line.text}
    assert caught == set(range(40))


def test_the_interface_of_a_port_that_is_down_and_the_tools_say_so() -> None:
    world = twin(f"at: 10s, fault: ib_link_down, where: {HERE}", "at: 60s, fault: idle_node, where: gpu-006")
    before = net.files(view(world, NODE))
    world.advance_to(20)
    files = net.files(view(world, NODE))
    assert (before["/sys/class/net/ib3/operstate"], files["/sys/class/net/ib3/operstate"]) == ("up\n", "down\n")
    assert (before["/sys/class/net/ib3/carrier_changes"], files["/sys/class/net/ib3/carrier_changes"]) == (
        "1\n",
        "2\n",
    )
    assert files["/sys/class/net/ib2/operstate"] == "up\n"
    assert printed(world, NODE, "ibstat").count("State: Down\n\t\tPhysical state: Polling\n\t\tRate: 10") == 1
    assert "State                              : Polling" in printed(world, NODE, "mlxlink", "mlx5_3", "1")


# ---------------------------------------------------------------- ib_link_flap


def test_each_flap_stops_all_ranks_for_some_seconds_and_is_counted() -> None:
    world = twin(f"at: 10s, fault: ib_link_flap, where: {HERE}")
    states, stalls = [], []
    said = []
    for second in range(5, 306):
        said += world.advance_to(second + 0.25)
        states.append(Readings(world).port["ib_port_state"][NODE][PORT])
        stalls.append(step_s(world) is None)
    # Down at 10, 100, 190 and 280 s.
    assert total(world, "ib_link_downed", NODE, PORT) == 4
    assert (states.count(1), states.count(2)) == (16, 8)
    assert sum(stalls) == 24
    assert 800 <= total(world, "ib_symbol_error", NODE, PORT) <= 1600
    assert total(world, "ib_symbol_error", 0, PORT) == 0
    kernel = [(line.at_s, line.text.rsplit(" ", 1)[1]) for line in said if line.sink == "kernel"]
    assert kernel[:4] == [(10, "DOWN"), (14, "ACTIVE"), (100, "DOWN"), (104, "ACTIVE")]
    events = {line.text.rsplit(": ", 1)[1] for line in said if "Got async event" in line.text}
    assert events == {"port error", "port active"}
    # 5.5 s of every 90 s are lost.
    world.advance_to(910)
    assert world.job_states()[0].steps == pytest.approx(910 - 10 * 5.5, abs=2)
    assert net.files(view(world, NODE))["/sys/class/net/ib3/carrier_changes"] == "22\n"


def test_a_flap_that_is_too_long_kills_the_job() -> None:
    world = twin(f"at: 10s, fault: ib_link_flap, where: {HERE}, params: {{crash_at: 200s}}")
    world.advance_to(205)
    assert world.job_states()[0].state == "RUNNING" or world.job_states()[0].step_time_s is None
    world.advance_to(230)
    assert world.job_states()[0].state == "FAILED"


# ---------------------------------------------------------------- ib_speed_low


def test_a_link_at_half_its_rate_is_clean_and_makes_every_collective_longer() -> None:
    world = twin(f"at: 10s, fault: ib_speed_low, where: {HERE}")
    world.advance_to(60)
    readings = Readings(world)
    assert [readings.port["ib_port_rate"][node][PORT] for node in range(3)] == [400, 200, 400]
    assert readings.port["ib_port_state"][NODE][PORT] == 4
    assert step_s(world) == pytest.approx(HEALTHY_S + 0.25 * (400 / 200 - 1))
    assert rate(world, "ib_symbol_error", NODE, PORT) == 0
    assert "IB-HDR" in printed(world, NODE, "mlxlink", "mlx5_3", "1")
    assert "Rate: 200" in printed(world, NODE, "ibstat")
    assert net.files(view(world, NODE))["/sys/class/net/ib3/speed"] == "200000\n"


# ---------------------------------------------------------------- nic_lost


def test_a_lost_adapter_is_missing_everywhere_and_seven_are_left() -> None:
    world = twin(f"at: 10s, fault: nic_lost, where: {HERE}")
    speaker = Speaker(world, NODE, 5.0)
    speaker.frame(Readings(world))
    said = world.advance_to(20)
    readings = Readings(world)
    assert readings.port["ib_port_state"][NODE] == [4, 4, 4, "lost", 4, 4, 4, 4]
    assert readings.port["ib_symbol_error"][NODE][PORT] == "lost"
    # The node no longer lists the adapter, and its next frame has all values again.
    frame = speaker.frame(readings)
    assert (b'"full"' in frame, b"mlx5_2" in frame, b"mlx5_3" in frame) == (True, True, False)
    files = {**net.files(view(world, NODE)), **pci.files(view(world, NODE))}
    assert not any("mlx5_3" in path or "/ib3/" in path for path in files)
    assert files["/sys/bus/pci/drivers/mlx5_core/0000:5e:00.0/current_link_speed"] == "Unknown\n"
    assert files["/sys/bus/pci/drivers/nvidia/0000:61:00.0/current_link_speed"] == "32.0 GT/s PCIe\n"
    assert printed(world, NODE, "ibstat").count("CA 'mlx5_") == 7
    assert "(rev ff)" in printed(world, NODE, "lspci", "0000:5e:00.0")
    assert [line.text.split(": ", 1)[1] for line in said if line.sink == "kernel"] == [
        "poll_health:816:(pid 0): device's health compromised - reached miss count",
        "print_health_info:425:(pid 0): PCI slot is unavailable",
    ]
    assert sum("local catastrophic error" in line.text for line in said) == 8
    assert step_s(world) is None
    world.advance_to(45)
    assert world.job_states()[0].state == "FAILED"


# ---------------------------------------------------------------- nic_pcie_downgraded


@pytest.mark.parametrize(
    ("gen", "width", "left", "line"),
    [
        (3, 16, 63 * 2**-2 * 0.87 / 50, "126.016 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x16 link"),
        (4, 16, 63 * 2**-1 * 0.87 / 50, "252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link"),
        (5, 8, 63 / 2 * 0.87 / 50, "252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link"),
    ],
)
def test_a_slow_adapter_looks_perfect_on_the_side_of_the_cable(gen: int, width: int, left: float, line: str) -> None:
    world = twin(f"at: 10s, fault: nic_pcie_downgraded, where: {HERE}, params: {{gen: {gen}, width: {width}}}")
    said = world.advance_to(60)
    assert step_s(world) == pytest.approx(HEALTHY_S + 0.25 * (1 / left - 1))
    assert [(one.node, line in one.text, "0000:5d:03.0" in one.text) for one in said if one.sink == "kernel"] == [
        ("gpu-002", True, True)
    ]
    files = pci.files(view(world, NODE))
    base = "/sys/bus/pci/drivers/mlx5_core/0000:5e:00.0"
    assert files[f"{base}/current_link_speed"].startswith({3: "8.0", 4: "16.0", 5: "32.0"}[gen])
    assert files[f"{base}/current_link_width"] == f"{width}\n"
    assert files[f"{base}/max_link_speed"].startswith("32.0")
    assert pci.files(view(world, 0))[f"{base}/current_link_speed"].startswith("32.0")
    assert Readings(world).port["ib_port_rate"][NODE][PORT] == 400
    assert rate(world, "ib_symbol_error", NODE, PORT) == 0
    # Who sends to it waits for credit, 0.2 to 0.4 of the time; itself it does not.
    assert 0.2 <= waiting(world, 0, PORT) <= 0.4
    assert waiting(world, NODE, PORT) < 0.02
    assert waiting(world, 4, PORT) < 0.02
    assert "(downgraded)" in printed(world, NODE, "lspci", "0000:5e:00.0")


def test_two_faults_of_ports_take_from_the_same_step() -> None:
    world = twin(
        f"at: 10s, fault: ib_speed_low, where: {HERE}",
        "at: 10s, fault: ib_optic_degraded, where: gpu-003/ib/mlx5_1, params: {ramp: 1s, bandwidth_factor: 0.25}",
    )
    world.advance_to(60)
    # The slowest rail paces all: not the sum of both.
    assert step_s(world) == pytest.approx(HEALTHY_S + 0.25 * (1 / 0.25 - 1))
