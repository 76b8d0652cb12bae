"""What the driver of a simulated node says rarely: errors, links, modes, versions, and the processes on its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.model.metric import REASON_WORDS, Reason
from stethoscope.sim.board import rank_pid
from stethoscope.sim.columns import SLOW_COUNTERS

if TYPE_CHECKING:
    from stethoscope.model.wire import Cell
    from stethoscope.sim.files.view import View
    from stethoscope.sim.job_effects import Foreign

_UNSUPPORTED = REASON_WORDS[Reason.UNSUPPORTED]
LINK_ERRORS = ("nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_crc_errors")


def fields(view: View) -> dict[str, Any] | None:
    """Return what the part `gpu` carries beside its name; None while the driver does not answer."""
    if all(code == Reason.HUNG for code in view.missing):
        return None
    totals = {metric: view.total(metric) for metric, kind in SLOW_COUNTERS.items() if kind == "gpu"}
    silent = [REASON_WORDS[Reason(code)] if code else "" for code in view.missing]
    gpus = [dict.fromkeys(METRICS, word) if word else _gpu(view, gpu, totals) for gpu, word in enumerate(silent)]
    columns = [_silent_links(view, word) if word else links(view, gpu) for gpu, word in enumerate(silent)]
    build = view.build
    apps = processes(view)
    files = {}
    for _, pid, _, _ in apps:
        files.update(_process(view, pid))
    return {
        "gpu": {metric: [values[metric] for values in gpus] for metric in METRICS},
        "links": {metric: [column[metric] for column in columns] for metric in LINKS},
        "apps": [list(app) for app in apps],
        "words": {
            "driver_version": build.driver_version,
            "cuda_version": build.cuda_version,
            "gpu_vbios_version": ["" if word else build.gpu_vbios_version for word in silent],
        },
        "files": files,
    }


def ecc(view: View, gpu: int) -> dict[str, int]:
    """Return the error counters of a GPU: a few corrected errors on a few boards, long ago."""
    draw = view.draw("ecc", view.gpus)[gpu]
    volatile = int(1 + 12 * (draw / 0.03)) if draw < 0.03 else 0
    corrected = view.count("gpu_ecc_corr_volatile_dram", volatile, gpu=gpu)
    uncorrected = view.count("gpu_ecc_uncorr_volatile_dram", 0, gpu=gpu)
    older = int(40 * view.draw("ecc of before", view.gpus)[gpu]) if draw < 0.06 else 0
    return {
        "gpu_ecc_corr_volatile_dram": corrected,
        "gpu_ecc_corr_volatile_sram": 0,
        "gpu_ecc_uncorr_volatile_dram": uncorrected,
        "gpu_ecc_uncorr_volatile_sram": 0,
        "gpu_ecc_corr_aggregate_dram": corrected + older,
        "gpu_ecc_corr_aggregate_sram": 0,
        "gpu_ecc_uncorr_aggregate_dram": uncorrected,
        "gpu_ecc_uncorr_aggregate_sram": 0,
        "gpu_remapped_rows_corr": view.count("gpu_remapped_rows_corr", 0, gpu=gpu),
        "gpu_remapped_rows_uncorr": view.count("gpu_remapped_rows_uncorr", 0, gpu=gpu),
    }


def pcie(view: View, gpu: int) -> tuple[int, int]:
    """Return generation and width of a GPU's link as it is now."""
    gen = view.state("gpu_pcie_link_gen", view.twin.layout.board.pcie_gen, gpu=gpu)
    width = view.state("gpu_pcie_link_width", view.state("pcie_link_width", 16, gpu=gpu), gpu=gpu)
    return round(gen), round(width)


def replays(view: View, gpu: int) -> int:
    """Return how often packets were sent again on a GPU's PCIe link."""
    return view.count("gpu_pcie_replay", int(3 * view.draw("replay", view.gpus)[gpu]), gpu=gpu)


def branch(driver: str) -> int:
    """Return the branch of a driver: 550 of 550.90.07."""
    first = driver.split(".")[0]
    return int(first) if first.isdigit() else 0


