"""The rendezvous of a job: names, the store of rank 0, Gloo's connections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, INFERRED, SYMPTOM, Candidate, Note, culprits_of, make_culprit
from stethoscope.analysis.judge_generic import alive_after
from stethoscope.analysis.judge_scene import PROGRESS
from stethoscope.analysis.judge_sockets import bad_address, firewall_checks, peer_has_log
from stethoscope.analysis.judge_waiting import reason_of

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene


_NO_ADDRESS = {"", "-5", "-9"}
"""Codes of getaddrinfo for a name that exists and has no address of the family that was asked for."""
_NO_ANSWER = "-3"
"""Code of getaddrinfo when no name server answers: the other family will fare no better."""


def rendezvous(scene: Scene) -> list[Candidate]:
    """Return what names, the store and Gloo say."""
    return [*_names(scene), *_store(scene), *_gloo(scene)]


def _names(scene: Scene) -> list[Candidate]:
    clues = scene.find("torch.store.name_lookup", "torch.store.host_not_found")
    joined = scene.find("nccl.boot.using", "nccl.init.start", "torch.store.joined", *PROGRESS)
    clues = [c for c in clues if not any(j.index > c.index for j in joined)]
    given_up = {c.text("host") for c in scene.find("torch.store.connect_timeout")}
    final = [
        c
        for c in clues
        if c.signature == "torch.store.host_not_found"
        or not is_harmless_lookup(c)
        or (c.text("code") not in _NO_ADDRESS and c.text("host") in given_up)
    ]
    if not final:
        return []
    name = next((c.text("host") for c in final if c.text("host")), "")
    endpoint = next((_endpoint(c) for c in scene.clues if _endpoint(c)), "")
    target = name or endpoint
    return [
        Candidate(
            "dns_or_hostname",
            0.9,
            final,
            DIRECT,
            [make_culprit(scene, None, target)] if target else culprits_of(scene, final, by_host=True),
            summary=f"the name {target} does not resolve" if target else "the name of the master does not resolve",
            checks=[
                "getent hosts NAME on each node",
                "Kubernetes: headless service and publishNotReadyAddresses; wait for the name",
            ],
        )
    ]


def is_harmless_lookup(clue: Clue) -> bool:
    """Tell whether this is a name that has no IPv6 address, or none of a family: the other family is tried next."""
    if clue.signature != "torch.store.name_lookup":
        return False
    code = clue.text("code")
    return code in _NO_ADDRESS or ("IPv4" not in clue.event.text and code != _NO_ANSWER)


def _endpoint(clue: Clue) -> str:
    return clue.text("endpoint")


def _store(scene: Scene) -> list[Candidate]:
    found: list[Candidate] = []
    late = [c for c in scene.find("torch.store.connect_timeout") if not alive_after(scene, c)]
    late = [c for c in late if not any(j.index > c.index for j in scene.find("nccl.init.complete"))]
    if late:
        host = late[0].text("host")
        notes = [Note("the store of rank 0 could not be reached", late[0], host)]
        if bad_address(host) and scene.several_hosts:
            found.append(
                Candidate(
                    "config_env_error", 0.65, late, DIRECT, culprits_of(scene, late, by_host=True), supports=notes
                )
            )
        else:
            weight = 0.6 if peer_has_log(scene, [scene.who.named(host)]) else 0.5
            culprit = [make_culprit(scene, None, scene.who.named(host))] if host else []
            found.append(
                Candidate(
                    "firewall_or_port_blocked",
                    weight,
                    late,
                    INFERRED,
                    culprit,
                    supports=notes,
                    checks=firewall_checks([host]),
                    missing=[f"the log of rank 0 on {host}: was it listening at that time?"],
                )
            )
    for clue in scene.find("torch.store.barrier"):
        count, world = clue.number("count") or 0, clue.number("world") or 0
        note = Note(f"{count} of {world} workers joined the store", clue, str(count), str(world))
        more = count > world
        found.append(
            Candidate(
                "config_env_error",
                0.65 if more else 0.5,
                [clue],
                INFERRED,
                culprits_of(scene, [clue]),
                supports=[note],
                summary="the store still holds workers of an earlier run" if more else "not all workers joined",
                checks=[
                    "a new store, file or port for each start"
                    if more
                    else "which ranks never came: their logs, nnodes and nproc"
                ],
            )
        )
        break
    found += _unique_id(scene)
    in_use = scene.find("torch.store.port_in_use")
    if in_use and not alive_after(scene, in_use[0]):
        port = next((c.text("port") for c in in_use if c.text("port")), "")
        found.append(
            Candidate(
                "multi_job_contention",
                0.85,
                in_use,
                DIRECT,
                culprits_of(scene, in_use, by_host=True),
                summary=f"port {port or 'of the store'} is already in use on this host",
            )
        )
    waited = scene.find("torch.store.wait_timeout", "elastic.rendezvous")
    if waited:
        joined = next((c for c in waited if c.text("joined")), waited[0])
        note = Note("some ranks did not arrive in time", joined, joined.text("joined"), joined.text("n"))
        absent = never_started(scene)
        cause, weight = ("peer_process_died", 0.5) if absent else ("unknown", 0.4)
        culprits = [make_culprit(scene, rank, None) for rank in absent[:4]]
        lost = list(dict.fromkeys(c.text("host") for c in waited if c.text("host")))
        if lost and not absent:
            note = Note(f"the launcher of {', '.join(lost[:4])} no longer answers the others", waited[0])
            culprits = [make_culprit(scene, None, scene.who.named(host)) for host in lost[:4]]
        candidate = Candidate(cause, weight, waited, SYMPTOM, culprits, supports=[note])
        if absent:
            said = ", ".join(map(str, absent[:8]))
            candidate.supports.append(Note(f"rank {said} never began to make the communicator"))
        candidate.missing = ["the logs of the ranks that did not join"]
        found.append(candidate)
    return found


def _unique_id(scene: Scene) -> list[Candidate]:
    """Ranks that waited their whole time-out for rank 0 to begin: what rank 0 did is the reason."""
    clues = [c for c in scene.find("torch.store.unique_id") if "imeout" in c.text("err") or "imed out" in c.text("err")]
    if not clues:
        return []
    root = clues[0].number("root") or 0
    cause, weight, notes = reason_of(scene, [root], clues[0], at_start=True)
    if cause is None:
        return []
    note = Note(f"the others waited for rank {root} to make the communicator until their time-out", clues[0])
    culprits = [make_culprit(scene, root, None)]
    return [Candidate(cause, weight, clues, INFERRED, culprits, supports=[note, *notes])]


def never_started(scene: Scene) -> list[int]:
    """Return the ranks that did not begin to make the communicator that most others began; none when too many."""
    started: dict[int, set[int]] = {}
    for clue in scene.find("nccl.init.start"):
        rank, size = clue.number("rank"), clue.number("nranks")
        if rank is not None and size is not None:
            started.setdefault(size, set()).add(rank)
    if not started or scene.find("nccl.init.complete"):
        return []
    size, present = max(started.items(), key=lambda item: (len(item[1]), item[0]))
    absent = sorted(set(range(size)) - present)
    return absent if len(absent) * 3 <= len(present) else []


def _gloo(scene: Scene) -> list[Candidate]:
    found = []
    mesh = scene.find("torch.gloo.full_mesh")
    if mesh:
        loopback = [Note("Gloo took the loopback address", c) for c in scene.find("torch.gloo.loopback")[:1]]
        wrong = bool(loopback) or any(bad_address(c.text("ip")) for c in mesh)
        culprits = culprits_of(scene, mesh[:1])
        if culprits and culprits[0].rank is None and (named := re.search(r"\(rank=(\d+)", mesh[0].event.text)):
            culprits = [make_culprit(scene, int(named[1]), mesh[0].host)]
        found.append(
            Candidate(
                "wrong_interface",
                0.85 if wrong else 0.6,
                mesh,
                DIRECT,
                culprits,
                supports=loopback,
                checks=_gloo_checks(),
            )
        )
    bad = scene.find("torch.gloo.bad_interface")
    if bad:
        found.append(
            Candidate(
                "config_env_error",
                0.85,
                bad,
                DIRECT,
                culprits_of(scene, bad),
                summary="Gloo was given an interface that does not exist by that name",
                checks=_gloo_checks(),
            )
        )
    return found


def _gloo_checks() -> list[str]:
    return [
        "GLOO_SOCKET_IFNAME with one concrete interface, neither ^ nor a prefix",
        "hostname must resolve to a routable address (/etc/hosts under host network)",
    ]
