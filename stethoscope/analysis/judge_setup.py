"""What differs between hosts that must be equal: versions, variables, fabric ports, networks; and set-ups that hang."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import INFERRED, SYMPTOM, Candidate, Note, make_culprit
from stethoscope.analysis.judge_peers import settings_differ
from stethoscope.analysis.judge_store import never_started

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene

_FORMS: tuple[tuple[str, str, tuple[int, int], tuple[int, int]], ...] = (
    ("nccl.boot.using", r"Bootstrap : Using", (2, 0), (2, 23)),
    ("nccl.boot.using", r"Bootstrap: Using", (2, 24), (99, 0)),
    ("nccl.plugin.missing", r"NET/Plugin : .*using internal implementation", (2, 0), (2, 20)),
    ("nccl.plugin.missing", r"NET/Plugin: (?:No plugin found|Plugin load returned)", (2, 21), (2, 21)),
    ("nccl.plugin.missing", r"NET/Plugin: Could not find", (2, 22), (99, 0)),
    ("nccl.init.start", r"ncclCommInit\w+ comm .*Init START", (2, 21), (99, 0)),
    ("nccl.ib.completion", r"with status=\w+\(", (2, 28), (99, 0)),
    ("nccl.ib.completion", r"with status=\d", (2, 20), (2, 28)),
    ("nccl.socket.connect_retry", r"retrying \(\d+/\d+\)", (2, 24), (99, 0)),
)
"""How one message reads in which versions: two hosts that word it differently run different libraries."""
_EXPERIMENTAL: tuple[tuple[str, tuple[int, int], tuple[int, int], str], ...] = (
    (
        "NCCL_CUMEM_ENABLE=1",
        (2, 18),
        (2, 19),
        "cuMem buffers, off by default in that version, can deadlock while connections are made",
    ),
    ("NCCL_RUNTIME_CONNECT=1", (2, 22), (2, 22), "connections at the first collective were new in that version"),
    ("NCCL_MNNVL_ENABLE=1", (2, 21), (2, 22), "multi-node NVLink was new in that version"),
)
_RDMA_WANTED = (
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_IB_QPS_PER_CONNECTION",
)


def set_up(scene: Scene) -> list[Candidate]:
    """Return what the hosts' settings say, and where a set-up stopped."""
    return [*_versions(scene), *_networks(scene), *_ports(scene), *_settings(scene), *_hangs(scene)]


def _versions(scene: Scene) -> list[Candidate]:
    said = {version for versions in scene.versions.values() for version in versions}
    if len(said) > 1:
        shown = scene.find("nccl.version")
        odd = Counter(v for versions in scene.versions.values() for v in versions)
        rare = min(odd, key=lambda version: odd[version])
        hosts = [host for host, versions in scene.versions.items() if rare in versions and host]
        notes = [Note(f"NCCL {' and '.join(sorted(said))} in one job", c, c.text("ver")) for c in shown[:2]]
        culprits = [make_culprit(scene, None, host) for host in hosts[:4]]
        return [Candidate("version_mismatch", 0.7, shown, INFERRED, culprits, supports=notes, checks=_version_checks())]
    worded: dict[str, dict[str, tuple[tuple[int, int], tuple[int, int], Clue]]] = {}
    for signature, pattern, low, high in _FORMS:
        for clue in scene.find(signature):
            if clue.host and re.search(pattern, clue.event.text):
                worded.setdefault(signature, {}).setdefault(clue.host, (low, high, clue))
    for hosts_of in worded.values():
        for host, (low, high, clue) in hosts_of.items():
            for other, (other_low, other_high, other_clue) in hosts_of.items():
                if host < other and (high < other_low or other_high < low):
                    return [_worded_apart(scene, (host, clue), (other, other_clue))]
    return []


def _worded_apart(scene: Scene, one: tuple[str, Clue], other: tuple[str, Clue]) -> Candidate:
    """Two hosts that word the same message as different versions do load different libraries."""
    notes = [
        Note(f"{one[0]} words this line as another NCCL version than {other[0]} does", one[1]),
        Note(f"{other[0]} words it so", other[1]),
    ]
    culprits = [make_culprit(scene, None, name) for name in (one[0], other[0])]
    clues = [one[1], other[1]]
    return Candidate("version_mismatch", 0.7, clues, INFERRED, culprits, supports=notes, checks=_version_checks())


