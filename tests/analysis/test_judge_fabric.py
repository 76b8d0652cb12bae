"""The fabric and the networks between hosts: whom completions name, which side is sick, what is only set wrong."""

from __future__ import annotations

import pytest

from tests.analysis.job_lines import answer, completion, started, steps, verdict_of

HOSTS = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3", "n4": "10.0.0.4"}


def cluster(*, kind: str = "IB", ready: bool = True) -> list[str]:
    lines = []
    for number, (host, ip) in enumerate(HOSTS.items()):
        lines += started(host, ip, number, 4, kind=kind, ready=ready)
    return lines


def test_the_peer_that_most_name_is_the_culprit() -> None:
    verdict = verdict_of(
        cluster(),
        steps(100, 200),
        completion("n1", 0, "10.0.0.3"),
        completion("n2", 1, "10.0.0.3"),
        completion("n4", 3, "10.0.0.3"),
        completion("n3", 2, "10.0.0.1"),
    )
    assert answer(verdict) == ("ib_link_fault", "P0", [(None, "n3")])
    assert "the log and the kernel log of the named peer for the same minute" in verdict.missing


def test_flushed_completions_are_echoes() -> None:
    flushed = completion("n1", 0, "10.0.0.2", status=5, vendor=249) * 20
    real = completion("n4", 3, "10.0.0.3") + completion("n1", 0, "10.0.0.3")
    assert answer(verdict_of(cluster(), steps(100, 200), flushed, real))[2] == [(None, "n3")]


@pytest.mark.parametrize(
    "said",
    [
        "NET/IB : Got async event : port error",
        "NET/IB : mlx5_3:1 Got async event : port error",
        "NET/IB : mlx5_3:1 Got async error event: port error",
        "NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)",
    ],
)
def test_who_prints_the_port_error_has_the_port(said: str) -> None:
    error = f"n2:1001:1002 [3] transport/net_ib.cc:93 NCCL WARN {said}"
    verdict = verdict_of(cluster(), steps(100, 200), error, completion("n1", 0, "10.0.0.2"))
    assert answer(verdict) == ("ib_link_fault", "P0", [(None, "n2")])
    assert verdict.confidence >= 0.85


def test_a_flap_that_the_job_survived_is_planned_work() -> None:
    lines = [
        f"n2:1001:1002 [3] transport/net_ib.cc:173 NCCL WARN NET/IB : mlx5_3:1 Got async error event: port {word}"
        for word in ("error", "active")
    ]
    verdict = verdict_of(cluster(), steps(100, 200), lines, steps(200, 400))
    assert answer(verdict) == ("ib_link_fault", "P2", [(None, "n2")])
    assert verdict.culprits[0].place == "n2/ib/mlx5_3"
    assert verdict.contradicts[0].fact == "the job went on after it"


def test_ports_of_many_hosts_at_once_point_at_their_switch() -> None:
    lines = [
        f"[2026-03-14 01:14:53] {host}:44:88 [3] transport/net_ib.cc:173 NCCL WARN NET/IB : mlx5_6:1 Got async error"
        " event: port error"
        for host in HOSTS
    ]
    verdict = verdict_of(steps(100, 200), lines)
    assert verdict.root_cause == "ib_link_fault"
    assert verdict.next_checks[0] == "the switch that these ports share: its log, power, line cards"


def test_no_answer_in_the_first_collective_over_roce_is_the_address_entry() -> None:
    verdict = verdict_of(cluster(kind="RoCE"), completion("n1", 0, "10.0.0.2"), completion("n2", 1, "10.0.0.1"))
    assert (verdict.root_cause, str(verdict.severity)) == ("gid_or_pkey_misconfig", "P1")


def test_many_pairs_over_roce_under_load_is_flow_control() -> None:
    pairs = [completion(h, i, list(HOSTS.values())[(i + 1) % 4]) for i, h in enumerate(HOSTS)]
    verdict = verdict_of(cluster(kind="RoCE"), steps(100, 200), *pairs)
    assert answer(verdict) == ("roce_misconfig", "P1", [])


def test_a_local_protection_error_is_its_own_host() -> None:
    direct = "n1:1000:1009 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA"
    verdict = verdict_of(cluster(), direct, completion("n1", 0, "10.0.0.2", status=4, vendor=81))
    assert answer(verdict) == ("p2p_acs_iommu", "P1", [(0, "n1")])


