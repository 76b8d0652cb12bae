"""Values of GPUs and links in the order of the inventory, and whose the processes are."""

from __future__ import annotations

import pytest

from stethoscope.model.facts import GpuProcess
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.cgroup import Owner, owner
from tests.parse.groups.parts import facts, only, row

HASH = "3f1a" * 16


def test_values_of_gpus_and_words() -> None:
    said = facts(
        "gpu",
        gpu={"gpu_pstate": [0, None], "gpu_ecc_mode": ["lost", 1]},
        words={"driver_version": "550.54.15", "cuda_version": "", "gpu_vbios_version": ["96.00", ""]},
    )
    assert said.gpu == {"gpu_pstate": [0, "unsupported"], "gpu_ecc_mode": ["lost", 1]}
    assert said.words == {"driver_version": "550.54.15"}
    assert said.gpu_words == {"gpu_vbios_version": ("96.00", "")}
    assert said.devices == {}
    assert said.processes == ()


def test_links_are_named_by_gpu_and_number() -> None:
    links = {"nvlink_state": [[1, 0], [], [1]], "nvlink_crc_errors": [[5, None], [], []]}
    devices = only(facts("gpu", links=links), Scope.NVLINK)
    assert devices.names == ("0/0", "0/1", "2/0")
    assert devices.values == {
        "nvlink_state": [1, 0, 1],
        "nvlink_crc_errors": [5, "unsupported", "unsupported"],
    }
    assert devices.whole
    assert row(devices, "0/1")["nvlink_state"] == 0


def test_boards_without_links_have_none() -> None:
    assert only(facts("gpu", links={"nvlink_state": [[], []]}), Scope.NVLINK).names == ()


def test_a_process_is_told_with_whose_it_is() -> None:
    files = {
        "/proc/4711/comm": "python3 (a) b)\n",
        "/proc/4711/stat": "4711 (python3 (a) b)) D 1 4711 0 0\n",
        "/proc/4711/cgroup": "0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0\n",
        "/proc/4711/user": "alice",
        "/proc/4712/stat": "4712 (x) Z 1\n",
    }
    said = facts("gpu", files, apps=[[3, 4711, 70000, "C"], [4, 4711, 500, "C"], [5, 4712, None, "?"], [0, 9, 1, "G"]])
    assert said.processes == (
        GpuProcess(4711, 3, 70000.0, "C", "python3 (a) b)", "alice", "D", slurm_job="1234"),
        GpuProcess(4711, 4, 500.0, "C", "python3 (a) b)", "alice", "D", slurm_job="1234"),
        GpuProcess(4712, 5, None, "", "", "", "Z"),
        GpuProcess(9, 0, 1.0, "G"),
    )
    assert said.node == {"zombie_gpu_holders": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Owner()),
        ("0::/user.slice/user-1000.slice/session-3.scope", Owner()),
        ("4:memory:/slurm/uid_1000/job_42/step_0/task_1\n3:cpu:/slurm/uid_1000/job_42", Owner("42")),
        ("0::/system.slice/gpu-01_slurmstepd.scope/job_42/step_batch/user", Owner("42")),
        ("0::/slurm/job_4", Owner("4")),
        ("0::/my_job_9x/y", Owner()),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/"
            f"kubepods-burstable-pod1a2b3c4d_0000_4444_8888_0123456789ab.slice/cri-containerd-{HASH}.scope",
            Owner("", "1a2b3c4d-0000-4444-8888-0123456789ab"),
        ),
        (
            f"11:devices:/kubepods/besteffort/pod1a2b3c4d-0000-4444-8888-0123456789ab/{HASH}",
            Owner("", "1a2b3c4d-0000-4444-8888-0123456789ab"),
        ),
        (f"0::/kubepods/pod{'0a' * 16}/{HASH}", Owner("", "0a" * 16)),
        (f"12:pids:/docker/{HASH}", Owner("", "", "3f1a3f1a3f1a")),
        (f"0::/system.slice/docker-{HASH}.scope", Owner("", "", "3f1a3f1a3f1a")),
        (f"0::/machine.slice/libpod-{HASH}.scope/container", Owner("", "", "3f1a3f1a3f1a")),
        (f"0::/default/{'ab' * 32}", Owner("", "", "abababababab")),
        (f"0::/job_7/docker-{HASH}.scope", Owner("7", "", "3f1a3f1a3f1a")),
    ],
)
def test_the_owner_of_a_control_group(text: str, expected: Owner) -> None:
    assert owner(text) == expected
