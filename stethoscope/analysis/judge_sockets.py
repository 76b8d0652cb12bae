"""Connections of the host network: interfaces and addresses, refused, silent and closed peers."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, INFERRED, SYMPTOM, Candidate, Note, culprits_of, make_culprit
from stethoscope.analysis.judge_generic import alive_after
from stethoscope.analysis.judge_ranks import is_address

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene
    from stethoscope.model.logs import Culprit

_LOCAL_ONLY = re.compile(
    r"^(?:lo|docker\w*|virbr\d+|br-[0-9a-f]+|veth\w*|cni\d*|flannel\S*|cali\w*|lxcbr\d+|podman\d*|tun\d+|tailscale\d+|zt\w+|usb\d+|idrac|bmc)$"
)
_LOCAL_NETS = [
    ipaddress.ip_network(net) for net in ("127.0.0.0/8", "172.17.0.0/16", "169.254.0.0/16", "192.168.122.0/24")
]
_GONE = ("refused", "software caused connection abort", "reset", "broken pipe", "closed")
_CONNECT = ("nccl.socket.connect_failed", "nccl.socket.retries_exceeded")
_LEFT = (
    "nccl.socket.closed_by_peer",
    "nccl.socket.recv_failed",
    "nccl.proxy.closed",
    "nccl.proxy.no_type",
    "torch.store.io_failed",
    "torch.store.reset",
    "torch.store.unique_id",
    "nccl.error.remote",
    "ray.actor_died",
    "ray.worker_died",
    "vllm.worker_died",
    "torch.gloo.closed",
    "torch.gloo.timeout",
    "torch.rpc.failed",
    "mpi.peer_gone",
    "mpi.peer_host",
    "jax.task_lost",
    "tf.collective_aborted",
    "run.horovod_shut_down",
)


def network(scene: Scene) -> list[Candidate]:
    """Return what connections of the host network say."""
    return [*_connects(scene), *_no_interface(scene), *_idle(scene), *_left(scene)]


def bad_address(address: str) -> bool:
    """Tell whether an address can never lead to another host: loopback, a container bridge, link-local."""
    try:
        parsed = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return address in {"localhost"}
    return (
        parsed.is_loopback or parsed.is_link_local or any(parsed in net for net in _LOCAL_NETS if parsed.version == 4)
    )


def bad_interfaces(scene: Scene) -> list[Note]:
    """Return what is wrong with the interfaces that the hosts chose, as far as several hosts take part."""
    notes: list[Note] = []
    for clue in scene.find("nccl.boot.using", "nccl.socket.using", "nccl.ib.using"):
        listed = [(clue.text("ifname", "oob_if"), clue.text("ip"))]
        if clue.signature == "nccl.socket.using":
            listed = re.findall(r"\[\d+\]([\w.@-]+):([0-9a-fA-F.:]+)<", clue.event.text)
        for name, address in listed:
            if _LOCAL_ONLY.match(name) or bad_address(address):
                notes.append(
                    Note(
                        f"{clue.host or 'a host'} uses {name} with {address}, which leads to no other host",
                        clue,
                        address,
                    )
                )
    shared = [(address, owners) for address, owners in scene.who.hosts_of_address.items() if len(owners) > 1]
    for address, owners in shared:
        first = next((c for c in scene.find("nccl.boot.using", "nccl.socket.using") if address in c.event.text), None)
        notes.append(Note(f"{' and '.join(owners[:3])} all advertise {address}", first, address))
    return notes


def _networks_apart(scene: Scene) -> Note | None:
    """Return a note when hosts bootstrap over interfaces of unlike names in unlike networks."""
    chosen: dict[str, tuple[str, str]] = {}
    for clue in scene.find("nccl.boot.using"):
        if clue.host and is_address(clue.text("ip")):
            chosen.setdefault(clue.host, (clue.text("ifname"), clue.text("ip")))
    names = Counter(name for name, _ in chosen.values())
    nets = {".".join(address.split(".")[:2]) for _, address in chosen.values()}
    if len(names) > 1 and len(nets) > 1:
        odd, _ = min(names.items(), key=lambda item: item[1])
        host = next(host for host, (name, _) in chosen.items() if name == odd)
        clue = next(c for c in scene.find("nccl.boot.using") if c.host == host)
        said = ", ".join(f"{h}: {n} {a}" for h, (n, a) in sorted(chosen.items())[:4])
        return Note(f"hosts bootstrap over different networks ({said})", clue)
    return None


def _connects(scene: Scene) -> list[Candidate]:
    clues = [c for c in scene.find(*_CONNECT) if not alive_after(scene, c)]
    clues = [c for c in clues if not (c.signature == "nccl.socket.connect_failed" and _succeeded(scene, c))]
    if not clues:
        return []
    targets = Counter(c.text("ip") for c in clues if c.text("ip"))
    wrong = bad_interfaces(scene)
    if not targets:
        retries = [c for c in scene.find("nccl.socket.connect_retry") if c.text("ip")]
        targets = Counter(c.text("ip") for c in retries)
    notes = [Note("connections between ranks failed", clues[0], clues[0].text("err", "errtext"))]
    error = " ".join(c.text("err", "errtext") for c in clues).lower()
    peers = [scene.who.named(address) for address, _ in targets.most_common(2)]
    if wrong or any(bad_address(address) for address in targets):
        culprits = culprits_of(scene, [n.clue for n in wrong if n.clue] or clues, by_host=True)
        return [
            Candidate(
                "wrong_interface", 0.85, clues, DIRECT, culprits, supports=[*notes, *wrong], checks=_interface_checks()
            )
        ]
    apart = _networks_apart(scene)
    if apart or "network is unreachable" in error:
        clue = apart.clue if apart and apart.clue else clues[0]
        culprits = culprits_of(scene, [clue], by_host=True)
        notes += [apart] if apart else []
        return [Candidate("wrong_interface", 0.7, clues, DIRECT, culprits, supports=notes, checks=_interface_checks())]
    culprits = [make_culprit(scene, None, peer) for peer in peers[:1]]
    alternative_nets = _other_fabric(scene, targets)
    if "no route to host" in error or "timed out" in error or "113" in error or "110" in error:
        if alternative_nets:
            notes.append(alternative_nets)
            return [
                Candidate("wrong_interface", 0.65, clues, DIRECT, culprits, supports=notes, checks=_interface_checks())
            ]
        return [
            Candidate(
                "firewall_or_port_blocked",
                0.7 if "no route" in error else 0.6,
                clues,
                DIRECT,
                culprits,
                supports=notes,
                checks=firewall_checks(peers),
            )
        ]
    speaks = peer_has_log(scene, peers)
    weight = 0.6 if speaks else 0.5
    found = Candidate(
        "firewall_or_port_blocked", weight, clues, INFERRED, culprits, supports=notes, checks=firewall_checks(peers)
    )
    if not speaks and any(word in error for word in _GONE):
        found.missing = [f"the log of {peer}: did its process start and did it end?" for peer in peers[:1]]
        if scene.progressed_before(clues[0]):
            found.root_cause = "peer_process_died"
            found.weight, found.kind = 0.45, SYMPTOM
            found.summary = "nobody listens at this address any more: its process ended"
    return [found]


def _no_interface(scene: Scene) -> list[Candidate]:
    """An address that was never filled in: the filter for interfaces matched none on a host that is told to use one."""
    clues = [c for c in scene.find("nccl.socket.empty_address") if not alive_after(scene, c)]
    asked = [c for c in scene.find("nccl.env") if c.text("var") == "NCCL_SOCKET_IFNAME"]
    found = {c.host for c in scene.find("nccl.boot.using")}
    without = [c for c in asked if c.host and c.host not in found]
    if not clues or not without:
        return []
    note = Note("NCCL_SOCKET_IFNAME is set here, and no interface was taken", without[0], without[0].text("val"))
    culprits = culprits_of(scene, without, by_host=True)
    checks = [f"ip -br addr on that host: is there an interface {without[0].text('val')}?", *_interface_checks()]
    return [Candidate("wrong_interface", 0.65, clues, INFERRED, culprits, supports=[note], checks=checks)]


def peer_has_log(scene: Scene, peers: list[str]) -> bool:
    """Tell whether the refused peer prints lines of its own and no error before."""
    return any(clue.host in peers for clue in scene.find("nccl.boot.using", "nccl.init.start"))


def _succeeded(scene: Scene, clue: Clue) -> bool:
    return (
        any(done.rank == clue.rank and done.index > clue.index for done in scene.find("nccl.init.complete"))
        and clue.rank is not None
    )


def _other_fabric(scene: Scene, targets: Counter[str]) -> Note | None:
    """Return a note when the address that cannot be reached is in none of the networks this side uses."""
    own = {a for addresses in scene.interfaces.values() for a in addresses.values() if is_address(a)}
    for target, _ in targets.most_common(1):
        if (
            is_address(target)
            and own - {target}
            and target.split(".")[:2] not in [a.split(".")[:2] for a in own - {target}]
        ):
            clue = next(iter(scene.find("nccl.boot.using")), None)
            return Note(f"{target} is in another network than the interface used here", clue, target)
    return None


def _idle(scene: Scene) -> list[Candidate]:
    """Reads that time out, from both sides: the peers live, and something between them dropped the flow."""
    clues = [c for c in scene.find("nccl.socket.recv_failed") if "timed out" in c.text("err").lower()]
    if not clues or alive_after(scene, clues[0]):
        return []
    reporters = {clue.host for clue in clues}
    peers = Counter(scene.who.named(c.text("peer")) for c in clues)
    mutual = bool(reporters & set(peers)) or len(peers) > 1
    notes = [Note("a read timed out instead of being reset: the other process was not seen to end", clues[0])]
    if mutual:
        notes.append(Note("both sides report each other, so both processes live", clues[-1]))
        return [
            Candidate(
                "firewall_or_port_blocked",
                0.75,
                clues,
                INFERRED,
                [],
                supports=notes,
                checks=firewall_checks(list(peers)),
            )
        ]
    culprit = make_culprit(scene, None, next(iter(peers)))
    missing = [f"is {culprit.host} up: its console, ping, and its own log"]
    if scene.progressed_before(clues[0]):
        return [Candidate("firewall_or_port_blocked", 0.5, clues, INFERRED, [culprit], supports=notes, missing=missing)]
    return [Candidate("firewall_or_port_blocked", 0.6, clues, INFERRED, [culprit], supports=notes, missing=missing)]


def _left(scene: Scene) -> list[Candidate]:
    """Closed connections followed from peer to peer: the last one that nobody closed before is where it began."""
    clues = [c for c in scene.find(*_LEFT) if not alive_after(scene, c) and not scene.finished_before(c)]
    named = scene.find("torch.monitored_barrier", "ras.dead", "ras.incomplete")
    if not clues and not named:
        return []
    if named:
        ranks = [int(r) for c in named for r in re.findall(r"\d+", c.text("ranks"))]
        ranks += [r for c in scene.find("ras.mismatch_rank") if (r := c.number("rank")) is not None]
        culprits = [make_culprit(scene, rank, None) for rank in dict.fromkeys(ranks)][:4]
        listed = [c for c in scene.find("ras.member") if c.index > named[0].index]
        if listed and not culprits:
            culprits = listed_members(scene, listed)
        return [
            Candidate("peer_process_died", 0.6, named, SYMPTOM, culprits, missing=["the logs of the missing ranks"])
        ]
    if all(c.signature == "torch.gloo.timeout" for c in clues):
        note = Note("a CPU collective waited its whole time-out", clues[0])
        missing = ["the logs of all ranks: which one did not come", "stacks of all ranks during the wait (py-spy dump)"]
        return [Candidate("unknown", 0.45, clues, SYMPTOM, [], supports=[note], missing=missing)]
    culprits = _start_of_chain(scene, clues)
    return [
        Candidate(
            "peer_process_died",
            0.55 if culprits else 0.4,
            clues,
            SYMPTOM,
            culprits,
            checks=[
                "the log and the kernel log of the named peer for the same minute",
                "state of its node in the scheduler",
            ],
            missing=["the log of the process that left first"],
        )
    ]


def listed_members(scene: Scene, clues: list[Clue]) -> list[Culprit]:
    """Return whom NCCL's survey lists, a rank before the process that is the same one."""
    found: list[Culprit] = []
    for clue in sorted(clues, key=lambda c: c.number("rank") is None):
        gpu = clue.text("gpu")
        device = f"gpu/{gpu}" if gpu.isdigit() else None
        culprit = make_culprit(scene, clue.number("rank"), scene.who.named(clue.text("node")), device)
        if not any((c.host, c.device) == (culprit.host, culprit.device) for c in found):
            found.append(culprit)
    return found[:4]


