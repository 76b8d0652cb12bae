"""Outputs that hold no values, told apart by what the tools and the shells print: each has a named reason."""

from __future__ import annotations

import re

from stethoscope.model.report import ToolError
from stethoscope.text import clean

_TELLS: tuple[tuple[str, str], ...] = (
    (r"\bcommand not found\b|: not found[ \t]{0,8}$|is not installed", "not_installed"),
    (r"(?:Befehl|Kommando) nicht gefunden|commande introuvable|orden no encontrada|未找到命令|コマンドが見つかりません",
     "not_installed"),
    (r"couldn't communicate with the NVIDIA driver|Driver Not Loaded|driver is not loaded", "driver"),
    (r"Driver/library version mismatch|couldn't find libnvidia-ml|NVML Shared Library Not Found", "driver"),
    (r"Failed to initialize NVML: Insufficient Permissions", "permission"),
    (r"Failed to initialize NVML", "driver"),
    (r"GPU is lost|Unable to determine the device handle", "no_answer"),
    (r"No devices were found|No devices found|No AMD GPUs|No NVIDIA GPU", "no_device"),
    (r"Fatal error:\s+No devices|Did not detect devices|Unable to find the Infiniband/RoCE device", "no_device"),
    (r"Failed to get IB devices list|Failed to open NETLINK_RDMA", "no_device"),
    (r"is ib_umad module loaded|can't open UMAD port|Failed to open \(null\) port", "no_device"),
    (r"_do_madrpc failed|mad_rpc.{0,120} failed|Query SA failed|query_path failed", "no_answer"),
    (r"No such device|No such file or directory|does not exist|Unable to detect device type"
     r"|No data available", "no_device"),
    (r"Permission denied|Operation not permitted|must be root|requires root|[Rr]oot privileges", "permission"),
    (r"a password is required|a terminal is required|sudo: .{0,200}(?:not allowed|may not run)", "permission"),
    (r"^Sorry, user .{1,80} (?:is not allowed to execute|may not run)|^sudo: (?!unable to resolve host)", "permission"),
    (r"Keine Berechtigung|Permission non accordée|Permiso denegado|权限不够|許可がありません", "permission"),
    (r"Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier|No existe el (?:fichero|archivo)"
     r"|没有那个文件或目录|そのようなファイルやディレクトリはありません", "no_device"),
    (r"Connection timed out|[Tt]imed out|Connection refused|Unable to establish|Unable to connect"
     r"|Device is in (?:STANDBY|SLEEP)", "no_answer"),
    (r"Operation not supported|not supported by|Function not implemented", "no_device"),
    (r"is not a valid field to query|unrecogni[sz]ed option|[Ii]nvalid option|[Uu]nknown option"
     r"|[Ii]nvalid combination|ERROR: Option|Please run 'nvidia-smi -h'"
     r"|Option .{1,40} is not recogni[sz]ed", "refused"),
)  # fmt: skip
_HEADS = {
    "nvidia-smi -q": r"=NVSMI LOG=",
    "nvidia-smi --query": r"^(?:timestamp|index|count|name|uuid|driver_version|gpu_name|pci\.bus_id), [a-z]",
    "nvidia-smi": r"^\| NVIDIA-SMI \d|^GPU \d{1,3}: ",
    "nvidia-smi nvlink": r"^GPU \d{1,3}: ",
    "dcgmi": r"^#\s?Entity|^Successfully ran diagnostic",
    "perfquery": r"^# Port.{0,40}counters: Lid",
    "ibstat": r"^CA '|^hca_id:",
    "ethtool": r"^Settings for \S|^NIC statistics:",
    "mlxlink": r"^Operational Info|^Module Info",
}  # fmt: skip
"""How the output of a tool begins: where nothing follows that is read, it was cut off."""
_COMPILED = tuple((re.compile(pattern, re.MULTILINE), reason) for pattern, reason in _TELLS)
_NOT_INSTALLED, _NOT_RUNNABLE = 127, 126
_SAID = 200
_LINE, _LINES = 1000, 100
"""A tool says what is wrong in a short line, among the first or the last ones: the rest is not searched."""


def without_values(text: str, *, exit: int = 0, err: str = "", tool: str) -> ToolError:  # noqa: A002  the shell's word
    """Return why an output of `tool` in which no value was found has none: what it printed tells, else its exit status;
    text that the tool never prints is `not_this_tool`."""
    said = "\n".join([*_searched(text), *_searched(err)])
    for pattern, reason in _COMPILED:
        match = pattern.search(said)
        if match is not None:
            start = said.rfind("\n", 0, match.start()) + 1
            end = said.find("\n", match.end())
            line = said[start : end if end >= 0 else len(said)]
            return ToolError(reason, f"{tool}: {clean(line.strip(), _SAID)}")
    if exit == _NOT_INSTALLED:
        return ToolError("not_installed", f"{tool} is not installed")
    if exit == _NOT_RUNNABLE:
        return ToolError("permission", f"{tool} may not be run")
    if tool in _HEADS and re.search(_HEADS[tool], said, re.MULTILINE):
        return ToolError("truncated", f"the output of {tool} ends before its first value")
    if not said:
        return ToolError("empty", f"{tool} printed nothing" + (f" and ended with status {exit}" if exit else ""))
    first = clean(said.splitlines()[0].strip(), 80)
    return ToolError("not_this_tool", f'this is not what {tool} prints: "{first}"')


def _searched(text: str) -> list[str]:
    """Return the lines in which an error can stand, none of them long."""
    lines = text.strip().split("\n")
    if len(lines) > 2 * _LINES:
        lines = lines[:_LINES] + lines[-_LINES:]
    return [line[:_LINE] for line in lines if line]
