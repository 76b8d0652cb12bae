"""GPUs that stop their rank: memory, firmware, NVLink; and what is counted without stopping anybody."""

from __future__ import annotations

import pytest

from stethoscope.model.metric import Scope
from stethoscope.sim import tools
from stethoscope.sim.logs import SharedLogs, path_of
from stethoscope.sim.readings import Readings
from tests.sim.watching import facts
from tests.sim.worlds import gpu, mean, twin


def _gpu(world: object, metric: str, node: int = 1) -> list[object]:
    return list(facts(world, node)["gpu"].gpu[metric])  # type: ignore[arg-type]


def _link(world: object, metric: str, name: str = "2/4", node: int = 1) -> object:
    links = facts(world, node)["gpu"].devices[Scope.NVLINK]  # type: ignore[arg-type]
    return links.values[metric][links.names.index(name)]


# ---------------------------------------------------------------- gpu_dbe


def test_an_error_of_memory_that_cannot_be_corrected_kills_its_rank_and_the_job() -> None:
    world = twin("at: 10s, fault: gpu_dbe, where: gpu-002/gpu/2")
    said = world.advance_to(60)
    assert _gpu(world, "gpu_ecc_uncorr_volatile_dram") == [0, 0, 1, 0, 0, 0, 0, 0]
    assert _gpu(world, "gpu_ecc_uncorr_aggregate_dram") == [0, 0, 1, 0, 0, 0, 0, 0]
    assert _gpu(world, "gpu_row_remap_pending") == [0, 0, 1, 0, 0, 0, 0, 0]
    assert _gpu(world, "gpu_remapped_rows_uncorr") == [0, 0, 1, 0, 0, 0, 0, 0]
    assert _gpu(world, "gpu_row_remap_failure") == [0] * 8
    assert _gpu(world, "gpu_ecc_uncorr_volatile_dram", 0) == [0] * 8
    kernel = [(line.at_s, line.node, line.text.split(": ")[1:3]) for line in said if line.sink == "kernel"]
    assert [(at_s, node, int(words[1].split(",")[0])) for at_s, node, words in kernel] == [
        (10.0, "gpu-002", 48), (10.0, "gpu-002", 63), (10.1, "gpu-002", 94), (10.3, "gpu-002", 45),
    ]  # fmt: skip
    first = next(line for line in said if line.sink == "job")
    assert (first.at_s, first.rank) == (12.0, 10)
    assert first.text == "[rank10]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
    # The rank dies first, the job 5 to 20 s after the error.
    lost = [line for line in said if "remote process exited" in line.text]
    assert 5 <= min(line.at_s for line in lost) - 10 <= 20
    assert world.job_states()[0].state == "FAILED"
    assert Readings(world).gpu["gpu_fb_used"][1] == [0] * 8


@pytest.mark.parametrize(
    ("params", "codes", "pending", "failed", "rows"),
    [
        ("{remap: failed}", [48, 64, 94, 45], 0, 1, 1),
        ("{remap: none, contained: false, dbe: 3}", [48, 95, 45], 0, 0, 0),
    ],
)
def test_what_becomes_of_the_row(params: str, codes: list[int], pending: int, failed: int, rows: int) -> None:
    world = twin(f"at: 10s, fault: gpu_dbe, where: gpu-002/gpu/2, params: {params}")
    said = world.advance_to(20)
    assert [int(line.text.split("): ")[1].split(",")[0]) for line in said if line.sink == "kernel"] == codes
    assert _gpu(world, "gpu_row_remap_pending")[2] == pending
    assert _gpu(world, "gpu_row_remap_failure")[2] == failed
    assert _gpu(world, "gpu_remapped_rows_uncorr")[2] == rows
    answer = tools.output(world, 1, "dcgm_diag_r1", [])
    assert answer is not None
    assert ('"Fail"' in answer[1]) is bool(failed or pending)


# ---------------------------------------------------------------- gpu_sbe_growth, gpu_row_remap_pending