def _gpu(view: View, gpu: int, totals: dict[str, list[int]]) -> dict[str, Cell]:
    board = view.twin.layout.board
    gen, width = pcie(view, gpu)
    release = branch(view.build.driver_version)
    # Before 575 the driver had no name for the time of these; the one for the power limit is older.
    throttles: dict[str, Cell] = {
        metric: total[gpu] if release >= 575 or metric.endswith("sw_power_cap") else _UNSUPPORTED
        for metric, total in totals.items()
    }
    retires = board.links == 0 and board.pcie_gen <= 3
    rows: dict[str, Cell] = {"gpu_row_remap_pending": 0, "gpu_row_remap_failure": 0, "gpu_row_remap_banks_none": 0}
    pages: dict[str, Cell] = {"gpu_retired_pages_sbe": 0, "gpu_retired_pages_dbe": 0, "gpu_retired_pages_pending": 0}
    for name in ("gpu_row_remap_pending", "gpu_row_remap_failure"):
        rows[name] = round(view.state(name, 0, gpu=gpu))
    errors: dict[str, Cell] = {**ecc(view, gpu)}
    if retires:
        rows = dict.fromkeys((*rows, "gpu_remapped_rows_corr", "gpu_remapped_rows_uncorr"), _UNSUPPORTED)
    else:
        pages = dict.fromkeys(pages, _UNSUPPORTED)
    fabric: Cell = 3 if view.has_fabric else _UNSUPPORTED
    return {
        **errors,
        **rows,
        **pages,
        **throttles,
        "gpu_mem_clock": board.memory_mhz,
        "gpu_pstate": 0,
        "gpu_process_count": sum(app[0] == gpu for app in processes(view)),
        "gpu_temp_slowdown": _UNSUPPORTED if board.margin_c is not None else round(board.slowdown_c),
        "gpu_sram_threshold_exceeded": 0 if release >= 535 and board.pcie_gen >= 4 else _UNSUPPORTED,
        "gpu_pcie_replay": replays(view, gpu),
        "gpu_pcie_link_gen": gen,
        "gpu_pcie_link_width": width,
        "gpu_pcie_link_gen_max": board.pcie_gen,
        "gpu_pcie_link_width_max": 16,
        "gpu_recovery_action": 0 if release >= 570 else _UNSUPPORTED,
        "gpu_persistence_mode": 1,
        "gpu_mig_mode": 0 if board.pcie_gen >= 4 and board.links else _UNSUPPORTED,
        "gpu_ecc_mode": 1,
        "fabric_state": fabric,
        "fabric_status": 0 if fabric == 3 else _UNSUPPORTED,
        "fabric_health_mask": _UNSUPPORTED,
        "nvlink_active_count": (
            sum(state == 1 for state in links(view, gpu)["nvlink_state"]) if board.links else _UNSUPPORTED
        ),
        "gpu_power_limit_default": board.power_w,
        "gpu_sm_clock_max": round(board.sm_mhz),
    }


def links(view: View, gpu: int) -> dict[str, list[Cell]]:
    """Return state, speed and errors of a GPU's NVLinks, in the order of the links."""
    board = view.twin.layout.board
    count = board.links
    columns: dict[str, list[Cell]] = {
        "nvlink_state": [1] * count,
        "nvlink_speed": [board.link_gbps] * count,
        "nvlink_replay_errors": [0] * count,
        "nvlink_recovery_errors": [0] * count,
        "nvlink_crc_errors": [0] * count,
        "nvlink_effective_errors": [_UNSUPPORTED] * count,
        "nvlink_symbol_errors": [_UNSUPPORTED] * count,
    }
    if not view.twin.told.knows("nvlink_state", "nvlink_speed", *LINK_ERRORS):
        return columns
    for link in range(count):
        up = round(view.state("nvlink_state", 1, gpu=gpu, link=link))
        columns["nvlink_state"][link] = up
        columns["nvlink_speed"][link] = view.state("nvlink_speed", board.link_gbps, gpu=gpu, link=link)
        if not up:
            columns["nvlink_speed"][link] = _UNSUPPORTED
        for metric in LINK_ERRORS:
            columns[metric][link] = view.count(metric, 0, gpu=gpu, link=link)
    return columns


