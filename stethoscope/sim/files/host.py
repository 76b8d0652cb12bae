"""What the kernel of a simulated node counts and sets: memory, processes, time, settings, versions."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from stethoscope.model.metric import Reason
from stethoscope.sim import board, clients
from stethoscope.sim.board import CPUS, rank_pid

if TYPE_CHECKING:
    from stethoscope.sim.build import Build
    from stethoscope.sim.files.view import View

_CONTROLLERS = 16
_SWAP_MIB = 8192


def files(view: View) -> dict[str, str]:
    """Return what changes: paging, swap, open files, errors of memory, stuck processes."""
    worked, up_s = view.loading_s, view.uptime_s
    killed = view.count("oom_kills", int(view.draw("oom", 1)[0] < 0.04))
    swapped = view.state("swap_used", 0)
    swap = _SWAP_MIB if swapped else 0
    opened = 21_000 + 64 * int(30 * view.twin.machine.loading[view.node])
    found = {
        "/proc/vmstat": (
            f"pswpin 0\npswpout {int(256 * swapped)}\npgmajfault {int(0.4 * worked + 0.02 * up_s)}\n"
            f"oom_kill {killed}\nnuma_pages_migrated 0\n"
        ),
        "/proc/meminfo": (
            f"MemTotal:       {board.MEMORY_MIB * 1024:9d} kB\nSwapTotal:      {swap * 1024:9d} kB\n"
            f"SwapFree:       {max(swap - int(swapped), 0) * 1024:9d} kB\nHugePages_Total:       0\n"
            "HugePages_Free:        0\n"
        ),
        "/proc/sys/fs/file-nr": f"{opened}\t0\t9223372036854775807\n",
        "tasks": tasks(view),
    }
    corrected = view.count("edac_ce", int(view.draw("edac", 1)[0] < 0.06))
    uncorrected = view.count("edac_ue", 0)
    for number in range(_CONTROLLERS):
        base = f"/sys/devices/system/edac/mc/mc{number}"
        found[f"{base}/ce_count"] = f"{corrected if number == 3 else 0}\n"
        found[f"{base}/ue_count"] = f"{uncorrected if number == 3 else 0}\n"
    return found


def tasks(view: View) -> str:
    """Return the processes that are stuck in the kernel, as the probe lists them. A driver that hangs holds a tool that
    asked it and ranks; what else a scenario says waits for a disk."""
    hung = Reason.HUNG in view.missing
    waiting = clients.stuck_tasks(view.twin.machine.waits_io)[view.node]
    saving = sum(what == "save" and node == view.node for (node, _), what in view.twin.effects.doing.items())
    count = round(view.state("dstate_processes", waiting + saving))
    lines = []
    for number in range(count):
        pid = rank_pid(view.node, number - hung)
        name, waits_in = ("python3", "os_acquire_rwlock_write" if hung else "rpc_wait_bit_killable")
        if hung and number == 0:
            pid, name, waits_in = rank_pid(view.node, 0) + 4_000, "nvidia-smi", "os_acquire_rwlock_read"
        lines.append(f"{pid}\tD\t{rank_pid(view.node, 0) - 40}\talice\t{name}\t{waits_in}\n")
    return "".join(lines)


def chrony(view: View) -> str:
    """Return what `chronyc -c -n tracking` prints; its offset is positive for a clock that is slow."""
    if not view.state("clock_synchronised", 1):
        nothing = "0.000000000," * 4
        return f"00000000,,0,{nothing}0.000,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised\n"
    offset_s = view.state("clock_offset", view.clock_offset_s)
    wall_s = view.wall_s
    drift = 4 * view.draw("clock drift", 1)[0] - 2
    return (
        f"0A00FF01,10.0.255.1,3,{wall_s - wall_s % 64:.9f},{-offset_s:.9f},{-offset_s / 3:.9f},0.000041207,"
        f"{12 + drift:.3f},0.001,0.034,0.000412563,0.000201744,64.2,Normal\n"
    )


def timedate(view: View) -> str:
    """Return what `timedatectl show` prints."""
    now = datetime.fromtimestamp(view.wall_s, UTC)
    synchronised = "yes" if view.state("clock_synchronised", 1) else "no"
    return (
        f"Timezone=Etc/UTC\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized={synchronised}\n"
        f"TimeUSec={now:%a %Y-%m-%d %H:%M:%S} UTC\nRTCTimeUSec={now:%a %Y-%m-%d %H:%M:%S} UTC\n"
    )


def settings(view: View) -> dict[str, str]:
    """Return the files of the group `tuning`."""
    return _settings(view.build, view.ports)


@cache
def _settings(build: Build, ports: int) -> dict[str, str]:
    cpus = "/sys/devices/system/cpu"
    found = {f"{cpus}/cpufreq/policy{cpu}/scaling_governor": f"{build.cpu_governor}\n" for cpu in range(CPUS)}
    found |= {f"{cpus}/cpu{cpu}/thermal_throttle/package_throttle_count": "0\n" for cpu in range(CPUS)}
    found |= {f"/sys/class/infiniband/mlx5_{n}/device/net/ib{n}/mtu": f"{build.mtu}\n" for n in range(ports)}
    pages = " ".join(
        f"[{word}]" if word == build.transparent_hugepage else word for word in ("always", "madvise", "never")
    )
    found["/proc/sys/kernel/numa_balancing"] = f"{build.numa_balancing}\n"
    found["/proc/self/limits"] = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max open files            1048576              1048576              files     \n"
        f"Max locked memory         {build.memlock:<20} {build.memlock:<20} bytes     \n"
    )
    found[f"{cpus[: -len('/cpu')]}/clocksource/clocksource0/current_clocksource"] = f"{build.clocksource}\n"
    found["/sys/kernel/mm/transparent_hugepage/enabled"] = f"{pages}\n"
    found["/proc/modules"] = (
        "nvidia_peermem 16384 0 - Live 0x0000000000000000 (POE)\n"
        "nvidia_uvm 4952064 16 - Live 0x0000000000000000 (POE)\n"
        "nvidia 56696832 612 nvidia_uvm,nvidia_peermem, Live 0x0000000000000000 (POE)\n"
        "mlx5_core 2109440 1 mlx5_ib, Live 0x0000000000000000 (OE)\n"
    )
    return found


def versions(view: View) -> dict[str, str]:
    """Return the files of the group `identity`."""
    boot_s = round(view.twin.wall_at_0 + view.booted_s + view.clock_offset_s)
    answering = tuple(not view.is_lost(gpu) for gpu in range(view.gpus))
    return {
        **_versions(view.build, view.twin.layout.board.name, answering, view.ports),
        "/proc/stat": f"btime {boot_s}\n",
    }


@cache
def _versions(build: Build, product: str, answering: tuple[bool, ...], ports: int) -> dict[str, str]:
    driver, kernel = build.driver_version, build.kernel
    found = {
        "/proc/driver/nvidia/version": (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Fri May 31 09:35:42 UTC 2024\n"
            "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04) \n"
        ),
        "/proc/version": (
            f"Linux version {kernel} (buildd@lcy02-amd64-072) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0, "
            "GNU ld (GNU Binutils for Ubuntu) 2.38) #123-Ubuntu SMP Mon Jun 10 08:16:17 UTC 2024\n"
        ),
        "/proc/cmdline": f"{build.cmdline}\n",
        "/etc/os-release": f'PRETTY_NAME="{build.os}"\n',
        "/sys/class/dmi/id/sys_vendor": "Supermicro\n",
        "/sys/class/dmi/id/product_name": f"{build.product}\n",
        "/sys/class/dmi/id/bios_version": f"{build.bios}\n",
        "/sys/class/dmi/id/bios_date": "11/14/2023\n",
        "/sys/module/mlx5_core/version": f"{build.mlx5_driver}\n",
        "/usr/local/cuda": f"/usr/local/cuda-{build.cuda_toolkit}",
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2": f"/usr/lib/x86_64-linux-gnu/libnccl.so.{build.nccl_version}",
    }
    for gpu, answers in enumerate(answering):
        address = f"{board.gpu_pci(gpu)}.0"
        vbios = build.gpu_vbios_version if answers else "??.??.??.??.??"
        found[f"/proc/driver/nvidia/gpus/{address}/information"] = (
            f"Model: \t\t {product}\nIRQ:   \t\t {300 + gpu}\nVideo BIOS: \t {vbios}\nBus Type: \t PCIe\n"
            f"DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t {address}\n"
            f"Device Minor: \t {gpu}\nGPU Firmware: \t {driver}\nGPU Excluded:\t No\n"
        )
    for port in range(ports):
        base = f"/sys/class/infiniband/mlx5_{port}"
        found[f"{base}/fw_ver"] = f"{build.ib_fw_version}\n"
        found[f"{base}/board_id"] = f"{build.ib_board}\n"
        found[f"{base}/hca_type"] = "MT4129\n"
    return found
