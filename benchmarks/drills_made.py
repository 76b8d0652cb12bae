"""Random scenarios of fault kinds, with what a right diagnosis says of them: the same seed makes the same scenarios.

They are made from what each kind says of itself (where it may be, its parameters, root cause), so that a new kind is
tried as well. Forms: `plain`; `herrings`, with harmless things that look bad; `two`, with planned work elsewhere at the
same time; `weak`, with little of it that comes slowly; `after`, behind something that slows the job a little.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from stethoscope.sim.kinds.registry import KINDS
from stethoscope.specs.duration import duration_s
from stethoscope.specs.place import FleetShape
from stethoscope.specs.root_cause import load_root_causes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.sim.kinds.kind import Kind
    from stethoscope.specs.scenario import Param, Value

FORMS = ("plain", "herrings", "two", "weak", "after")
HERRINGS = ("historic_counters", "idle_node", "maintenance_drain", "checkpoint_periodic", "ambient_shift")
PLANNED = (
    "gpu_sbe_growth", "gpu_row_remap_pending", "monitor_heartbeat_lost", "driver_version_drift", "nvlink_crc_errors",
)  # fmt: skip
"""What may be at the same time: findings for tomorrow, behind which the cause of today must not hide."""
SLOWS = (
    ("gpu_silent_slow", {"compute_factor": 1.06}),
    ("ib_optic_degraded", {"symbol_errors_per_s": 4.0, "bandwidth_factor": 0.85, "rx_power_dbm": -6.5}),
    ("cpu_governor_powersave", {}),
)  # fmt: skip
"""What may have slowed the job a little before what stops it came."""
ENDS = frozenset((
    "host_oom_kill", "rank_process_died", "app_illegal_access", "rank_cuda_oom", "collective_mismatch",
    "firewall_blocked", "checkpoint_stall", "disk_full", "fs_readonly",
))  # fmt: skip
"""Kinds that stop a job, beside those of P0."""
LONG_S = 1080.0
"""So long is played: a job that hangs dies of its watchdog 600 s after the fault."""
GPUS = ("H100-SXM5-80GB", "H100-SXM5-80GB", "A100-SXM4-80GB", "H200-SXM", "B200")
_WITHIN_S = {"P0": 60.0, "P1": 90.0, "P2": 150.0}
_OF_LOSS_S = 180.0
"""A loss jumps some times before anybody can call it odd."""
_KEPT = ("code", "index", "list")
"""Units of parameters that mean something else with another value."""
_NAMES_OF_DISKS = ("nvme1n1", "nvme2n1")


def made(kind: str, form: str, seed: int, nodes: int = 12) -> dict[str, Any]:
    """Return the document of one scenario of a kind, in one of FORMS."""
    random = Random(f"{kind} {form} {seed}")
    fleet = {
        "nodes": nodes, "gpus_per_node": 8, "gpu": random.choice(GPUS),
        "ib_ports_per_node": 8, "ib_rate_gbps": 400, "nodes_per_rack": 4, "nodes_per_pod": random.choice((4, 6, 12)),
    }  # fmt: skip
    if fleet["gpu"].startswith("A100"):
        fleet["ib_rate_gbps"] = 200
    place = _Places(random, FleetShape(**fleet), str(random.randrange(1000, 99_999)))
    cause = KINDS[kind]
    at_s = float(random.randrange(200, 330, 5))
    where = place.of(cause)
    params = {name: value for name, value in _params(random, cause, weak=form == "weak").items() if value is not None}
    event: dict[str, Any] = {"at": f"{at_s:g}s", "fault": kind, "where": where}
    if params:
        event["params"] = params
    events, background, innocent = [event], [], []
    is_healthy = cause.root_cause == "healthy"
    if form == "herrings" or (form == "two" and cause.severity == "P2"):
        # Of two that are planned work neither is the one of today.
        background, innocent = _herrings(random, place, kind)
    if form == "two" and not is_healthy and cause.severity != "P2":
        other = KINDS[random.choice([name for name in PLANNED if name in KINDS and name != kind])]
        events.append(
            {"at": f"{random.randrange(120, int(at_s), 5)}s", "fault": other.name, "where": place.of(other, apart=True)}
        )
    if form == "after" and not is_healthy and (cause.severity == "P0" or kind in ENDS):
        slows, some = random.choice([one for one in SLOWS if one[0] != kind])
        events.insert(0, {"at": "185s", "fault": slows, "where": place.of(KINDS[slows], apart=True), "params": some})
        event["at"] = f"{at_s + 150.0:g}s"
    return {
        "schema": "stethoscope.scenario/1",
        "id": f"{kind.replace('_', '-')}-{form}-{seed}",
        "title": f"{cause.title} ({form})",
        "source": "made",
        "seed": random.randrange(1_000_000),
        "duration": f"{LONG_S:g}s",
        "fleet": fleet,
        "jobs": [place.job(random)],
        "events": events,
        "background": background,
        "expect": _expect(cause, where, params, [one for one in events if one is not event], innocent),
    }


class _Places:
    """Places of one fleet, most of whose nodes run a job."""

    def __init__(self, random: Random, shape: FleetShape, job: str) -> None:
        self._random, self._shape, self._job = random, shape, job
        names = shape.node_names()
        self.idle = names[len(names) - random.choice((0, 1, 2)) :] if len(names) > 4 else []
        self.busy = [name for name in names if name not in self.idle]
        self._step_s = random.uniform(0.6, 4.0)
        self._used: set[str] = set()

    def job(self, random: Random) -> dict[str, Any]:
        """Return the job that runs."""
        compute, comm, data = random.uniform(0.45, 0.6), random.uniform(0.18, 0.3), random.uniform(0.03, 0.07)
        shares = {"compute": round(compute, 2), "comm": round(comm, 2), "data": round(data, 2)}
        shares["other"] = round(1 - sum(shares.values()), 2)
        return {
            "id": self._job, "nodes": f"gpu-[{self.busy[0][4:]}-{self.busy[-1][4:]}]", "shares": shares,
            "step_time_s": round(self._step_s, 2), "samples_per_step": 64 * len(self.busy), "framework": "pytorch",
        }  # fmt: skip

    def of(self, kind: type[Kind], *, apart: bool = False) -> str:
        """Return a place for a kind, on a node that the job has; `apart` from those that were given out."""
        random = self._random
        # Of a kind that may be everywhere, the place that can be repaired.
        forms = sorted(kind.targets - {"fleet"}) or sorted(kind.targets)
        form = random.choice(forms)
        free = [name for name in self.busy if name not in self._used] if apart else self.busy
        node = random.choice(free or self.busy)
        number, port = random.randrange(self._shape.gpus_per_node), random.randrange(self._shape.ib_ports_per_node)
        at = self._shape.node_names().index(node)
        if form not in ("job", "storage", "fleet"):
            self._used.add(node)
        match form:
            case "gpu":
                return f"{node}/gpu/{number}"
            case "ib":
                return f"{node}/ib/mlx5_{port}"
            case "nvlink":
                return f"{node}/nvlink/{number}/{random.randrange(12)}"
            case "disk":
                return f"{node}/disk/{random.choice(_NAMES_OF_DISKS)}"
            case "cpu":
                return f"{node}/cpu"
            case "rack":
                return f"rack/{self._shape.rack(at)}"
            case "pod":
                return f"pod/{self._shape.pod(at)}"
            case "leaf":
                return f"leaf/{self._shape.leaf(at, port)}"
            case "job":
                return f"job/{self._job}"
            case "rank":
                return f"job/{self._job}/rank/{self.busy.index(node) * self._shape.gpus_per_node + number}"
            case "storage":
                return "storage/shared"
            case "fleet":
                return "fleet"
        return node


def _herrings(random: Random, place: _Places, kind: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return harmless things that look bad, and the nodes that they are on."""
    events: list[dict[str, Any]] = []
    innocent: list[str] = []
    for name in random.sample(HERRINGS, 3):
        if name == kind or name not in KINDS:
            continue
        if name in ("idle_node", "maintenance_drain"):
            if not place.idle:
                continue
            where = place.idle[-1] if name == "maintenance_drain" else place.idle[0]
            if any(event["where"] == where for event in events):
                continue
        else:
            where = place.of(KINDS[name], apart=True)
        events.append({"at": "0s", "fault": name, "where": where})
        if where.startswith("gpu-"):
            innocent.append(where.split("/")[0])
    return events, innocent