def processes(view: View) -> list[tuple[int, int, int, str]]:
    """Return the ranks on this node's GPUs, and what else works there: GPU, process id, MiB, kind."""
    held = view.twin.machine.context[view.node]
    used = view.readings.gpu["gpu_fb_used"][view.node]
    found = []
    for gpu, memory in enumerate(used):
        if view.missing[gpu] or not isinstance(memory, int | float):
            continue
        other = view.twin.effects.foreign.get((view.node, gpu))
        taken = 0 if other is None else int(other.memory_mib)
        if held[gpu]:
            found.append((gpu, rank_pid(view.node, gpu), max(int(memory) - 512 - taken, 100), "C"))
        if other is not None:
            found.append((gpu, foreign_pid(view.node, gpu), max(taken - 512, 100), "C"))
    return found


def foreign_pid(node: int, gpu: int) -> int:
    """Return the process id of what is no rank and works on a GPU of a node (by position)."""
    return 9_000 + 13 * node + gpu


def _process(view: View, pid: int) -> dict[str, str]:
    others = {foreign_pid(*spot): what for spot, what in view.twin.effects.foreign.items() if spot[0] == view.node}
    if pid in others:
        return _foreign(view, pid, others[pid])
    job = view.twin.layout.job_of(view.node)
    name = "" if job is None else job.id
    task = pid - rank_pid(view.node, 0)
    # After the name come state, parent, group and session, and as the 22nd field when it was started.
    start = round(100 * max(-view.booted_s - 7_200, 60))
    launcher = rank_pid(view.node, 0) - 40
    return {
        f"/proc/{pid}/comm": "python3\n",
        f"/proc/{pid}/stat": (
            f"{pid} (python3) R {launcher} {pid} {launcher} 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 212 0 {start} 0 0\n"
        ),
        f"/proc/{pid}/cgroup": f"0::/system.slice/slurmstepd.scope/job_{name}/step_0/user/task_{task}\n",
        f"/proc/{pid}/user": "alice",
    }


def _foreign(view: View, pid: int, what: Foreign) -> dict[str, str]:
    """Return the files of a process that is no rank: of another job, or left over from one that is long gone."""
    start = round(100 * max(-view.booted_s - 90_000, 60))
    group = (
        f"slurmstepd.scope/job_{what.job}/step_0/user/task_0" if what.job else "user.slice/user-1002.slice/session-61"
    )
    return {
        f"/proc/{pid}/comm": f"{what.name[:15]}\n",
        f"/proc/{pid}/stat": (
            f"{pid} ({what.name[:15]}) R 1 {pid} {pid} 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 64 0 {start} 0 0\n"
        ),
        f"/proc/{pid}/cgroup": f"0::/system.slice/{group}\n" if what.job else f"0::/{group}.scope\n",
        f"/proc/{pid}/user": "bob",
    }


def _silent_links(view: View, word: str) -> dict[str, list[Cell]]:
    return {metric: [word] * view.twin.layout.board.links for metric in LINKS}


LINKS = (
    "nvlink_state", "nvlink_speed", *LINK_ERRORS, "nvlink_effective_errors", "nvlink_symbol_errors",
)  # fmt: skip
METRICS = (
    "gpu_mem_clock", "gpu_pstate", "gpu_process_count", "gpu_throttle_time_sw_power_cap",
    "gpu_throttle_time_sw_thermal", "gpu_throttle_time_hw_thermal", "gpu_throttle_time_hw_power_brake",
    "gpu_temp_slowdown", "gpu_ecc_corr_volatile_dram", "gpu_ecc_corr_volatile_sram", "gpu_ecc_uncorr_volatile_dram",
    "gpu_ecc_uncorr_volatile_sram", "gpu_ecc_corr_aggregate_dram", "gpu_ecc_corr_aggregate_sram",
    "gpu_ecc_uncorr_aggregate_dram", "gpu_ecc_uncorr_aggregate_sram", "gpu_sram_threshold_exceeded",
    "gpu_remapped_rows_corr", "gpu_remapped_rows_uncorr", "gpu_row_remap_pending", "gpu_row_remap_failure",
    "gpu_row_remap_banks_none", "gpu_retired_pages_sbe", "gpu_retired_pages_dbe", "gpu_retired_pages_pending",
    "gpu_pcie_replay", "gpu_pcie_link_gen", "gpu_pcie_link_width", "gpu_pcie_link_gen_max", "gpu_pcie_link_width_max",
    "gpu_recovery_action", "gpu_persistence_mode", "gpu_mig_mode", "gpu_ecc_mode", "fabric_state", "fabric_status",
    "fabric_health_mask", "nvlink_active_count", "gpu_power_limit_default", "gpu_sm_clock_max",
)  # fmt: skip
