"""The fabric between hosts: completions and whom they name, port events, queue pairs that do not connect."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import (
    DIRECT,
    INFERRED,
    TOGETHER_S,
    Candidate,
    Note,
    culprits_of,
    first_ones,
    make_culprit,
)
from stethoscope.analysis.judge_generic import alive_after
from stethoscope.model.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.analysis.judge_scene import Clue, Scene
    from stethoscope.model.logs import Culprit

MANY_HOSTS = 3
NO_ANSWER, FLUSHED, LOCAL_ACCESS = 12, 5, 4
_LINK = {"nccl.ib.async.port_error", "nccl.ib.speed_change", "nccl.ib.failover", "nccl.net.mixed_counts"}
_FABRIC_HARDWARE = {2, 3, 6, 7, 8, 19, 20, 21}


def fabric(scene: Scene) -> list[Candidate]:
    """Return what the lines of the fabric say."""
    return [*_events(scene), *_completions(scene), *_queue_pairs(scene)]


def _events(scene: Scene) -> list[Candidate]:
    """Asynchronous events of ports and adapters: the host that prints them has the port."""
    found = []
    fatal = scene.find("nccl.ib.async.device_fatal")
    if fatal:
        culprits = _with_devices(scene, fatal)
        found.append(
            Candidate(
                "nic_fault",
                0.85,
                fatal,
                DIRECT,
                culprits,
                severity=Severity.P0,
                summary="a network adapter reported a fatal error",
                checks=["dmesg of that host for mlx5 health, PCIe errors and resets; was its firmware reset by hand?"],
            )
        )
    link = [c for c in scene.clues if c.signature in _LINK]
    if link:
        back = scene.find("nccl.ib.async.port_active")
        alive = alive_after(scene, link[0])
        counted = [c for c in link if c.signature == "nccl.net.mixed_counts"]
        culprits = _with_devices(scene, [c for c in link if c not in counted]) or _fewer_devices(scene)
        candidate = Candidate(
            "ib_link_fault",
            0.9,
            link,
            DIRECT,
            culprits,
            severity=(Severity.P2 if back else Severity.P1) if alive else Severity.P0,
            summary="a fabric port lost its link" + (" and got it back" if back else ""),
            checks=[
                "ibstat and ibdev2netdev on the named host; dmesg for mlx5 link events at that minute",
                "counters link_downed and symbol_error of the port and of its switch port",
            ],
        )
        hosts = {c.host for c in link if c.host}
        if len(hosts) >= MANY_HOSTS and len(first_ones(link)) >= MANY_HOSTS:
            said = (
                f"ports of {len(hosts)} hosts within {TOGETHER_S:.0f} s: a switch or its power, not {len(hosts)} cables"
            )
            candidate.supports.append(Note(said, link[0], str(len(hosts)), "1"))
            candidate.checks.insert(0, "the switch that these ports share: its log, power, line cards")
        if alive:
            candidate.contradicts.append(Note("the job went on after it", (scene.progress() or scene.ends())[-1]))
            candidate.weight = 0.6
        found.append(candidate)
    queue = scene.find("nccl.ib.async.queue")
    if queue and not fatal:
        access = any("access" in c.event.text for c in queue)
        found.append(
            Candidate(
                "p2p_acs_iommu", 0.6 if access else 0.45, queue, INFERRED, culprits_of(scene, queue, by_host=True)
            )
        )
    return found


def _with_devices(scene: Scene, clues: Iterable[Clue]) -> list[Culprit]:
    """Return the hosts of these lines, with the adapter where they name exactly one."""
    by_host: dict[str, set[str]] = {}
    for clue in clues:
        if clue.host:
            by_host.setdefault(clue.host, set()).add(clue.text("hca"))
    return [
        make_culprit(scene, None, host, f"ib/{next(iter(names))}" if len(names) == 1 and "" not in names else None)
        for host, names in by_host.items()
    ][:4]


def _fewer_devices(scene: Scene) -> list[Culprit]:
    """Return the host that lists fewer fabric ports than the others."""
    if len(scene.devices) < 2:
        return []
    most: set[str] = set().union(*scene.devices.values())
    fewer = [host for host, names in scene.devices.items() if len(names) < max(map(len, scene.devices.values()))]
    if not fewer or len(fewer) * 2 > len(scene.devices):
        return []
    lost = sorted(most - scene.devices[fewer[0]])
    return [make_culprit(scene, None, host, f"ib/{lost[0]}" if len(lost) == 1 else None) for host in fewer][:4]


def _completions(scene: Scene) -> list[Candidate]:
    """Failed completions: the status decides, then whom they name and when they came; flushed ones are echoes."""
    by_status: dict[int, list[Clue]] = {}
    for clue in scene.find("nccl.ib.completion"):
        status = clue.number("status")
        if status is not None and status != FLUSHED:
            by_status.setdefault(status, []).append(clue)
    found = []
    if LOCAL_ACCESS in by_status:
        clues = by_status[LOCAL_ACCESS]
        direct = any(c.text("gdr") for c in scene.find("nccl.channel.net")) or bool(scene.find("nccl.gdr.enabled"))
        candidate = Candidate(
            "p2p_acs_iommu", 0.9 if direct else 0.75, clues, DIRECT, culprits_of(scene, clues, by_host=True)
        )
        candidate.supports.append(Note("the local adapter could not reach registered memory (status 4)", clues[0]))
        if direct:
            candidate.supports.append(
                Note("GPUDirect RDMA was in use", scene.find("nccl.channel.net", "nccl.gdr.enabled")[0])
            )
        found.append(candidate)
    if NO_ANSWER in by_status:
        found.append(_no_answer(scene, by_status[NO_ANSWER]))
    for status, clues in by_status.items():
        if status in (1, 9, 10):
            differ = settings_differ(scene)
            cause = "config_env_error" if differ else "collective_mismatch_desync"
            candidate = Candidate(
                cause, 0.65 if differ or status != 10 else 0.5, clues, INFERRED, culprits_of(scene, clues)
            )
            candidate.supports += differ
            found.append(candidate)
        elif status == 11:
            found.append(Candidate("p2p_acs_iommu", 0.55, clues, INFERRED, _peer_culprits(scene, clues)))
        elif status in _FABRIC_HARDWARE:
            found.append(Candidate("nic_fault", 0.5, clues, INFERRED, _with_devices(scene, clues)))
    return found


def _no_answer(scene: Scene, clues: list[Clue]) -> Candidate:
    """Status 12: nobody acknowledged. First collective, long run, one peer or all pairs: each means another cause."""
    head = clues[0]
    started = scene.progressed_before(head)
    roce = "RoCE" in scene.link_kinds or _looks_like_roce(clues)
    votes = _votes(scene, clues)
    suspect = _outvoted(scene, votes)
    rows = any(c.signature == "tests.row" for c in scene.progress())
    notes = [Note("nobody acknowledged within the retries (status 12)", head)]
    if suspect:
        count = len(votes[suspect])
        who = f"{count} ranks or hosts name" if count > 1 else "one rank names"
        notes.append(Note(f"{who} {suspect} as the peer", head, str(count)))
    adapters = {c.text("hca") for c in clues}
    device = f"ib/{next(iter(adapters))}" if len(adapters) == 1 and "" not in adapters else None
    fresh = not started and bool(scene.find("nccl.init.start", "nccl.init.complete", "nccl.connected", "nccl.ib.using"))
    if fresh and roce:
        forced = [c for c in scene.find("nccl.env") if c.text("var") == "NCCL_IB_GID_INDEX"]
        if forced:
            notes.append(Note("the GID index is forced by the environment", forced[0], forced[0].text("val")))
        notes.append(Note("it fails in the first collective over RoCE"))
        return Candidate(
            "gid_or_pkey_misconfig",
            0.65,
            clues,
            INFERRED,
            _all_hosts(scene, clues),
            supports=notes,
            checks=[
                "show_gids on both hosts: which index is RoCE v2 with an IPv4 address, is it the one NCCL uses?",
                "ib_write_bw -x INDEX between the two, with the traffic class NCCL uses",
            ],
            missing=["NCCL_DEBUG=INFO with NET and ENV: which GID index each side used"],
        )
    if roce and (rows or (suspect is None and len(votes) > 2)):
        notes.append(Note("many pairs fail, and only under load"))
        return Candidate("roce_misconfig", 0.6, clues, INFERRED, [], supports=notes)
    culprits = [make_culprit(scene, None, suspect, None)] if suspect else _hosts_of_pair(scene, clues)
    if suspect and device and len(clues) > 1 and len(votes) == 1 and len({c.host for c in clues}) == 1:
        culprits = [make_culprit(scene, None, suspect, device)]
    return Candidate(
        "ib_link_fault",
        0.65 if suspect and started else 0.5,
        clues,
        INFERRED,
        culprits,
        severity=Severity.P0,
        supports=notes,
        checks=[
            "ibstat, port counters and dmesg of the named peer and of the reporters at that minute",
            "is the process on the named peer alive? its own log decides between link and crash",
        ],
        missing=["the log and the kernel log of the named peer for the same minute"],
    )


def _looks_like_roce(clues: list[Clue]) -> bool:
    return any("ffff:" in c.text("local_gid", "remote_gid") for c in clues)


def _votes(scene: Scene, clues: list[Clue]) -> dict[str, set[str]]:
    """Return whom the completions name, each with those who name it."""
    votes: dict[str, set[str]] = {}
    for clue in clues:
        peer = clue.text("ip", "peer")
        if peer:
            voter = f"{clue.host}/{clue.rank if clue.rank is not None else clue.event.origin.pid}"
            votes.setdefault(scene.who.named(peer), set()).add(voter)
    return votes


def _outvoted(scene: Scene, votes: dict[str, set[str]]) -> str | None:
    """Return the peer that clearly more others name than any other one, None for a draw."""
    if not votes:
        return None
    counts = Counter({peer: len(voters) for peer, voters in votes.items()})
    (first, most), *rest = counts.most_common(2)
    if not rest:
        return first
    if most >= 2 and most > rest[0][1] and most * 2 >= counts.total():
        return first
    return None


def _hosts_of_pair(scene: Scene, clues: list[Clue]) -> list[Culprit]:
    hosts = dict.fromkeys(scene.who.named(c.text("ip", "peer")) for c in clues if c.text("ip", "peer"))
    if not hosts:
        hosts = dict.fromkeys(c.host for c in clues if c.host)
    return [make_culprit(scene, None, host) for host in hosts][:2] if len(hosts) <= 4 else []


def _all_hosts(scene: Scene, clues: list[Clue]) -> list[Culprit]:
    return culprits_of(scene, clues, by_host=True)


def _peer_culprits(scene: Scene, clues: list[Clue]) -> list[Culprit]:
    hosts = dict.fromkeys(scene.who.named(c.text("ip", "peer")) for c in clues if c.text("ip", "peer"))
    return [make_culprit(scene, None, host) for host in hosts][:4]


def settings_differ(scene: Scene) -> list[Note]:
    """Return the NCCL variables that hosts of one job have set differently, where that breaks collectives."""
    must_agree = {
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_BUFFSIZE",
        "NCCL_NTHREADS",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_NCHANNELS",
        "NCCL_P2P_NET_CHUNKSIZE",
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL_CROSS_NIC",
        "NCCL_IB_DISABLE",
        "NCCL_NET",
        "NCCL_P2P_DISABLE",
        "NCCL_NVLS_ENABLE",
        "NCCL_SHM_DISABLE",
    }
    hosts = [host for host in scene.settings if host] or list(scene.settings)
    talking = set(hosts) | set(scene.interfaces) - {""}
    notes = []
    for name in sorted({name for host in hosts for name in scene.settings[host] if name in must_agree}):
        values = {
            host: ",".join(sorted(scene.settings.get(host, {}).get(name, {"not set"}))) for host in talking if host
        }
        if len(set(values.values())) > 1:
            said = ", ".join(f"{host}: {value}" for host, value in sorted(values.items())[:4])
            shown = [c for c in scene.find("nccl.env") if c.text("var") == name]
            notes.append(Note(f"{name} differs between hosts ({said})", shown[0] if shown else None))
    return notes


def _queue_pairs(scene: Scene) -> list[Candidate]:
    """Queue pairs that cannot connect: the addresses of both ends say whether it is the rail, the GID or the route."""
    clues = [c for c in scene.find("nccl.verbs.modify_qp") if c.number("attempt") is None]
    retried = scene.find("nccl.verbs.modify_qp")
    if not clues:
        clues = retried
    if not clues or alive_after(scene, retried[-1]):
        return []
    crossing = [
        c for c in retried if _rail(c.text("local_gid")) != _rail(c.text("remote_gid")) and c.text("remote_gid")
    ]
    timed_out = [c for c in crossing if c.number("errno") == 110 or "timed out" in c.text("err")]
    if timed_out and len(crossing) == len([c for c in retried if c.text("remote_gid")]):
        notes = [
            Note(
                "local and remote address are in different rail networks", timed_out[0], timed_out[0].text("remote_gid")
            )
        ]
        device = timed_out[0].text("hca")
        culprit = make_culprit(scene, None, timed_out[0].host, f"ib/{device}" if device else None)
        return [
            Candidate(
                "topology_or_affinity",
                0.85,
                clues,
                DIRECT,
                [culprit],
                supports=notes,
                checks=[
                    "is there a route between the two rails? ip route get REMOTE from the local rail's address",
                    "NCCL_CROSS_NIC=0 on a fabric without routes between rails",
                ],
            )
        ]
    remote = Counter(c.text("remote_gid") for c in retried if c.text("remote_gid"))
    note = Note("the queue pair was refused on its way to ready", clues[0], clues[0].text("err"))
    return [
        Candidate(
            "gid_or_pkey_misconfig",
            0.8 if len(remote) != 1 else 0.7,
            clues,
            DIRECT,
            _with_devices(scene, clues),
            supports=[note],
        )
    ]


def _rail(gid: str) -> str:
    """Return the network part of a GID: the first three numbers of an IPv4 address, the prefix of another one."""
    tail = gid.rsplit(":", 1)[-1]
    if tail.count(".") == 3:
        return ".".join(tail.split(".")[:3])
    return ":".join(gid.split(":")[:4])