def _expect(
    cause: type[Kind], where: str, params: dict[str, Value], others: Sequence[dict[str, Any]], innocent: list[str]
) -> dict[str, Any]:
    if cause.root_cause == "healthy":
        return {
            "scope": "none", "layer": "none", "root_cause": "healthy", "culprits": [], "not_blamed": innocent,
            "severity": "none",
        }  # fmt: skip
    if _is_untold(cause, where, params):
        return {
            "scope": cause.scope, "layer": "none", "root_cause": "unknown", "culprits": [], "not_blamed": innocent,
            "severity": "P1", "accept": {"scope": ["unknown", "global", "local"]},
        }  # fmt: skip
    layer = load_root_causes()[cause.root_cause].layer
    lasts_s = sum(float(value) for name, value in params.items() if name in ("ramp", "leak_for", "eio_after") and value)
    within_s = _WITHIN_S[cause.severity] + lasts_s + (_OF_LOSS_S if cause.name == "gpu_sdc" else 0.0)
    severity, scope = cause.severity, cause.scope
    if params.get("effect") == "start_fail":
        # The next start fails: a job is dead.
        severity = "P1"
    if cause.name == "data_loader_slow" and where.count("/") == 1 and where.startswith("job/"):
        # All ranks wait alike.
        scope = "global"
    accept: dict[str, list[str]] = {}
    if severity == "P1":
        # Where little is lost it is planned work.
        accept["severity"] = ["P2"]
    if others:
        accept["root_cause"] = [KINDS[event["fault"]].root_cause for event in others]
    return {
        "scope": scope, "layer": layer, "root_cause": cause.root_cause, "culprits": [where],
        "not_blamed": innocent, "detect_within": f"{within_s:g}s", "severity": severity,
        **({"accept": accept} if accept else {}),
    }  # fmt: skip


