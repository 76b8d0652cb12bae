"""Which transport NCCL chose, as its INFO lines say: network and adapters of each rank, and the way of each hop."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stethoscope.analysis.judge_ranks import learn, number_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.analysis.judge_ranks import Who
    from stethoscope.model.logs import Event, Log

_HOPS: Final = ("nccl.channel.p2p", "nccl.channel.shm", "nccl.channel.net")
_CHOICES: Final = ("nccl.net.using", "nccl.ib.using", "nccl.socket.using", "nccl.ib.no_device", *_HOPS)
_LISTED = re.compile(r"\[\d{1,3}\](?P<name>[\w.@-]{1,40})(?::\d{1,3}/(?P<kind>IB|RoCE))?")
_MANY_CHANNELS: Final = 8
"""So many channels between GPUs of one node are those of NVLink; PCIe has two to four."""
_VIRTUAL: Final = ("docker", "veth", "virbr", "lo", "cni", "flannel", "cali")


@dataclass(slots=True)
class RankTransport:
    """What one process said about its transport."""

    rank: int | None
    """None where nothing tells it."""
    host: str | None
    network: str = ""
    """IB, Socket, IBext_v8, AWS Libfabric ...; empty where it did not say."""
    adapters: tuple[str, ...] = ()
    """mlx5_0, ...; what NCCL listed, not what it used."""
    is_roce: bool = False
    rendezvous: str = ""
    """Interface for the first contact."""
    sockets: tuple[str, ...] = ()
    """Interfaces for data where they are used."""
    hops: Counter[str] = field(default_factory=Counter)
    """Way -> how many connections: P2P/CUMEM, SHM, NET/IB, NET/IB/GDRDMA."""
    nics: set[int] = field(default_factory=set)
    """Numbers of the adapters that it sends with."""
    has_no_device: bool = False


@dataclass(slots=True)
class Transport:
    """The transport of a job."""

    ranks: list[RankTransport]
    channels: tuple[int, ...] = ()
    """Channels for collectives, each number that was said."""
    nvls: bool | None = None
    """Whether the NVLink switches reduce; None where nobody said."""
    rings: int = 0
    trees: int = 0
    """Processes that connected them."""
    nvlink_off: bool = False
    """NCCL said that it does not use NVLink between some GPUs."""
    same_host: tuple[str, ...] = ()
    """Hosts whose ranks reach each other over the network."""
    lines: tuple[str, ...] = ()
    """What was chosen, in words."""
    warnings: tuple[str, ...] = ()
    """What is not as the hardware in the log should give."""


def transport_of(log: Log) -> Transport | None:
    """Return the transport that a log tells of, or None when no line of it does."""
    if not any(event.signature in _CHOICES for event in log.events):
        return None
    who = learn(log)
    found: dict[tuple[object, ...], RankTransport] = {}
    channels: dict[int, None] = {}
    transport = Transport([])
    for event in log.events:
        name, fields = event.signature, event.fields
        if not name.startswith("nccl."):
            continue
        if name == "nccl.channels":
            channels[number_of(fields, "coll") or 0] = None
            transport.nvls = bool(number_of(fields, "nvls")) or bool(transport.nvls)
        elif name == "nccl.nvls.available":
            transport.nvls = not fields.get("neg") or bool(transport.nvls)
        elif name == "nccl.connected":
            transport.rings += fields.get("what") == "all rings"
            transport.trees += "tree" in str(fields.get("what"))
        elif name == "nccl.p2p.nvlink_disabled":
            transport.nvlink_off = True
        elif name in _CHOICES or name == "nccl.boot.using":
            _take(_of(event, who, found), event)
    transport.ranks = sorted(found.values(), key=lambda r: (r.rank is None, r.rank or 0, r.host or ""))
    transport.channels = tuple(channels)
    transport.same_host = tuple(_same_host(log, transport.ranks))
    settings = {text_of(e.fields, "var"): text_of(e.fields, "val") for e in log.events if e.signature == "nccl.env"}
    transport.lines = tuple(_lines(transport))
    transport.warnings = tuple(_warnings(transport, log, who, settings))
    return transport


def _of(event: Event, who: Who, found: dict[tuple[object, ...], RankTransport]) -> RankTransport:
    rank, host = who.rank(event.origin), who.host(event.origin)
    if rank is None and event.signature == "nccl.channel.net":
        rank = number_of(event.fields, "dst" if event.fields.get("dir") == "receive" else "src")
    key = (rank,) if rank is not None else (host, event.origin.pid, event.origin.cuda_device)
    own = found.get(key)
    if own is None:
        own = found[key] = RankTransport(rank, host)
    own.host = own.host or host
    return own


def _take(own: RankTransport, event: Event) -> None:
    name, fields = event.signature, event.fields
    if name == "nccl.net.using":
        own.network = text_of(fields, "net").strip()
    elif name == "nccl.ib.using":
        listed = list(_LISTED.finditer(text_of(fields, "list")))
        own.adapters = tuple(match["name"] for match in listed)
        own.is_roce = any(match["kind"] == "RoCE" for match in listed)
    elif name == "nccl.socket.using":
        own.sockets = tuple(match["name"] for match in _LISTED.finditer(text_of(fields, "list")))
    elif name == "nccl.boot.using":
        own.rendezvous = text_of(fields, "ifname")
    elif name == "nccl.ib.no_device":
        own.has_no_device = True
    elif name == "nccl.channel.p2p":
        own.hops[f"P2P/{text_of(fields, 'how')}"] += event.count
    elif name == "nccl.channel.shm":
        own.hops["SHM"] += event.count
    else:
        own.hops[f"NET/{text_of(fields, 'net')}{'/GDRDMA' if fields.get('gdr') else ''}"] += event.count
        nic = number_of(fields, "nic")
        if nic is not None and fields.get("dir") == "send":
            own.nics.add(nic)


def _same_host(log: Log, ranks: Iterable[RankTransport]) -> list[str]:
    hosts: dict[int | None, str] = {rank.rank: rank.host for rank in ranks if rank.rank is not None and rank.host}
    found: dict[str, None] = {}
    for event in log.events:
        if event.signature == "nccl.channel.net":
            one, other = (hosts.get(number_of(event.fields, end)) for end in ("src", "dst"))
            if one is not None and one == other:
                found[one] = None
    return list(found)


def _lines(transport: Transport) -> Iterable[str]:
    ranks = transport.ranks
    said = Counter(rank.network for rank in ranks if rank.network)
    if said:
        yield f"network {_shares(said, len(ranks))}{_fabric(ranks)}"
    hops: Counter[str] = Counter()
    for rank in ranks:
        hops.update(rank.hops)
    between = Counter({way: count for way, count in hops.items() if way.startswith("NET/")})
    if between:
        direct = sum(count for way, count in between.items() if way.endswith("/GDRDMA"))
        total = between.total()
        how = "all" if direct == total else "none" if not direct else f"{direct:,} of {total:,}"
        names = ", ".join(sorted({way.split("/")[1] for way in between}))
        yield (
            f"over the network {names}; GPUDirect RDMA on {how} of {total:,} connections"
            if how in ("all", "none")
            else (f"over the network {names}; GPUDirect RDMA on {how} connections")
        )
    inside = {way: count for way, count in hops.items() if not way.startswith("NET/")}
    if inside:
        ways = ", ".join(f"{way} {count:,}" for way, count in sorted(inside.items(), key=lambda item: -item[1]))
        yield f"inside nodes {ways} connections{_link(transport, inside)}"
    parts = [f"{' or '.join(map(str, transport.channels))} channels"] if transport.channels else []
    parts += ["rings"] if transport.rings else []
    parts += ["trees"] if transport.trees else []
    parts += ["NVLS (the NVLink switches reduce)"] if transport.nvls else []
    if parts:
        yield f"collectives over {', '.join(parts)}"
    first = Counter(rank.rendezvous for rank in ranks if rank.rendezvous)
    if first:
        yield f"first contact over {_shares(first, len(ranks))}"


def _fabric(ranks: Iterable[RankTransport]) -> str:
    lists = Counter((rank.adapters, rank.is_roce) for rank in ranks if rank.adapters)
    if not lists:
        return ""
    (names, is_roce), _ = lists.most_common(1)[0]
    kind = "RoCE" if is_roce else "InfiniBand"
    shown = ", ".join(names) if len(names) <= 2 else f"{names[0]} to {names[-1]}"
    return f"; {len(names)} {kind} adapter{'s' if len(names) != 1 else ''} ({shown})"


def _link(transport: Transport, inside: Mapping[str, int]) -> str:
    if not any(way.startswith("P2P") for way in inside):
        return ""
    if any("MNNVL" in way for way in inside):
        return "; NVLink also between nodes"
    if transport.nvls or max(transport.channels, default=0) >= _MANY_CHANNELS:
        return "; NVLink, as the number of channels says" if not transport.nvls else "; NVLink"
    return "; NVLink or PCIe, the lines do not say which"


def _warnings(transport: Transport, log: Log, who: Who, settings: Mapping[str, str]) -> Iterable[str]:
    ranks = transport.ranks
    said = Counter(_family(rank.network) for rank in ranks if rank.network)
    why = _because(settings)
    if len(said) > 1:
        parts = [f"{count} {'use' if count != 1 else 'uses'} {network}" for network, count in said.most_common()]
        fewest = said.most_common()[-1][0]
        odd = [rank for rank in ranks if rank.network and _family(rank.network) == fewest]
        yield f"of {sum(said.values())} ranks {', '.join(parts)}: {fewest} on {_places(odd)}{why}"
    elif said.get("Socket"):
        hosts = sorted({rank.host or "?" for rank in ranks})
        if any(rank.adapters for rank in ranks):
            yield f"all ranks use Socket although InfiniBand or RoCE adapters are there{why}"
        elif any(rank.has_no_device for rank in ranks) and len(hosts) > 1:
            yield f"all ranks fell back to Socket: no InfiniBand device was found{why}"
    yield from _gpudirect(ranks, settings)
    yield from _local(transport, who, settings)
    yield from _uneven(ranks)
    odd_interface = sorted({rank.rendezvous for rank in ranks if rank.rendezvous.startswith(_VIRTUAL)})
    if odd_interface and len({rank.host for rank in ranks}) > 1:
        yield f"the first contact goes over {', '.join(odd_interface)}, which other hosts cannot reach"


def _family(network: str) -> str:
    return "IB" if network.startswith("IB") else network


def _because(settings: Mapping[str, str]) -> str:
    if settings.get("NCCL_IB_DISABLE") == "1":
        return " (NCCL_IB_DISABLE=1)"
    return f" (NCCL_NET={settings['NCCL_NET']})" if settings.get("NCCL_NET") else ""


def _gpudirect(ranks: Iterable[RankTransport], settings: Mapping[str, str]) -> Iterable[str]:
    without = [r for r in ranks if any(w.startswith("NET/") and not w.endswith("/GDRDMA") for w in r.hops)]
    without = [rank for rank in without if not any(way.startswith("NET/Socket") for way in rank.hops)]
    using = [rank for rank in ranks if any(way.startswith("NET/") for way in rank.hops)]
    if not without:
        return
    forced = settings.get("NCCL_NET_GDR_LEVEL") or settings.get("NCCL_NET_GDR_READ")
    why = f" (NCCL_NET_GDR_LEVEL={forced})" if settings.get("NCCL_NET_GDR_LEVEL") else ""
    if len(without) == len(using):
        yield f"no GPUDirect RDMA anywhere: what goes over the network goes through host memory{why}"
    else:
        yield f"no GPUDirect RDMA on {_places(without)}, while others have it{why}"


def _local(transport: Transport, who: Who, settings: Mapping[str, str]) -> Iterable[str]:
    if transport.same_host:
        yield (
            f"ranks of one host talk over the network ({', '.join(transport.same_host[:3])}): P2P and shared memory "
            "are off between them, or each believes to be on a host of its own"
        )
    by_memory = [rank for rank in transport.ranks if rank.hops.get("SHM")]
    has_nvlink = (
        transport.nvls
        or transport.nvlink_off
        or any(way.startswith("P2P") for rank in transport.ranks for way in rank.hops)
    )
    if by_memory and has_nvlink:
        why = " (NCCL_P2P_DISABLE=1)" if settings.get("NCCL_P2P_DISABLE") == "1" else ""
        yield f"host memory (SHM) between GPUs of {_places(by_memory)} although others use NVLink or P2P{why}"
    elif by_memory and settings.get("NCCL_P2P_DISABLE") == "1":
        yield "host memory (SHM) between the GPUs of a node, because NCCL_P2P_DISABLE=1"


def _uneven(ranks: Iterable[RankTransport]) -> Iterable[str]:
    counts: dict[int, list[RankTransport]] = {}
    for rank in ranks:
        if rank.adapters:
            counts.setdefault(len(rank.adapters), []).append(rank)
    if len(counts) > 1:
        usual = max(counts, key=lambda number: (len(counts[number]), number))
        for number, odd in sorted(counts.items()):
            if number != usual:
                yield f"{number} adapters on {_places(odd)}, {usual} on the others: a port is down or left out"
    by_host: dict[str, list[RankTransport]] = {}
    for rank in ranks:
        if rank.host and len(rank.nics) == 1 and len(rank.adapters) > 1:
            by_host.setdefault(rank.host, []).append(rank)
    for host, own in by_host.items():
        used = Counter(next(iter(rank.nics)) for rank in own)
        idle = set(range(min(len(rank.adapters) for rank in own))) - set(used)
        shared = [nic for nic, count in used.items() if count > 1]
        if shared and idle and len(own) <= len(own[0].adapters):
            names = own[0].adapters
            crowded = ", ".join(names[nic] for nic in sorted(shared) if nic < len(names))
            free = ", ".join(names[nic] for nic in sorted(idle))
            are = "is" if len(idle) == 1 else "are"
            yield f"on {host} GPUs share {crowded} while {free} {are} idle: a dead port, or the topology file"


def _places(ranks: Iterable[RankTransport]) -> str:
    ranks = list(ranks)
    hosts = sorted({rank.host for rank in ranks if rank.host})
    numbers = sorted(rank.rank for rank in ranks if rank.rank is not None)
    if hosts and len(hosts) <= 3:
        return ", ".join(hosts)
    if numbers and len(numbers) <= 8:
        return f"rank{'s' if len(numbers) != 1 else ''} {', '.join(map(str, numbers))}"
    return f"{len(hosts)} hosts" if hosts else f"{len(ranks)} ranks"


def _shares(said: Counter[str], total: int) -> str:
    if len(said) == 1:
        name, count = next(iter(said.items()))
        return f"{name} on {'all ' if 1 < count == total else ''}{count:,} rank{'s' if count != 1 else ''}"
    return ", ".join(f"{name} on {count:,}" for name, count in said.most_common())