def _start_of_chain(scene: Scene, clues: list[Clue]) -> list[Culprit]:
    local = [c for c in clues if c.signature.startswith("nccl.proxy.") and c.number("local_rank") is not None]
    if local:
        head = local[0]
        number = head.number("local_rank")
        ranks = [r for r, h in scene.who.host_of_rank.items() if h == head.host and scene.who.device_of(r) == number]
        rank = ranks[0] if len(ranks) == 1 else (number if not scene.several_hosts else None)
        return [make_culprit(scene, rank, head.host, f"gpu/{number}")]
    lost = list(
        dict.fromkeys(r for c in clues if c.signature == "jax.task_lost" and (r := c.number("rank")) is not None)
    )
    if lost:
        return [make_culprit(scene, rank, None) for rank in lost] if len(lost) <= 2 else []
    died = [c for c in clues if c.signature in {"ray.worker_died", "mpi.peer_host"} and c.text("host")]
    if died:
        hosts = dict.fromkeys(scene.who.named(c.text("host")) for c in died)
        return [make_culprit(scene, None, host) for host in hosts] if len(hosts) <= 2 else []
    next_of: dict[str, str] = {}
    for clue in clues:
        peer = clue.text("peer", "ip")
        if peer and clue.host:
            next_of.setdefault(clue.host, scene.who.named(peer))
        elif peer:
            next_of.setdefault("", scene.who.named(peer))
    if not next_of:
        root = next((c for c in clues if c.signature == "torch.store.unique_id"), None)
        return [make_culprit(scene, root.number("root"), None)] if root else []
    host, steps = next(iter(next_of)), set()
    while host in next_of and host not in steps and next_of[host] != host:
        steps.add(host)
        host = next_of[host]
    if host in steps:
        ends = Counter(next_of.values()).most_common(2)
        host = ends[0][0] if len(ends) == 1 or ends[0][1] > ends[1][1] else ""
    return [make_culprit(scene, None, host)] if host else []


def _interface_checks() -> list[str]:
    return [
        "ip -br addr and ip route get PEER on both hosts",
        "NCCL_SOCKET_IFNAME (and GLOO_SOCKET_IFNAME) set to the interface that routes between nodes; =name is exact",
        "containers: host network",
    ]


def firewall_checks(peers: list[str]) -> list[str]:
    peer = peers[0] if peers and peers[0] else "PEER"
    return [
        f"nc -zv {peer} PORT from the failing side while a listener runs there",
        "iptables -S, nft list ruleset, firewalld; cloud security group: all traffic of the group to itself",
        "idle time-out of any stateful device between the subnets against the longest pause of the job",
    ]