def _is_untold(cause: type[Kind], where: str, params: dict[str, Value]) -> bool:
    """Tell whether nothing that can be read tells this cause from others: `unknown` is the right answer then."""
    if cause.name == "gpu_sdc":
        return not params.get("diag_fails", True)
    if cause.name != "collective_mismatch" or "/rank/" in where:
        return False
    return (
        params.get("ras", "ok") == "ok" and params.get("flight_recorder") != "on" and params.get("py_spy") != "differs"
    )


def _params(random: Random, kind: type[Kind], *, weak: bool) -> dict[str, Value]:
    """Return parameters around their defaults; `weak` ones do a third of it, slowly."""
    return {name: _param(random, name, param, weak=weak) for name, param in kind.params.items()}


def _param(random: Random, name: str, param: Param, *, weak: bool) -> Value:
    value, unit = param.default, param.unit
    if param.words:
        return random.choice(param.words) if random.random() < 0.4 else value
    if isinstance(value, str) and unit == "s":
        value = duration_s(value)
    if unit in _KEPT or value is None or isinstance(value, bool | str | tuple):
        return None if isinstance(value, tuple) else value
    if unit == "s":
        much = random.uniform(2.5, 3.5) if weak and name == "ramp" else random.uniform(0.7, 1.5)
        return round(value * much, 1)
    if unit == "ratio" and value != 1.0 and name != "duty":
        loss = abs(value - 1.0) * (0.3 if weak else random.uniform(0.6, 1.3))
        return round(1.0 + loss if value > 1 else max(0.05, 1.0 - loss), 3)
    if unit in ("C", "gen", "lanes", "ratio", "points", "%", "cards"):
        return value
    if unit in ("MHz", "W", "dBm"):
        return round(value * (1.25 if weak and unit != "dBm" else random.uniform(0.85, 1.08)), 1)
    if unit == "Gb/s":
        return random.choice((value, value / 2)) if value >= 100 else value
    if unit == "count" and value <= 10:
        return value
    return round(value * (0.3 if weak else random.uniform(0.6, 2.0)), 0 if unit == "count" else 2)