def _number(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() else None


def _networks(scene: Scene) -> list[Candidate]:
    """One host on sockets while the others use the fabric, or all of them although the fabric was asked for."""
    sockets = [host for host, nets in scene.networks.items() if host and nets == {"Socket"}]
    fabric = [host for host, nets in scene.networks.items() if host and nets and "Socket" not in nets]
    shown = [c for c in scene.find("nccl.net.using") if "Socket" in c.text("net")]
    if sockets and fabric:
        culprits = [make_culprit(scene, None, host) for host in sockets[:4]]
        note = Note("this host uses sockets while the others use the fabric", shown[0])
        return [
            Candidate("config_env_error", 0.75, shown, INFERRED, culprits, supports=[note], checks=_fabric_checks())
        ]
    if not sockets or not scene.several_hosts:
        return []
    wanted = [c for c in scene.find("nccl.env") if c.text("var") in _RDMA_WANTED]
    gone = scene.find("nccl.ib.no_device", "nccl.ib.no_library", "nccl.ib.open_failed")
    switched_off = [
        c for c in scene.find("nccl.env") if c.text("var") == "NCCL_IB_DISABLE" and c.text("val").startswith("1")
    ]
    if wanted and (gone or switched_off):
        note = Note("fabric settings are there, and the job runs over TCP sockets", shown[0])
        other = Note("no usable fabric device", gone[0]) if gone else Note("NCCL_IB_DISABLE=1", switched_off[0])
        culprits = [make_culprit(scene, None, host) for host in sockets] if len(sockets) <= 2 else []
        return [
            Candidate(
                "config_env_error", 0.6, shown, INFERRED, culprits, supports=[note, other], checks=_fabric_checks()
            )
        ]
    return []


def _ports(scene: Scene) -> list[Candidate]:
    """A host that lists fewer fabric ports than the others has a port down; NCCL leaves it out in silence."""
    if len(scene.devices) < 2:
        return []
    most = max(map(len, scene.devices.values()))
    fewer = {host: names for host, names in scene.devices.items() if len(names) < most}
    if not fewer or len(fewer) * 2 > len(scene.devices):
        return []
    host, names = next(iter(fewer.items()))
    everywhere = set.union(*(n for h, n in scene.devices.items() if h not in fewer))
    lost = sorted(everywhere - names)
    shown = [c for c in scene.find("nccl.ib.using") if c.host == host]
    note = Note(f"{host} lists {len(names)} fabric ports, the others {most}", shown[0], str(len(names)), str(most))
    device = f"ib/{lost[0]}" if len(lost) == 1 else None
    culprit = make_culprit(scene, None, host, device)
    chosen = {h: scene.settings.get(h, {}).get("NCCL_IB_HCA") for h in scene.devices}
    if chosen[host] and any(value != chosen[host] for value in chosen.values()):
        why = Note(f"NCCL_IB_HCA is set on {host} and not so on the others", None, ",".join(chosen[host] or ()))
        return [Candidate("config_env_error", 0.65, shown, INFERRED, [culprit], supports=[note, why])]
    checks = [
        f"ibstat on {host}: state of {', '.join(lost[:4]) or 'its ports'}",
        "its cable, transceiver and switch port",
    ]
    return [Candidate("ib_link_fault", 0.6, shown, INFERRED, [culprit], supports=[note], checks=checks)]


def _settings(scene: Scene) -> list[Candidate]:
    """Variables that differ are a cause only beside a failure that they explain."""
    notes = settings_differ(scene)
    if not notes:
        return []
    clues = [n.clue for n in notes if n.clue is not None]
    return [Candidate("config_env_error", 0.35, clues, SYMPTOM, [], supports=notes)]


def _hangs(scene: Scene) -> list[Candidate]:
    """Somebody gave up waiting, or the log ends while communicators are being made, and nobody complained."""
    started = {(c.host, c.event.origin.pid, c.text("commid", "comm")): c for c in scene.find("nccl.init.start")}
    done = {(c.host, c.event.origin.pid) for c in scene.find("nccl.init.complete")}
    stopped = scene.find("run.stopped")
    complained = [
        c
        for c in scene.clues
        if c.role in {"cause", "either", "symptom"} and c.signature not in {"run.stopped", "run.mpi_exit"}
    ]
    if complained or (scene.progress() and not stopped):
        return []
    if all(c.signature.startswith("run.") for c in scene.clues):  # nothing of a job that could hang
        return []
    waiting = [c for key, c in started.items() if (key[0], key[1]) not in done]
    no_result = tests_without_result(scene)
    if not (stopped or no_result or scene.find("run.interrupted") or (waiting and not scene.find("nccl.connected"))):
        return []
    clues = [*stopped, *waiting, *no_result]
    setting = _experimental(scene)
    if setting is not None:
        return [
            Candidate(
                "nccl_bug",
                0.55,
                clues,
                INFERRED,
                [],
                summary="the job hung while connections were made, without a word, with a feature new in this version",
                supports=[setting],
                checks=[
                    "the same run with that variable unset, and with the next release of NCCL",
                    "stacks of two ranks (py-spy, gdb)",
                ],
                missing=["stacks of the hung ranks", "NCCL_DEBUG_SUBSYS=ALL of a run that hangs"],
            )
        ]
    acs = [c for c in scene.find("pcie.acs") if "+" in c.text("src") + c.text("redir")]
    p2p = scene.find("nccl.channel.p2p")
    if p2p and not scene.several_hosts and not scene.find("nccl.nvls.available"):
        few = [c for c in scene.find("nccl.channels") if (c.number("coll") or 99) <= 4]
        weight = 0.65 if acs else 0.5 if few else 0.35
        notes = [Note("the ranks hang right after their direct connections were made", p2p[-1])]
        notes += [Note("ACS redirects peer traffic", acs[0])] if acs else []
        checks = [
            "run with NCCL_P2P_DISABLE=1: if it works, peer-to-peer is the reason",
            "lspci -vvv | grep ACSCtl; iommu=pt or off",
        ]
        return [Candidate("p2p_acs_iommu", weight, clues, INFERRED, _only(scene), supports=notes, checks=checks)]
    missing = ["stacks of the ranks while it hangs (py-spy dump)", "the logs of the ranks that did not start"]
    absent = never_started(scene)
    culprits = [make_culprit(scene, rank, None) for rank in absent[:4]]
    notes = [Note(f"rank {', '.join(map(str, absent[:8]))} never began to make the communicator")] if absent else []
    summary = (
        "it stopped before the first result and nothing says why" if no_result else "it hung without a word of why"
    )
    return [Candidate("unknown", 0.5, clues, INFERRED, culprits, summary=summary, supports=notes, missing=missing)]


def tests_without_result(scene: Scene) -> list[Clue]:
    """Return the head of a run of nccl-tests that printed no row of results, none when it did or nothing ran."""
    heads = scene.find("tests.header")
    if not heads or scene.find("tests.row", "tests.average", "tests.out_of_bounds", "tests.concluded"):
        return []
    return heads[:1] if scene.find("nccl.connected", "nccl.init.complete", "nccl.init.start") else []


def _only(scene: Scene) -> list:  # type: ignore[type-arg]
    host = scene.who.only_host()
    return [make_culprit(scene, None, host)] if host else []


def _experimental(scene: Scene) -> Note | None:
    versions = [_number(v) for versions in scene.versions.values() for v in versions]
    for clue in scene.find("nccl.env"):
        setting = f"{clue.text('var')}={clue.text('val').rstrip('.')}"
        for name, low, high, why in _EXPERIMENTAL:
            if setting == name and any(v is not None and low <= v <= high for v in versions):
                return Note(f"{setting}: {why}", clue)
    return None


def _version_checks() -> list[str]:
    return [
        "grep 'NCCL version' in the logs of all ranks; print(torch.cuda.nccl.version()) on each host",
        "LD_LIBRARY_PATH, LD_PRELOAD and the image on each host",
    ]


def _fabric_checks() -> list[str]:
    return [
        "ibv_devinfo inside of the container; /dev/infiniband, memlock, capabilities",
        "the NCCL_* variables of each rank (NCCL_DEBUG=INFO prints those it sees)",
        "NCCL_NET=IB makes it fail instead of falling back",
    ]
