"""What the tools on a simulated node answer to an on-demand probe, as its script prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.metric import Reason
from stethoscope.sim.files import smart
from stethoscope.sim.files.view import View
from stethoscope.sim.printed import fabric, hardware, management, nvidia, processes, ranks, switch
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.sim.twin import Twin

NOT_INSTALLED = 127
_DRIVER = ("nvidia_smi_q", "nvidia_smi_nvlink", "nvidia_smi_topo", "dcgm_diag_r1")
"""Probes whose tools call the driver."""
_SWITCH = ("switch_counters", "switch_qos")
"""Probes that ask the switch behind a port."""
_Ran = tuple[int, str, str]
"""Exit status, output, error output."""


def output(twin: Twin, node: int, probe_id: str, args: Sequence[str]) -> tuple[int, str, str] | None:
    """Return exit status, standard output and standard error of the script `probe_id` with its arguments on a node (by
    position); None when it never ends."""
    text = twin.probe_text(node, probe_id)
    if text is None and probe_id in _SWITCH and args and args[0].removeprefix("mlx5_").isdigit():
        leaf = twin.layout.fleet.leaf(node, int(args[0].removeprefix("mlx5_")))
        text = twin.printed_at(f"leaf/{leaf}", probe_id)
    if text is not None:
        return 0, text, ""
    if probe_id in _DRIVER and _asks_in_vain(twin, node, args):
        return None
    known = identity(twin, node)
    view = View(twin, node, Readings(twin), known.booted_s, known.clock_offset_s, {})
    uuids = [gpu.uuid for gpu in known.gpus]
    status, printed, errors = 0, "", ""
    for words in _commands(probe_id, list(args)):
        code, out, err = _run(view, uuids, words)
        begin = f"stethoscope-probe: $ {' '.join(words)}\n"
        printed += f"{begin}{out}\nstethoscope-probe: exit {code}\n"
        errors += begin + err
        status = code or status
    if not printed:
        return NOT_INSTALLED, "", f"stethoscope-probe: not installed: {probe_id}\n"
    return status, printed, errors


def _asks_in_vain(twin: Twin, node: int, args: Sequence[str]) -> bool:
    """Tell whether a tool of the driver asks a GPU that never answers."""
    hung = twin.effects.gpu_missing[node] == Reason.HUNG
    one = args[0] if args else ""
    return bool(hung[int(one)] if one.isdecimal() and int(one) < len(hung) else hung.any())


def _commands(probe_id: str, args: list[str]) -> Iterator[list[str]]:
    """Yield the commands of a script; who logs in is root here."""
    first = args[0] if args else ""
    match probe_id:
        case "nvidia_smi_q":
            yield ["nvidia-smi", "-q", *(("-i", first) if args else ())]
        case "nvidia_smi_nvlink":
            for what in ("-s", "-e", "-c"):
                yield ["nvidia-smi", "nvlink", what, *(("-i", first) if args else ())]
        case "nvidia_smi_topo":
            yield ["nvidia-smi", "topo", "-m"]
        case "dcgm_diag_r1":
            yield ["dcgmi", "diag", "-r", "1", "-j"]
        case "lspci" if args:
            yield ["lspci", "-D", "-vvv", "-s", first]
        case "lspci":
            yield ["lspci", "-D", "-vvv", "-d", "10de:"]
            yield ["lspci", "-D", "-vvv", "-d", "15b3:"]
        case "ibstat":
            yield ["ibstat"]
        case "perfquery":
            yield ["perfquery", "-x", "-C", first, "-P", *args[1:2]]
        case "mlxlink":
            yield ["mlxlink", "-d", first, "-p", *args[1:2], "-m", "-c"]
        case "ibqueryerrors":
            yield ["ibqueryerrors", "--data", "--details"]
        case "switch_counters" | "switch_qos":
            yield ["smpquery", "-C", first, "-P", *args[1:2], "-D", "nodedesc", f"0,{args[1] if args[1:] else 1}"]
            yield ["grown" if probe_id == "switch_counters" else "shares", *args]
        case "show_gids":
            yield from (["ports"], ["gids"])
        case "ss":
            yield ["ss", "-H", "-l", "-t", "-n", "-p"]
            yield ["nft", "list", "ruleset"]
        case "reach":
            yield ["reach", *args]
        case "ethtool":
            for option in ((), ("-S",), ("-m",)):
                yield ["ethtool", *option, first]
        case "smartctl":
            yield ["smartctl", "-j", "-a", f"/dev/{first}"]
        case "nvme":
            yield ["nvme", "smart-log", "-o", "json", f"/dev/{first}"]
            yield ["nvme", "list", "-o", "json"]
        case "ipmitool_sel":
            yield ["ipmitool", "sel", "elist", "last", "100"]
        case "ipmi_sensor":
            yield ["ipmitool", "sdr", "elist"]
        case "top":
            for what in ("top", "ps", "cpufreq"):
                yield ["sh", "-c", what]
        case "py_spy":
            yield ["py-spy", "dump"]
        case "env_diff":
            yield ["environ"]
        case "nccl_ras":
            yield ["ncclras", "-v", "-t", "10"]
        case "nfsiostat":
            yield ["nfsiostat", "3"]
        case "dmesg":
            yield ["journalctl", "--no-pager", "-o", "short-iso", "-p", "notice", "-n", "300"]


def _run(view: View, uuids: list[str], words: list[str]) -> _Ran:
    """Return what one command gives."""
    tool, rest = words[0], words[1:]
    match tool:
        case "nvidia-smi":
            return *nvidia.smi(view, uuids, rest), ""
        case "dcgmi":
            return *nvidia.diagnostic(view), ""
        case "lspci":
            return 0, hardware.lspci(view, rest), ""
        case "ibstat":
            return 0, fabric.ibstat(view), ""
        case "ibqueryerrors":
            return 0, fabric.query_errors(view), ""
        case "perfquery" | "mlxlink":
            port = fabric.port_of(view, words[3] if tool == "perfquery" else words[2])
            if port is None:
                return 255, "", f"{tool}: can't open device\n"
            return 0, fabric.perfquery(view, port) if tool == "perfquery" else fabric.mlxlink(view, port), ""
        case "smpquery" | "grown" | "shares":
            port = fabric.port_of(view, words[2] if tool == "smpquery" else words[1])
            if port is None:
                return 255, "", f"{tool}: can't open UMAD port\n"
            said = {"smpquery": switch.node_description, "grown": switch.counters, "shares": switch.arbitration}
            return said[tool](view, port)
        case "ports":
            return 0, switch.ports(view), ""
        case "gids":
            return 0, switch.addresses(view), ""
        case "ss":
            return 0, switch.listening(view), ""
        case "nft":
            return 0, switch.filter_rules(view), ""
        case "reach":
            return 0, switch.reached(view, rest), ""
        case "ethtool":
            return hardware.ethtool(view, rest)
        case "ipmitool":
            return management.ipmitool(view, rest)
        case "sh":
            printed = {"top": processes.top, "ps": processes.stuck, "cpufreq": processes.clocks}
            return 0, printed[rest[-1]](view), ""
        case "py-spy":
            return 0, ranks.stacks(view), ""
        case "environ":
            return 0, ranks.environment(view), ""
        case "ncclras":
            return ranks.communicators(view)
        case "nfsiostat" if view.twin.layout.storage_kind == "lustre":
            return 0, ranks.lustre_imports(view), ""
        case "nfsiostat":
            return 0, ranks.storage_times(view), ""
        case "journalctl":
            return 0, processes.journal(view), ""
    if rest[:1] == ["list"]:
        return 0, smart.nvme_list(view), ""
    disk = smart.number_of(rest[-1])
    if disk is None:
        return 2, "", f"{rest[-1]}: No such file or directory\n"
    if tool == "nvme":
        return 0, smart.nvme_log(view, disk), ""
    return *smart.smartctl(view, disk, rest), ""
