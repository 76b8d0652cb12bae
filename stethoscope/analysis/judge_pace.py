"""Slow without an error: step times, the share of data loading, slow ranks, results of nccl-tests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, INFERRED, SYMPTOM, Candidate, Note, culprits_of, make_culprit
from stethoscope.model.finding import Severity

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene
    from stethoscope.model.logs import Culprit

SLOW_SCORE = 0.75
"""Relative performance below which a rank is named by the straggler report."""
LARGE_BYTES = 64 * 1024 * 1024
"""Only results of large messages say anything about bandwidth."""
_GOOD_GBS: tuple[tuple[str, int, float], ...] = (
    ("GB200", 1, 600.0),
    ("B200", 1, 600.0),
    ("B300", 1, 600.0),
    ("H200", 1, 330.0),
    ("H100", 1, 330.0),
    ("H800", 1, 150.0),
    ("H20", 1, 330.0),
    ("A100-SXM", 1, 200.0),
    ("A100-SXM", 2, 60.0),
    ("H100", 2, 150.0),
    ("H200", 2, 150.0),
)
"""All-reduce bus bandwidth (GB/s) under which 8 GPUs of a model on one host, or several hosts, are suspect."""
_SWITCHED_OFF = {
    1: {("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "L"), ("NCCL_SHM_DISABLE", "1")},
    2: {("NCCL_IB_DISABLE", "1"), ("NCCL_NET_GDR_LEVEL", "L"), ("NCCL_NET_GDR_LEVEL", "0"), ("NCCL_NET", "S")},
}
"""Variables with the first letter of the value that makes transfers within one host, or between hosts, slow."""
_TIMES = re.compile(
    r"(?i)\b(?:elapsed time per iteration \(ms\)|iter(?:ation)?[_ ]time|step[_ ]time|time)[ :=]+"
    r"(?P<value>[\d.]+)\s?(?P<unit>ms|s)?\b"
)
_DATA = re.compile(
    r"(?i)\b(?:data|data[_ ](?:time|load|loading)|batch[_ ]generator|dataloader)['\" ]*[ :=]+['\"]?(?P<value>[\d.]+)"
)
_PACE = re.compile(r"(?P<value>[\d.]+)\s?(?P<unit>s/it|it/s|s/step|sec/step)")


def slow(scene: Scene) -> list[Candidate]:
    """Return why a job that lives is slow."""
    return [
        *_reports(scene),
        *_health(scene),
        *_drift(scene),
        *_data_share(scene),
        *_bandwidth(scene),
        *_staged(scene),
        *_wrong_results(scene),
    ]


def _reports(scene: Scene) -> list[Candidate]:
    warned = [c for c in scene.find("training.straggler_warning") if c.number("rank") is not None]
    scores = [c for c in scene.find("training.straggler_score") if _score(c) is not None]
    low = sorted((c for c in scores if (_score(c) or 1.0) < SLOW_SCORE), key=lambda c: _score(c) or 1.0)
    clues = [*warned, *low]
    if not clues:
        return []
    culprits: list[Culprit] = []
    for clue in clues:
        culprit = make_culprit(scene, clue.number("rank"), clue.text("host") or None)
        if (culprit.rank, culprit.host) not in [(c.rank, c.host) for c in culprits]:
            culprits.append(culprit)
    notes = [Note("this rank works slower than the others", c, str(_score(c)), "about 1") for c in low[:2]]
    return [
        Candidate(
            "straggler_or_slow_rank",
            0.9,
            clues,
            DIRECT,
            culprits[:4],
            supports=notes,
            checks=[
                "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER on that GPU: throttle reasons",
                "its ECC, NVLink, PCIe and NIC counters; load of its host",
            ],
        )
    ]


def _score(clue: Clue) -> float | None:
    value = clue.text("score")
    try:
        return float(value)
    except ValueError:
        return None


def _health(scene: Scene) -> list[Candidate]:
    """A node health check that failed names its node; the check's name says of what kind."""
    clues = scene.find("health.nhc")
    if not clues:
        return []
    head = clues[0]
    said = f"{head.text('check')} {head.text('text')}".lower()
    cause = head.root_cause or "straggler_or_slow_rank"
    for words, named in (
        (("ib_", "_ib", " ib ", "mlx", "infiniband", "link down"), "ib_link_fault"),
        (("ecc", "row remap"), "gpu_memory_fault"),
        (("nvlink",), "nvlink_fault"),
        (("xid", "gpu_count", "gpu count"), "gpu_hw_fault"),
        (("pcie", "bandwidthtest", "h2d", "d2h"), "pcie_fault"),
        (("fs_", "disk", "mount"), "storage_io"),
    ):
        if any(word in said for word in words):
            cause = named
            break
    found = Candidate(cause, 0.6, clues, INFERRED, culprits_of(scene, clues, by_host=True))
    if cause == "straggler_or_slow_rank":
        found.severity = Severity.P1
        found.summary = f"the health check of a node failed: {head.text('check')}"
    return [found]