def test_corrected_errors_grow_and_nobody_is_slower() -> None:
    world = twin("at: 10s, until: 910s, fault: gpu_sbe_growth, where: gpu-002/gpu/2, params: {xid92: true}")
    world.advance_to(9)
    before = _gpu(world, "gpu_ecc_corr_volatile_dram")
    said = world.advance_to(70)
    assert _gpu(world, "gpu_ecc_corr_volatile_dram")[2] - before[2] == 30  # type: ignore[operator]
    said += world.advance_to(910)
    grown = [later - past for later, past in zip(_gpu(world, "gpu_ecc_corr_volatile_dram"), before, strict=True)]  # type: ignore[operator]
    assert grown == [0, 0, 450, 0, 0, 0, 0, 0]
    assert _gpu(world, "gpu_remapped_rows_corr")[2] == 1
    assert [(line.at_s, line.sink, ": 92, Disabling ECC" in line.text) for line in said] == [(130.0, "kernel", True)]
    assert world.job_states()[0].step_time_s == pytest.approx(1.0)
    # What was counted stays when it is over.
    world.advance_to(1000)
    assert _gpu(world, "gpu_ecc_corr_volatile_dram")[2] - before[2] == 450  # type: ignore[operator]


def test_old_errors_and_new_ones_add_up() -> None:
    world = twin(
        "at: 0s, fault: historic_counters, where: gpu-002/gpu/2, params: {sbe: 91}",
        "at: 10s, fault: gpu_sbe_growth, where: gpu-002/gpu/2",
    )
    world.advance_to(70)
    assert _gpu(world, "gpu_ecc_corr_volatile_dram")[2] == 121


def test_a_row_that_waits_for_a_reset_is_a_flag_and_nothing_else() -> None:
    world = twin("at: 10s, fault: gpu_row_remap_pending, where: gpu-002/gpu/2, params: {rows: 2}")
    assert world.advance_to(300) == []
    assert _gpu(world, "gpu_row_remap_pending") == [0, 0, 1, 0, 0, 0, 0, 0]
    assert _gpu(world, "gpu_remapped_rows_uncorr") == [0, 0, 2, 0, 0, 0, 0, 0]
    assert world.job_states()[0].step_time_s == pytest.approx(1.0)
    answer = tools.output(world, 1, "nvidia_smi_q", ["2"])
    assert answer is not None
    assert f"{'        Pending':<42}: Yes" in answer[1]


# ---------------------------------------------------------------- gpu_sdc


