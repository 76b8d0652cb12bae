"""Which kind of fault can follow from which: a later consequence of a fault is never its root cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.specs.rule import Rule

_RANKS = {
    "psu_fault": 0, "gpu_power": 0, "cooling_fault": 0,
    "switch_fault": 1, "nic_fault": 2, "ib_link_down": 2, "driver_bug": 2, "version_mismatch": 2,
    "cpu_or_memory_fault": 2, "pcie_fault": 2, "nvlink_fault": 3, "gpu_memory_fault": 3, "gpu_hw_fault": 3,
    "fabric_manager_fault": 3, "driver_hung": 3, "gpu_fallen_off_bus": 3, "gpu_thermal": 3, "disk_wear": 3,
    "ib_link_fault": 3, "ib_speed_low": 3, "nic_pcie_fault": 3, "roce_misconfig": 3, "wrong_interface": 3,
    "switch_congestion": 4, "storage_io": 4, "shared_fs_stall": 4, "fs_full_or_readonly": 4, "ckpt_io": 5,
    "node_down": 5, "telemetry_lost": 6, "data_loading": 6, "straggler_or_slow_rank": 6, "peer_process_died": 6,
}  # fmt: skip
"""Root cause -> how far back it stands in a chain of consequences: less is earlier."""
_MIDDLE = 4
_SWITCHED = frozenset({
    "switch_fault", "nic_fault", "ib_link_down", "ib_link_fault", "ib_speed_low", "roce_misconfig", "switch_congestion",
    "shared_fs_stall", "storage_io", "ckpt_io", "node_down", "telemetry_lost", "data_loading", "straggler_or_slow_rank",
    "peer_process_died",
})  # fmt: skip
"""What can follow from a fault of a switch."""
_STORED = frozenset({"storage_io", "shared_fs_stall", "fs_full_or_readonly", "ckpt_io", "data_loading"})
_FOLLOWS = {
    "leaf": _SWITCHED,
    "leaf of nodes": _SWITCHED,
    "rail": _SWITCHED,
    "node": frozenset({"node_down", "telemetry_lost"}),
    "mount": _STORED,
    "storage": _STORED,
}
_EVERYTHING = frozenset({"rack", "pod"})
"""What power and cold air come from: anything can follow."""
_BECOMES = {
    ("leaf", "ib_link_down"): "switch_fault",
    ("leaf", "ib_link_fault"): "switch_fault",
    ("leaf", "ib_speed_low"): "switch_fault",
    ("rail", "ib_link_down"): "switch_fault",
    ("rack", "gpu_power"): "psu_fault",
    ("rack", "gpu_thermal"): "cooling_fault",
    ("node", "gpu_thermal"): "cooling_fault",
    ("node", "ib_link_down"): "nic_fault",
    ("mount", "storage_io"): "shared_fs_stall",
    ("storage", "storage_io"): "shared_fs_stall",
    ("driver", "driver_hung"): "driver_bug",
}
"""What many faults of one class come to when a group of this kind has them in common."""
TOGETHER = frozenset({"leaf", "rack", "pod"})
"""Kinds whose fault makes neighbours in the same jobs suffer, who are not part of it."""
_SUFFERED = frozenset({"switch_congestion", "data_loading", "straggler_or_slow_rank", "peer_process_died"})


STOPS = frozenset({
    "node_down", "gpu_fallen_off_bus", "gpu_hw_fault", "gpu_memory_fault", "nvlink_fault", "driver_hung",
    "ib_link_down", "switch_fault", "nic_fault", "psu_fault", "host_oom", "peer_process_died",
})  # fmt: skip
"""What stops the whole of a job that meets it: power and traffic of all its nodes fall then."""
SLOWS = frozenset({
    "ib_link_fault", "ib_speed_low", "switch_congestion", "nic_pcie_fault", "roce_misconfig", "wrong_interface",
    "gpu_thermal", "cooling_fault", "gpu_power", "gpu_clock_config", "pcie_fault", "fabric_manager_fault",
    "cpu_contention", "cpu_or_memory_fault", "storage_io", "shared_fs_stall", "disk_wear", "straggler_or_slow_rank",
})  # fmt: skip
"""What makes the whole of a job wait for the one that has it, where it is urgent."""
WAITS = frozenset({"unknown", "straggler_or_slow_rank"})
"""What GPUs and ports seem to have that wait for another one of their job."""


def rank(rule: Rule) -> int:
    """Return how far back a finding of `rule` stands in a chain of consequences, less being earlier."""
    return _RANKS.get(rule.root_cause or "", _MIDDLE)


def may_follow(kind: str, first: Rule, later: Rule) -> bool:
    """Tell whether `later` can be a consequence of `first` where a group of `kind` has both."""
    if rank(first) > rank(later):
        return False
    return kind in _EVERYTHING or (later.root_cause or "") in _FOLLOWS.get(kind, ())


def may_suffer(kind: str, first: Rule, later: Rule) -> bool:
    """Tell whether `later`, on nodes that only work with those of the group, can be a consequence of `first`."""
    return kind in TOGETHER and rank(first) < rank(later) and (later.root_cause or "") in _SUFFERED


def root_cause(kind: str, rule: Rule) -> str | None:
    """Return what the findings of `rule` come to when a group of `kind` has them in common."""
    return _BECOMES.get((kind, rule.root_cause or ""), rule.root_cause)