def _seconds(clue: Clue) -> float | None:
    """Return the time of one step as the line says it."""
    number = clue.text("ms")
    if number:
        try:
            return float(number) / 1000
        except ValueError:
            return None
    found = _TIMES.search(clue.event.text)
    if found:
        value = float(found["value"].rstrip(".") or 0)
        return value / 1000 if found["unit"] == "ms" or "(ms)" in found[0] else value
    pace = _PACE.search(clue.event.text)
    if pace and float(pace["value"].rstrip(".") or 0) > 0:
        value = float(pace["value"].rstrip("."))
        return 1 / value if pace["unit"] == "it/s" else value
    return None


def _drift(scene: Scene) -> list[Candidate]:
    """Steps that take longer and stay so: one rank sets the pace, or what all of them wait for."""
    steps = [
        (c, s) for c in scene.find("training.progress", "training.step") if (s := _seconds(c)) is not None and s > 0
    ]
    if len(steps) < 8 or any(c.role == "cause" for c in scene.clues):
        return []
    from statistics import median

    quarter = max(3, len(steps) // 4)
    early = median(s for _, s in steps[:quarter])
    late = median(s for _, s in steps[-quarter:])
    if late < 1.3 * early:
        return []
    spread = median(abs(s - early) for _, s in steps[:quarter])
    if late - early < 6 * spread:
        return []
    change = next(c for c, s in steps if s > (early + late) / 2)
    note = Note(f"a step took {early:.3g} s and takes {late:.3g} s", change, f"{late:.3g} s", f"{early:.3g} s")
    return [
        Candidate(
            "straggler_or_slow_rank",
            0.5,
            [change, *[c for c, _ in steps[-1:]]],
            INFERRED,
            [],
            severity=Severity.P2,
            supports=[note],
            missing=["which rank sets the pace: step times of each rank, or power and clocks of all GPUs"],
        )
    ]


def _data_share(scene: Scene) -> list[Candidate]:
    """Most of each step goes by in waiting for data."""
    shares = []
    for clue in scene.find("training.step", "training.progress"):
        data, total = _DATA.search(clue.event.text), _seconds(clue)
        if data and total:
            shares.append((clue, float(data["value"].rstrip(".") or 0) / total))
    late = shares[len(shares) // 3 :]
    if len(late) < 4:
        return []
    from statistics import median

    if median(share for _, share in late) < 0.4:
        return []
    share = median(share for _, share in late)
    note = Note(f"{share:.0%} of a step goes by in waiting for data", late[-1][0], f"{share:.0%}", "a few per cent")
    checks = [
        "num_workers, prefetch and pinning of the loader; read rate and latency of the storage",
        "py-spy dump of a loader worker",
    ]
    return [Candidate("data_loading", 0.7, [c for c, _ in late], INFERRED, [], supports=[note], checks=checks)]


def _bandwidth(scene: Scene) -> list[Candidate]:
    """Results of nccl-tests far under what the machines can do, without an error: the network in use says why."""
    rows = [c for c in scene.find("tests.row") if (c.number("size") or 0) >= LARGE_BYTES and _busbw(c) is not None]
    if not rows or any(c.role == "cause" for c in scene.clues):
        return []
    best = max(_busbw(c) or 0.0 for c in rows[-3:])
    models = " ".join(c.text("model") for c in scene.find("tests.rank"))
    hosts = {c.text("host") for c in scene.find("tests.rank")} or set(scene.who.hosts)
    nodes = 2 if len(hosts) > 1 else 1
    gpus = len(scene.find("tests.rank"))
    good = next((g for name, n, g in _GOOD_GBS if n == nodes and name in models and (nodes == 2 or gpus == 8)), None)
    if nodes == 2 and good is None:
        good = 2.0
    if good is None or best >= good:
        return []
    note = Note(
        f"bus bandwidth of {best:.3g} GB/s at large sizes", rows[-1], f"{best:.3g} GB/s", f"above {good:.3g} GB/s"
    )
    drops = [c for c in scene.find("net.counter") if "discards" in c.text("name") and (c.number("value") or 0) > 0]
    notes = [note, *[Note("the port discards packets", c, c.text("value"), "0") for c in drops[:1]]]
    used = set().union(*scene.networks.values()) if scene.networks else set()
    if nodes == 2 and "Socket" in used:
        return [
            Candidate(
                "config_env_error", 0.6, rows, INFERRED, [], supports=[*notes, Note("the test ran over TCP sockets")]
            )
        ]
    if nodes == 2 and "RoCE" in scene.link_kinds and best < 0.25 * good:
        checks = [
            "priority flow control and ECN end to end for the priority in use; NCCL_IB_TC into the lossless class",
            "ethtool -S: rx_prio*_pause, rx_discards_phy, out_of_buffer; counters of the switch ports",
            "many-to-one with ib_write_bw: a single pair may look right",
        ]
        return [Candidate("roce_misconfig", 0.75 if drops else 0.65, rows, INFERRED, [], supports=notes, checks=checks)]
    staged = [c for c in scene.find("nccl.channel.net") if not c.text("gdr")]
    if nodes == 2 and (staged or scene.find("nccl.gdr.disabled")):
        shown = (scene.find("nccl.gdr.disabled") or staged)[0]
        return [
            Candidate(
                "config_env_error",
                0.55,
                rows,
                INFERRED,
                [],
                supports=[*notes, Note("GPUDirect RDMA is not in use", shown)],
            )
        ]
    if nodes == 2 and (scene.find("nccl.topo.file") or len(_nics(scene)) == 1):
        return [Candidate("topology_or_affinity", 0.5, rows, INFERRED, [], supports=notes)]
    off = [c for c in scene.find("nccl.env") if (c.text("var"), c.text("val")[:1]) in _SWITCHED_OFF[nodes]]
    if off:
        why = Note("the environment switches the fast path off", off[0], f"{off[0].text('var')}={off[0].text('val')}")
        culprits = culprits_of(scene, off, by_host=True)
        return [Candidate("config_env_error", 0.7, rows, INFERRED, culprits, supports=[why, *notes])]
    if nodes == 1:
        shared = scene.find("nccl.channel.shm")
        if shared:
            notes.append(Note("GPUs exchange data through host memory", shared[0]))
        cause = "p2p_acs_iommu" if shared and "SXM" not in models and "HBM3" not in models else "nvlink_fault"
        host = next(iter(hosts), None)
        return [
            Candidate(cause, 0.5, rows, INFERRED, [make_culprit(scene, None, host)] if host else [], supports=notes)
        ]
    return [Candidate("straggler_or_slow_rank", 0.35, rows, SYMPTOM, [], supports=notes)]


def _staged(scene: Scene) -> list[Candidate]:
    """Between hosts without GPUDirect: slower than it could be, and nothing fails of it."""
    off = scene.find("nccl.gdr.disabled")
    if not off or scene.who.nodes == 1 or scene.find("tests.row"):
        return []
    return [
        Candidate(
            "config_env_error",
            0.5,
            off,
            INFERRED,
            culprits_of(scene, off, by_host=True),
            summary="GPUDirect RDMA is off: every byte between hosts goes through host memory",
            severity=Severity.P2,
            checks=["lsmod | grep nvidia_peermem; the line 'DMA-BUF is available'; NCCL_NET_GDR_LEVEL"],
        )
    ]


def _nics(scene: Scene) -> set[str]:
    return {c.text("nic") for c in scene.find("nccl.channel.net") if c.text("dir") == "send"}


def _busbw(clue: Clue) -> float | None:
    try:
        return float(clue.text("busbw"))
    except ValueError:
        return None


def _wrong_results(scene: Scene) -> list[Candidate]:
    """Wrong data and no error: a path that corrupts what it carries."""
    failed = [c for c in scene.find("tests.out_of_bounds") if c.text("verdict") == "FAILED" or (c.number("n") or 0) > 0]
    if not failed:
        return []
    checks = [
        "run again with NCCL_P2P_DISABLE=1, then with NCCL_NET_GDR_LEVEL=LOC: what makes it right?",
        "lspci -vvv | grep ACSCtl",
    ]
    hosts = {c.text("host") for c in scene.find("tests.rank")}
    culprits = [make_culprit(scene, None, host) for host in hosts] if len(hosts) == 1 else []
    note = Note("the result of the collective is wrong", failed[0])
    return [Candidate("p2p_acs_iommu", 0.75, failed, DIRECT, culprits, supports=[note], checks=checks)]
