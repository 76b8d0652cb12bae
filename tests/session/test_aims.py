"""What a probe can be aimed at, and what forbids it, on built fleets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import UsageError
from stethoscope.model.facts import GpuProcess
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Reason, Scope
from stethoscope.model.scheduler import Job
from stethoscope.session.aims import Aim, Refusal, aims_of, devices_of, refusal
from stethoscope.session.probe_run import _is_ready, places_of
from stethoscope.specs.probes import OnDemand, load_manifest
from tests.builders import fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot

PROBES = {probe.id: probe for probe in load_manifest().ondemand}
IDLE = {(f"gpu-001/gpu/{index}", "gpu_util"): 0.0 for index in range(8)}


def built(**changes: object) -> FleetSnapshot:
    """Return a fleet of two nodes, the first with these changes of what is known of it."""
    snapshot = fleet(2)
    return with_node(snapshot, **changes)


def with_node(snapshot: FleetSnapshot, **changes: object) -> FleetSnapshot:
    nodes = (replace(snapshot.nodes[0], **changes), *snapshot.nodes[1:])  # type: ignore[arg-type]
    return replace(snapshot, nodes=nodes)


DEVICES = {
    Scope.DISK: ("nvme0n1", "sda", "md0"),
    Scope.NET: ("eth0", "bond0;reboot"),
    Scope.PCIE: ("0000:18:00.0",),
}


@pytest.mark.parametrize(
    ("probe", "place", "aims"),
    [
        ("ibstat", "gpu-001", [Aim("gpu-001", (), "gpu-001")]),
        ("ibstat", "gpu-001/ib/mlx5_3", [Aim("gpu-001", (), "gpu-001")]),
        ("mlxlink", "gpu-001/ib/mlx5_3", [Aim("gpu-001", ("mlx5_3", "1"), "gpu-001/ib/mlx5_3")]),
        ("nvidia_smi_q", "gpu-001", [Aim("gpu-001", (), "gpu-001")]),
        ("nvidia_smi_q", "gpu-001/gpu/7", [Aim("gpu-001", ("7",), "gpu-001/gpu/7")]),
        ("nvidia_smi_nvlink", "gpu-001/nvlink/5/11", [Aim("gpu-001", ("5",), "gpu-001/gpu/5")]),
        ("smartctl", "gpu-001/disk/sda", [Aim("gpu-001", ("sda",), "gpu-001/disk/sda")]),
        ("lspci", "gpu-001/gpu/1", [Aim("gpu-001", ("0000:19:00.0",), "gpu-001/gpu/1")]),
        ("lspci", "gpu-001/pcie/0000:18:00.0", [Aim("gpu-001", ("0000:18:00.0",), "gpu-001/pcie/0000:18:00.0")]),
        ("lspci", "gpu-001", [Aim("gpu-001", (), "gpu-001")]),
        ("ethtool", "gpu-001/net/eth0", [Aim("gpu-001", ("eth0",), "gpu-001/net/eth0")]),
    ],
)
def test_a_place_is_what_the_probe_is_told(probe: str, place: str, aims: list[Aim]) -> None:
    assert aims_of(built(devices=DEVICES), PROBES[probe], [place]) == aims


def test_a_node_is_each_of_its_devices_once() -> None:
    found = aims_of(built(), PROBES["mlxlink"], ["gpu-001", "gpu-001/ib/mlx5_3", "gpu-002"])
    assert [aim.arguments[0] for aim in found if aim.node == "gpu-001"] == [f"mlx5_{n}" for n in range(8)]
    assert len(found) == 16


def test_only_the_disks_that_a_probe_is_for() -> None:
    snapshot = built(devices=DEVICES)
    assert [aim.arguments for aim in devices_of(snapshot, PROBES["smartctl"], "gpu-001")] == [("nvme0n1",), ("sda",)]
    assert [aim.arguments for aim in devices_of(snapshot, PROBES["nvme"], "gpu-001")] == [("nvme0n1",)]


def test_ethernet_ports_are_not_asked_as_infiniband_ones() -> None:
    ports = tuple(replace_layer(port) for port in fleet(1).nodes[0].ports[:2])
    with pytest.raises(UsageError, match="none is known on gpu-001"):
        devices_of(built(ports=ports), PROBES["perfquery"], "gpu-001")
    assert len(devices_of(built(ports=ports), PROBES["mlxlink"], "gpu-001")) == 2


def replace_layer(port):  # type: ignore[no-untyped-def]
    import msgspec

    return msgspec.structs.replace(port, layer="Ethernet", netdev="eth0")


def test_a_leaf_is_asked_through_the_first_port_on_it_that_is_up() -> None:
    snapshot = built()
    probe = PROBES["switch_counters"]
    name = snapshot.nodes[0].leaf(1)
    (aim,) = aims_of(snapshot, probe, [f"leaf/{name}"])
    assert aim == Aim(snapshot.nodes[0].name, ("mlx5_1", "1"), f"leaf/{name}")
    with pytest.raises(UsageError, match="none that is up is known"):
        aims_of(snapshot, probe, ["leaf/leaf-99-1"])


def test_the_interface_behind_a_port() -> None:
    ports = tuple(replace_layer(port) for port in fleet(1).nodes[0].ports[:1])
    found = aims_of(built(ports=ports, devices=DEVICES), PROBES["ethtool"], ["gpu-001/ib/mlx5_0"])
    assert found == [Aim("gpu-001", ("eth0",), "gpu-001/ib/mlx5_0")]


@pytest.mark.parametrize(
    ("probe", "place", "words"),
    [
        ("ibstat", "gpu-999", 'no node is called "gpu-999" here'),
        ("mlxlink", "gpu-001/ib/mlx5_99", "gpu-001/ib/mlx5_99 is none that is known"),
        ("mlxlink", "gpu-001/gpu/3", "looks at one adapter port"),
        ("nvidia_smi_q", "gpu-001/gpu/8", "gpu-001/gpu/8 is none"),
        ("smartctl", "gpu-001", "smartctl looks at one disk, and none is known on gpu-001"),
        ("smartctl", "gpu-001/disk/../../etc", "none"),
    ],
)
def test_what_is_not_there_is_said(probe: str, place: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        aims_of(built(), PROBES[probe], [place])


def test_the_places_that_people_type() -> None:
    known = ["gpu-001", "gpu-002", "gpu-003"]
    assert places_of([], known) == known
    assert places_of(["gpu-[001-002]/ib/mlx5_3", "gpu-003"], known) == [
        "gpu-001/ib/mlx5_3",
        "gpu-002/ib/mlx5_3",
        "gpu-003",
    ]
    with pytest.raises(UsageError, match='"gpu-004" here; did you mean "gpu-'):
        places_of(["gpu-004"], known)


# ---------------------------------------------------------------- refusals


def refused(snapshot: FleetSnapshot, probe: str = "dcgm_diag_r1", *arguments: str) -> Refusal | None:
    return refusal(snapshot, PROBES[probe], Aim("gpu-001", arguments, "gpu-001"))


def test_idle_gpus_may_be_loaded() -> None:
    assert refused(with_node(fleet(2, set=IDLE), processes=())) is None


@pytest.mark.parametrize("util", [5.0, 100.0])
def test_a_gpu_that_computes_is_busy(util: float) -> None:
    snapshot = with_node(fleet(2, set={**IDLE, ("gpu-001/gpu/3", "gpu_util"): util}), processes=())
    assert refused(snapshot) == Refusal("busy: GPU 3", can_force=True)
    assert refused(with_node(fleet(2, set={**IDLE, ("gpu-001/gpu/3", "gpu_util"): 4.9}), processes=())) is None


def test_who_holds_the_gpus_is_said() -> None:
    processes = (
        *(GpuProcess(4000 + gpu, gpu, 70_000.0, "C", "python3", "ana", slurm_job="4242") for gpu in range(4)),
        GpuProcess(77, 6, 300.0, "C", "jupyter", "bo"),
        GpuProcess(78, 7, None, "C", pod="5c1e"),
    )
    assert refused(with_node(fleet(2, set=IDLE), processes=processes)) == Refusal(
        "busy: GPU 0-3, 6-7, held by job 4242 of ana (4 processes), process 77 jupyter of bo, pod 5c1e", can_force=True
    )


def test_what_is_not_known_is_busy() -> None:
    assert refused(with_node(fleet(2, set=IDLE), processes=None)) == Refusal(
        "it is not known whether processes hold a GPU", can_force=True
    )
    unknown = {**IDLE, ("gpu-001/gpu/2", "gpu_util"): Reason.HUNG}
    assert refused(with_node(fleet(2, set=unknown), processes=())) == Refusal(
        "it is not known whether GPU 2 is busy", can_force=True
    )


def test_a_busy_gpu_does_not_matter_to_what_only_reads() -> None:
    assert refused(fleet(2), "nvidia_smi_q") is None


def test_a_probe_of_one_gpu_looks_at_that_one() -> None:
    one = OnDemand("x", "x", "x", "x.sh", target="gpu", loads_gpu=True)
    snapshot = with_node(fleet(2, set={**IDLE, ("gpu-001/gpu/3", "gpu_util"): 98.0}), processes=())
    assert refusal(snapshot, one, Aim("gpu-001", ("2",), "gpu-001/gpu/2")) is None
    assert refusal(snapshot, one, Aim("gpu-001", ("3",), "gpu-001/gpu/3")) == Refusal("busy: GPU 3", can_force=True)


@pytest.mark.parametrize("probe", ["nvidia_smi_q", "dcgm_diag_r1"])
def test_no_tool_waits_beside_a_probe_for_a_driver_that_hangs(probe: str) -> None:
    snapshot = fleet(2, notes={"gpu-001": {"nvml": "hung for 41 s"}})
    assert refused(snapshot, probe) == Refusal(
        "the GPU driver does not answer there, and this would wait for it as well", can_force=True
    )
    assert refused(snapshot, "ibstat") is None


def test_a_driver_that_hangs_is_not_waited_for_to_say_which_gpus_are_busy() -> None:
    snapshot = fleet(2, notes={"gpu-001": {"nvml": "hung for 41 s"}})
    hung, fine = (replace(snapshot.node(name), frames=3, parts={}) for name in ("gpu-001", "gpu-002"))
    assert _is_ready(hung, PROBES["dcgm_diag_r1"], {}, 10.0)
    assert not _is_ready(fine, PROBES["dcgm_diag_r1"], {}, 10.0)


def test_no_link_no_run() -> None:
    snapshot = fleet(2, links={"gpu-001": LinkState.REFUSED})
    assert refused(snapshot, "ibstat") == Refusal("there is no link: refused")


def test_read_only_runs_nothing() -> None:
    assert refused(replace(fleet(2), read_only=True), "ibstat") == Refusal(
        "--read-only allows no command but the stream probe"
    )


def test_a_name_that_a_shell_could_read_is_not_given_to_one() -> None:
    assert refused(built(devices=DEVICES), "ethtool", "bond0;reboot") == Refusal(
        '"bond0;reboot" has characters that are not given to a command'
    )


def test_a_node_reaches_its_neighbours_in_the_ring_and_some_others_of_its_job() -> None:
    snapshot = fleet(40)
    names = tuple(node.name for node in snapshot.nodes)
    snapshot = replace(snapshot, jobs=(Job("4242", nodes=names[:32]),))
    probe = OnDemand("reach", "reach", "reach", "reach.sh", peers=6)
    ((node, peers, place),) = aims_of(snapshot, probe, [names[0]])
    assert (node, place) == (names[0], names[0])
    assert peers[:2] == (names[1], names[31])
    assert len(peers) == len(set(peers)) == 6
    assert names[0] not in peers
    assert set(peers) < set(names[:32])
    ((_, pair, _),) = aims_of(replace(snapshot, jobs=(Job("1", nodes=names[:2]),)), probe, [names[1]])
    assert pair == (names[0],)
    with pytest.raises(UsageError, match="no job is known"):
        aims_of(snapshot, probe, [names[39]])
