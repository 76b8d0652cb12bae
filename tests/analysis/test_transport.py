"""Which transport NCCL chose: networks, adapters, ways of the hops, and what is not as it should be."""

from __future__ import annotations

from stethoscope.analysis.decode import Scanner
from stethoscope.analysis.transport import Transport, transport_of
from stethoscope.specs.signature import load_signatures

SIGNATURES = load_signatures()
NOW = 1_780_000_000.0


def transport(*lines: str) -> Transport | None:
    scanner = Scanner(SIGNATURES, now=NOW)
    scan = scanner.file("train.log", modified_at=NOW)
    scan.feed("".join(f"{line}\n" for line in lines).encode())
    scan.end()
    return transport_of(scanner.finish())


def told(*lines: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = transport(*lines)
    assert found is not None
    return found.lines, found.warnings


def start(
    rank: int, *, network: str = "IB", local: int = 8, adapters: int = 2, nranks: int = 16, interface: str = "bond0"
) -> list[str]:
    host, device = f"node-{rank // local}", rank % local
    head = f"{host}:{4000 + rank}:{5000 + rank} [{device}] NCCL INFO"
    ports = " ".join(f"[{n}]mlx5_{n}:1/IB" for n in range(adapters))
    lines = [f"{head} Bootstrap : Using {interface}:10.0.0.{rank // local + 1}<0>"]
    if adapters:
        lines.append(f"{head} NET/IB : Using {ports} [RO]; OOB bond0:10.0.0.{rank // local + 1}<0>")
    return [
        *lines,
        f"{head} Using network {network}",
        f"{head} ncclCommInitRank comm 0x7f40aa10 rank {rank} nranks {nranks} cudaDev {device} nvmlDev {device} "
        f"busId {device + 1}f000 commId 0x51c0ffee - Init START",
    ]


def hop(rank: int, peer: int, way: str, *, local: int = 8) -> str:
    head = f"node-{rank // local}:{4000 + rank}:{5000 + rank} [{rank % local}] NCCL INFO"
    direction = " [send]" if way.startswith("NET/") else ""
    return f"{head} Channel 00/0 : {rank}[{rank % local}] -> {peer}[{peer % local}]{direction} via {way}"


def test_a_log_without_such_lines_has_no_transport() -> None:
    assert transport("step 1 loss 2.0", "node-0:1:1 [0] NCCL INFO NCCL version 2.27.3+cuda12.8") is None


def test_the_usual_choice_is_told_without_warning() -> None:
    lines = [line for rank in range(16) for line in start(rank)]
    lines += [hop(7, 8, "NET/IB/1/GDRDMA"), hop(15, 0, "NET/IB/1/GDRDMA"), hop(0, 1, "P2P/CUMEM/read")]
    lines += [
        "node-0:4000:5000 [0] NCCL INFO 16 coll channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer"
    ]
    lines += ["node-0:4000:5000 [0] NCCL INFO Connected all rings"]
    assert told(*lines) == (
        (
            "network IB on all 16 ranks; 2 InfiniBand adapters (mlx5_0, mlx5_1)",
            "over the network IB; GPUDirect RDMA on all of 2 connections",
            "inside nodes P2P/CUMEM 1 connections; NVLink",
            "collectives over 16 channels, rings, NVLS (the NVLink switches reduce)",
            "first contact over bond0 on all 16 ranks",
        ),
        (),
    )


def test_a_mixed_job_is_told_in_numbers() -> None:
    lines = [line for rank in range(16) for line in start(rank, network="Socket" if rank < 12 else "IB", local=4)]
    _, warnings = told(*lines)
    assert warnings == ("of 16 ranks 12 use Socket, 4 use IB: IB on node-3",)


def test_sockets_beside_adapters_are_told_with_the_setting_behind() -> None:
    lines = [line for rank in (0, 8) for line in start(rank, network="Socket")]
    assert told(*lines)[1] == ("all ranks use Socket although InfiniBand or RoCE adapters are there",)
    lines.append("node-0:4000:5000 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.")
    assert told(*lines)[1] == (
        "all ranks use Socket although InfiniBand or RoCE adapters are there (NCCL_IB_DISABLE=1)",
    )


def test_a_fall_back_to_sockets_is_said_plainly() -> None:
    lines = [line for rank in (0, 8) for line in start(rank, network="Socket", adapters=0)]
    lines += [f"node-{n}:{4000 + 8 * n}:1 [0] NCCL INFO NET/IB : No device found." for n in (0, 1)]
    assert told(*lines)[1] == ("all ranks fell back to Socket: no InfiniBand device was found",)


def test_host_memory_on_the_way_is_told() -> None:
    lines = [line for rank in range(2) for line in start(rank)]
    assert told(*lines, hop(0, 8, "NET/IB/0"))[1] == (
        "no GPUDirect RDMA anywhere: what goes over the network goes through host memory",
    )
    assert told(*lines, hop(0, 8, "NET/IB/0"), hop(1, 9, "NET/IB/1/GDRDMA"))[1] == (
        "no GPUDirect RDMA on node-0, while others have it",
    )
    assert told(*lines, hop(0, 1, "P2P/CUMEM"), hop(1, 0, "SHM/direct/direct"))[1] == (
        "host memory (SHM) between GPUs of node-0 although others use NVLink or P2P",
    )


def test_ranks_of_one_host_that_use_the_network_are_told() -> None:
    lines = [line for rank in range(2) for line in start(rank)]
    _, warnings = told(*lines, hop(0, 1, "NET/IB/0/GDRDMA"))
    assert [warning for warning in warnings if warning.startswith("ranks of one host talk over the network (node-0)")]


def test_missing_and_idle_adapters_are_told() -> None:
    lines = [*start(0, adapters=8), *start(1, adapters=8), *start(8, adapters=7)]
    assert told(*lines)[1] == ("7 adapters on node-1, 8 on the others: a port is down or left out",)
    lines = [line for rank in range(4) for line in start(rank, adapters=4)]
    lines += [hop(rank, rank + 8, f"NET/IB/{min(rank, 2)}/GDRDMA") for rank in range(4)]
    assert told(*lines)[1] == ("on node-0 GPUs share mlx5_2 while mlx5_3 is idle: a dead port, or the topology file",)


def test_a_first_contact_over_a_bridge_cannot_reach_others() -> None:
    lines = [line for rank in (0, 8) for line in start(rank, interface="docker0")]
    assert told(*lines)[1] == ("the first contact goes over docker0, which other hosts cannot reach",)


def test_each_rank_has_its_own_account() -> None:
    lines = [*start(0), *start(1), hop(0, 1, "P2P/CUMEM"), hop(1, 8, "NET/IB/1/GDRDMA")]
    found = transport(*lines)
    assert found is not None
    assert [(r.rank, r.host, r.network, sorted(r.nics), dict(r.hops)) for r in found.ranks] == [
        (0, "node-0", "IB", [], {"P2P/CUMEM": 1}),
        (1, "node-0", "IB", [1], {"NET/IB/GDRDMA": 1}),
    ]
