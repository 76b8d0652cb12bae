"""What simulated nodes say rarely: whole and repeated as the probe does it, and understood by what reads real nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from stethoscope.model import wire
from stethoscope.model.metric import Scope
from stethoscope.sim.files import view
from stethoscope.sim.parts import command, kept
from stethoscope.sim.readings import Readings
from stethoscope.sim.scenarios import open_scenario
from stethoscope.sim.speaker import Speaker
from stethoscope.sim.twin import Twin
from tests.sim.watching import facts, groups, parts, speaker
from tests.sim.worlds import scenario, twin

if TYPE_CHECKING:
    from stethoscope.model.facts import Facts


def _value(fact: Facts, scope: Scope, name: str, metric: str) -> object:
    devices = fact.devices[scope]
    return devices.values[metric][devices.names.index(name)]


def _names(lines: list[bytes]) -> list[tuple[str, bool]]:
    decoded = [wire.decode(line) for line in lines]
    return [(part.name, part.same) for part in decoded if isinstance(part, wire.Part)]


def _view(world: Twin, node: int) -> view.View:
    return view.View(world, node, Readings(world), -1e6, 0.0001, {})


# ------------------------------------------------------------ healthy nodes


def test_every_group_of_the_manifest_is_read_without_a_note() -> None:
    world = twin()
    world.advance_to(20)
    found = facts(world, 1)
    assert list(found) == [group["name"] for group in groups()]
    assert all(not fact.notes for fact in found.values())
    assert {scope for fact in found.values() for scope in fact.devices} == {
        Scope.NVLINK, Scope.PCIE, Scope.DISK, Scope.FS, Scope.NET,
    }  # fmt: skip


def test_a_healthy_node_is_complete() -> None:
    world = twin()
    world.advance_to(20)
    found = facts(world, 1)
    gpu, pcie, disks, mounts, net = (found[name] for name in ("gpu", "pcie", "disks", "mounts", "net"))
    assert gpu.gpu["gpu_pcie_link_width"] == [16] * 8
    assert gpu.gpu["nvlink_active_count"] == [18] * 8
    assert len(gpu.devices[Scope.NVLINK].names) == 144
    assert set(gpu.devices[Scope.NVLINK].values["nvlink_crc_errors"]) == {0}
    assert gpu.processes is not None
    assert [(one.pid, one.gpu, one.name, one.user, one.slurm_job) for one in gpu.processes][:2] == [
        (20_097, 0, "python3", "alice", "7"), (20_098, 1, "python3", "alice", "7"),
    ]  # fmt: skip
    assert len(pcie.devices[Scope.PCIE].names) == 8 * 4 + 8 * 2 + 3 * 2 + 4 * 2
    assert pcie.devices[Scope.PCIE].about["0000:1b:00.0"]["driver"] == "nvidia"
    assert disks.devices[Scope.DISK].names == ("nvme0n1", "nvme1n1", "nvme2n1", "md0")
    assert set(mounts.devices[Scope.FS].names) == {"/", "/boot/efi", "/local", "/shared", "/scratch"}
    assert set(mounts.devices[Scope.FS].values["fs_readonly"]) == {0}
    assert _value(net, Scope.NET, "ib3", "net_speed") == 400_000
    assert found["host"].node["dstate_processes"] == 0
    assert found["clock"].node["clock_synchronised"] == 1
    assert abs(float(str(found["clock"].node["clock_offset"]))) < 0.001
    assert found["tuning"].node["fabricmanager_active"] == 1
    assert found["smart"].devices[Scope.DISK].values["smart_passed"] == [1, 1, 1]


def test_an_idle_node_has_no_processes_on_its_gpus_and_loads_nothing() -> None:
    world = twin()
    world.advance_to(20)
    before = facts(world, 5)
    assert before["gpu"].processes == ()
    assert before["gpu"].gpu["gpu_process_count"] == [0] * 8
    world.advance_to(120)
    after, busy = facts(world, 5), facts(world, 1)
    for metric, moves in (("disk_reads", 60), ("disk_io_time", 60)):
        change = float(str(_value(after["disks"], Scope.DISK, "nvme1n1", metric)))
        change -= float(str(_value(before["disks"], Scope.DISK, "nvme1n1", metric)))
        assert 0 <= change <= moves
    reads = float(str(_value(busy["disks"], Scope.DISK, "nvme1n1", "disk_reads")))
    world.advance_to(220)
    later = float(str(_value(facts(world, 1)["disks"], Scope.DISK, "nvme1n1", "disk_reads")))
    assert later - reads == pytest.approx(85_020, rel=0.01)


@pytest.mark.parametrize("model", ["T4", "A10G", "A100-SXM4-80GB", "H800-SXM5-80GB", "B200", "L40S"])
def test_every_board_says_what_it_has(model: str) -> None:
    world = twin(gpu=model)
    board = world.layout.board
    found = facts(world, 0)
    assert found["gpu"].gpu["gpu_pcie_link_gen"] == [board.pcie_gen] * 8
    links = found["gpu"].devices[Scope.NVLINK].names if Scope.NVLINK in found["gpu"].devices else ()
    assert len(links) == 8 * board.links
    margins = board.margin_c is not None
    assert found["gpu"].gpu["gpu_temp_slowdown"] == (["unsupported"] * 8 if margins else [board.slowdown_c] * 8)
    pages = [0] * 8 if model == "T4" else ["unsupported"] * 8
    assert found["gpu"].gpu["gpu_retired_pages_dbe"] == pages


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    def lines(seed: int) -> list[bytes]:
        world = Twin(scenario(seed=seed))
        world.advance_to(33)
        return speaker(world, 2).parts(Readings(world), world.t_s, 99)

    assert lines(5) == lines(5)
    assert lines(5) != lines(6)


def test_what_a_node_counts_does_not_depend_on_how_its_time_was_reached() -> None:
    event = "at: 5s, fault: gpu_thermal_throttle, where: gpu-002/gpu/3, params: {ramp: 10s}"
    one, many = twin(event), twin(event)
    one.advance_to(90)
    for t_s in range(90):
        many.advance_to(t_s + 1)
    assert parts(one, 1)["disks"].files == parts(many, 1)["disks"].files
    assert parts(one, 1)["gpu"].gpu == parts(many, 1)["gpu"].gpu


# ------------------------------------------------------------ when parts are sent


def test_groups_are_sent_at_once_then_spread_and_whole_again_when_asked() -> None:
    world = twin()
    speaking = speaker(world, 1)
    names = [group["name"] for group in groups()]
    first = [
        *_names(speaking.parts(Readings(world), world.t_s, 2)),
        *_names(speaking.parts(Readings(world), world.t_s, 99)),
    ]
    assert first == [(name, False) for name in names]
    assert speaking.parts(Readings(world), world.t_s, 99) == []
    seen: dict[str, list[bool]] = {}
    for t_s in range(1, 61):
        world.advance_to(t_s)
        for name, same in _names(speaking.parts(Readings(world), world.t_s, 99)):
            seen.setdefault(name, []).append(same)
    # pcie is the second of ten groups: after 6 s, then every 30 s; nothing of it changes, the disks always do.
    assert seen["pcie"] == [True, True]
    assert seen["disks"] == [False, False]
    assert "smart" not in seen
    speaking.repeat_parts()
    assert _names(speaking.parts(Readings(world), world.t_s, 99)) == [(name, False) for name in names]


def test_what_does_not_change_is_whole_every_five_minutes_and_not_on_all_nodes_at_once() -> None:
    world = twin()
    speakers = [speaker(world, node) for node in (1, 5)]
    whole: list[list[int]] = [[], []]
    for t_s in range(0, 660, 3):
        world.advance_to(t_s)
        for times, speaking in zip(whole, speakers, strict=True):
            said = _names(speaking.parts(Readings(world), world.t_s, 99))
            times += [t_s for name, same in said if name == "pcie" and not same]
    assert whole == [[0, 186, 486], [0, 216, 516]]


def test_nobody_who_does_not_ask_gets_parts() -> None:
    world = twin()
    assert Speaker(world, 0, 2.0).parts(Readings(world), world.t_s, 99) == []


def test_files_are_kept_as_the_probe_keeps_them() -> None:
    tree = {"/a/1/x": "7 0\n8 3\n", "/a/2/x": "0\n", "/a/1/b/x": "no", "/n": "up 1\ndown 2\n", "/l": "/real"}
    reads = (("/a/*/x", "nonzero"), ("/n", "only ^up"), ("/a/[1]/x", "count"), ("/l", "link"), ("/gone", ""))
    files, failed = kept(reads, tree)
    assert files == {"/a/1/x": "8 3\n", "/a/2/x": "", "/n": "up 1\n", "/a/[1]/x": "1 7 0 8 3\n", "/l": "/real"}
    assert failed == {"/gone": "absent"}


def test_commands_run_as_root_and_those_that_are_not_there_say_so() -> None:
    here = _view(twin(), 0)
    plain = command(here, ["smartctl", "-j", "-a", "/dev/nvme1"])
    assert json.loads(plain.out)["device"]["name"] == "/dev/nvme1"
    assert command(here, ["sudo", "-n", "smartctl", "-j", "-a", "/dev/nvme1"]) == plain
    assert command(here, ["ntpq", "-pn"]) == wire.Ran(status="absent")
    assert command(here, ["smartctl", "-j", "-a", "/dev/sda"]).status == "absent"
    assert "xfs" in command(here, ["df", "-PklT"]).out
    assert "lustre" not in command(here, ["df", "-PklT"]).out
    assert [line.split()[1] for line in command(here, ["df", "-PkT", "-t", "lustre"]).out.splitlines()[1:]] == [
        "lustre"
    ]


# ------------------------------------------------------------ the demo


def test_the_nodes_of_the_demo_differ_in_four_places_and_nowhere_else() -> None:
    world = Twin(open_scenario("demo"))
    words = [{**facts(world, node)["tuning"].words, **facts(world, node)["identity"].words} for node in (0, 22, 36, 51)]
    usual = words[0]
    assert usual["driver_version"] == "575.57.08"
    different = [{name: word for name, word in said.items() if word != usual[name]} for said in words[1:]]
    assert different == [
        {"ib_fw_version": "28.39.2048"},
        {"cpu_governor": "powersave"},
        {"driver_version": "570.124.06"},
    ]
    assert world.scenario.fleet.drift.keys() == {"gpu-023", "gpu-024", "gpu-037", "gpu-052"}