def test_a_queue_pair_between_rails_is_topology() -> None:
    refused = (
        "n1:1000:1009 [0] misc/ibvwrap.cc:328 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on"
        " dev mlx5_1:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.30.1.3, remote GID"
        " ::ffff:10.30.2.17"
    )
    assert answer(verdict_of(cluster(kind="RoCE", ready=False), refused)) == (
        "topology_or_affinity",
        "P1",
        [(None, "n1")],
    )


def test_a_queue_pair_that_is_refused_is_the_gid() -> None:
    refused = "n1:1000:1009 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument"
    assert answer(verdict_of(cluster(ready=False), refused))[0] == "gid_or_pkey_misconfig"


def test_bridges_lead_to_no_other_host() -> None:
    lines = [
        *started("h1", "172.17.0.2", 0, 2, interface="docker0", network="Socket", ready=False),
        *started("h2", "172.17.0.2", 1, 2, interface="docker0", network="Socket", ready=False),
        "h2:1001:1010 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.17.0.2<38847> failed :"
        " Software caused connection abort",
    ]
    verdict = verdict_of(lines)
    assert (verdict.root_cause, verdict.confidence) == ("wrong_interface", 0.85)


def test_no_route_to_the_right_address_is_a_filter() -> None:
    lines = [
        *started("fa", "10.4.4.1", 0, 2, ready=False),
        *started("fb", "10.4.4.2", 1, 2, ready=False),
        "fb:1001:1010 [0] misc/socket.cc:538 NCCL WARN socketPollConnect: Connect to 10.4.4.1<41877> returned 113(No"
        " route to host) errno 115(Operation now in progress)",
    ]
    assert answer(verdict_of(lines)) == ("firewall_or_port_blocked", "P1", [(None, "fa")])


def test_closed_connections_are_followed_to_their_start() -> None:
    def left(host: str, rank: int, said: str) -> list[str]:
        return ["", f"{host}:{1000 + rank}:{1010 + rank} [0] misc/socket.cc:58 NCCL WARN {said}"]

    verdict = verdict_of(
        cluster(),
        steps(100, 200),
        left("n1", 0, "socketProgress: Connection closed by remote peer n4.cluster.local<48022>"),
        left("n2", 1, "socketProgressOpt: Call to recv from 10.0.0.1<42911> failed : Connection reset by peer"),
        left("n3", 2, "socketProgressOpt: Call to recv from 10.0.0.2<42911> failed : Connection reset by peer"),
    )
    assert answer(verdict) == ("peer_process_died", "P1", [(None, "n4")])
    assert verdict.confidence <= 0.55


def test_a_name_that_never_resolves() -> None:
    lines = [
        "[W socket.cpp:663] [c10d] The IPv4 network addresses of (job-master-0, 23456) cannot be retrieved (gai error:"
        " -3 - Temporary failure in name resolution)."
    ] * 5
    assert answer(verdict_of(lines)) == ("dns_or_hostname", "P1", [(None, "job-master-0")])


def test_the_wording_of_two_versions_gives_them_away() -> None:
    lines = [
        *started("va", "10.1.0.1", 0, 2, version="2.22.3", ready=False),
        "va:1000:1009 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        *started("vb", "10.1.0.2", 1, 2, ready=False)[:1],
        "vb:1001:1010 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        "vb:1001:1010 [0] misc/socket.cc:47 NCCL WARN socketProgressOpt: Call to recv from 10.1.0.1<45211> failed :"
        " Connection reset by peer",
    ]
    assert answer(verdict_of(lines)) == ("version_mismatch", "P1", [(None, "va"), (None, "vb")])


def test_fewer_ports_than_the_others_is_a_dead_port_or_a_filter() -> None:
    lines = started("ea", "10.1.0.1", 0, 16, ports=4) + started("eb", "10.1.0.2", 8, 16, ports=8) + steps(10, 60)
    assert answer(verdict_of(lines)) == ("ib_link_fault", "P0", [(None, "ea")])
    chosen = "ea:1000:1009 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1,mlx5_2,mlx5_3"
    assert answer(verdict_of(chosen, lines)) == ("config_env_error", "P1", [(None, "ea")])