def test_wrong_results_show_in_the_loss_alone_and_in_a_long_diagnosis() -> None:
    world = twin("at: 10s, fault: gpu_sdc, where: gpu-002/gpu/2")
    logs = SharedLogs(world)
    for at_s in range(0, 600, 5):
        logs.take(world.advance_to(at_s))
    log = bytes(logs.files[path_of("7")]).decode().split("\n")[-60:]
    losses = [float(line.split("| loss ")[1].split()[0]) for line in log if "| loss " in line]
    grads = [float(line.split("| grad_norm ")[1].split()[0]) for line in log if "| grad_norm " in line]
    usual = sorted(losses)[len(losses) // 2]
    spikes = [loss for loss in losses if loss > usual + 0.3]
    assert len(spikes) >= 3
    assert max(spikes) == pytest.approx(usual + 0.6, abs=0.1)
    assert 5 <= max(grads) / sorted(grads)[len(grads) // 2] <= 100
    assert world.job_states()[0].step_time_s == pytest.approx(1.0)
    text = world.printed_at("gpu-002", "dcgmi_diag")
    assert text is not None
    assert "Fail - GPU: 2 " in text
    assert "Fail" not in (world.printed_at("gpu-001", "dcgmi_diag") or "Fail")
    # A node that is not of the job was not asked to compute.
    assert world.printed_at("gpu-006", "dcgmi_diag") is None


# ---------------------------------------------------------------- gsp_timeout


def test_firmware_that_does_not_answer_hides_one_gpu_and_hangs_the_job() -> None:
    world = twin("at: 10s, fault: gsp_timeout, where: gpu-002/gpu/2")
    said = world.advance_to(100)
    readings = Readings(world)
    assert {readings.gpu[metric][1][2] for metric in readings.gpu} == {"hung"}
    assert isinstance(readings.gpu["gpu_temp"][1][1], int)
    assert 6_000 <= float(readings.node["nvml_latency"][1]) <= 45_000  # type: ignore[arg-type]
    assert float(readings.node["nvml_latency"][0]) < 400  # type: ignore[arg-type]
    assert (readings.node["procs_blocked"][1], readings.node["procs_blocked"][0]) == (3, 0)
    found = facts(world, 1)
    assert found["host"].node["dstate_processes"] == 3
    assert found["gpu"].gpu["gpu_ecc_uncorr_volatile_dram"] == [0, 0, "hung", 0, 0, 0, 0, 0]
    assert mean(readings, "gpu_power_draw", 0) == pytest.approx(160, abs=10)
    assert world.job_states()[0].step_time_s is None
    assert world.job_states()[0].state == "RUNNING"
    texts = [(line.at_s, line.text) for line in said]
    assert [at_s for at_s, _ in texts] == [10.0, 10.1, 16.0]
    assert texts[0][1].startswith("NVRM: Xid (PCI:0000:52:00): 119, pid=")
    assert "name=nv-hostengine, Timeout after 6s of waiting for RPC response from GPU2 GSP!" in texts[0][1]
    assert tools.output(world, 1, "nvidia_smi_q", []) is None
    assert tools.output(world, 1, "nvidia_smi_q", ["3"]) is not None
    # In the end the others give up; the rank that never returned says nothing.
    said = world.advance_to(640)
    caught = {line.rank for line in said if "Watchdog caught" in line.text}
    assert 10 not in caught
    assert 0 in caught


def test_an_exception_in_the_firmware_may_end_the_job_at_once() -> None:
    world = twin("at: 10s, fault: gsp_timeout, where: gpu-002/gpu/2, params: {xid: 120, outcome: crash}")
    said = world.advance_to(60)
    kernel = [line.text for line in said if line.sink == "kernel"]
    assert len(kernel) == 1
    assert ": 120, GSP task exception" in kernel[0]
    assert world.job_states()[0].state == "FAILED"


# ---------------------------------------------------------------- NVLink


def test_a_link_that_fails_takes_its_rank_and_its_job() -> None:
    world = twin("at: 10s, fault: nvlink_link_down, where: gpu-002/nvlink/2/4, params: {sxid: true}")
    said = world.advance_to(11)
    before = Readings(world).gpu["nvlink_tx"][1]
    said += world.advance_to(60)
    assert (_link(world, "nvlink_state"), _link(world, "nvlink_state", "2/5")) == (0, 1)
    assert _link(world, "nvlink_crc_errors") == 1400
    assert _gpu(world, "nvlink_active_count") == [18, 18, 17, 18, 18, 18, 18, 18]
    # Nothing moves on the links of the siblings either.
    assert Readings(world).gpu["nvlink_tx"][1] == before
    kernel = [line.text for line in said if line.sink == "kernel"]
    assert kernel[0].startswith("NVRM: Xid (PCI:0000:52:00): 74, pid=")
    assert "NVLink: fatal error detected on link 4(0x0, 0x0, 0x10000" in kernel[0]
    assert kernel[1] == "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 4 LTSSM Fault Up"
    assert kernel[2].startswith("NVRM: Xid (PCI:0000:52:00): 45, ")
    assert [(line.at_s, line.rank) for line in said if "uncorrectable NVLink error" in line.text] == [(11.0, 10)]
    assert not world.job_states()[0].rank_alive[10]
    assert world.job_states()[0].state == "FAILED"
    answer = tools.output(world, 1, "nvidia_smi_nvlink", ["2"])
    assert answer is not None
    assert "\t Link 4: <inactive>\n\t Link 5: 26.562 GB/s\n" in answer[1]


@pytest.mark.parametrize(("params", "factor"), [("{lane_down: true}", 0.98), ("{bandwidth_factor: 0.5}", 0.5)])
def test_errors_of_a_link_count_and_lengthen_the_collective_a_little(params: str, factor: float) -> None:
    world = twin(f"at: 10s, fault: nvlink_crc_errors, where: gpu-002/nvlink/2/4, params: {params}")
    assert world.advance_to(110) == []
    assert _link(world, "nvlink_crc_errors") == 2000
    assert _link(world, "nvlink_replay_errors") == 800
    assert _link(world, "nvlink_crc_errors", "2/5") == 0
    assert _link(world, "nvlink_speed") == (13.281 if "lane" in params else 26.562)
    assert _link(world, "nvlink_state") == 1
    longer = 1 + 0.3 * (1 / factor - 1)
    assert world.job_states()[0].step_time_s == pytest.approx(1 + 0.25 * (longer - 1))
    assert gpu(Readings(world), "gpu_temp", 1, 2) < 75
