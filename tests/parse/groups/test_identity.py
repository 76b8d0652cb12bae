"""Versions of drivers, firmware and settings in every form that nodes write them."""

from __future__ import annotations

import pytest

from stethoscope.model import wire
from tests.parse.groups.parts import facts

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
    "GCC version:  gcc version 11.4.0\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)  Tue Mar\n"
ARM = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\n"
BMC = "Device ID                 : 32\nFirmware Revision         : 13.05\nIPMI Version              : 2.0\n"


@pytest.mark.parametrize(
    ("text", "version"), [(PROPRIETARY, "535.129.03"), (OPEN, "550.54.15"), (ARM, "580.95.05"), ("", None)]
)
def test_the_driver(text: str, version: str | None) -> None:
    assert facts("identity", {"/proc/driver/nvidia/version": text}).words.get("driver_version") == version


def test_a_node() -> None:
    said = facts(
        "identity",
        {
            "/proc/version": "Linux version 5.15.0-91-generic (buildd@lcy02) (gcc 11.4.0) #101-Ubuntu SMP\n",
            "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-5.15 root=UUID=8d2e-11 ro iommu=pt initrd=x quiet\n",
            "/proc/stat": "btime 1773450000\n",
            "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.3 LTS"\n',
            "/sys/class/dmi/id/sys_vendor": "Supermicro\n",
            "/sys/class/dmi/id/product_name": "SYS-821GE-TNHR\n",
            "/sys/class/dmi/id/bios_version": "2.1\n",
            "/sys/class/dmi/id/bios_date": "11/28/2023\n",
            "/sys/class/infiniband/mlx5_0/fw_ver": "28.39.1002\n",
            "/sys/class/infiniband/mlx5_1/fw_ver": "28.39.1002\n",
            "/sys/class/infiniband/mlx5_2/fw_ver": "20.38.1002\n",
            "/sys/class/infiniband/mlx5_0/board_id": "MT_0000000838\n",
            "/sys/module/mlx5_core/version": "23.10-1.1.9\n",
            "/usr/local/cuda": "/usr/local/cuda-12.4",
            "/usr/lib/x86_64-linux-gnu/libnccl.so.2": "/usr/lib/x86_64-linux-gnu/libnccl.so.2.20.5",
        },
        ran={"bmc": wire.Ran(out=BMC)},
    )
    assert said.words == {
        "kernel": "5.15.0-91-generic",
        "os": "Ubuntu 22.04.3 LTS",
        "product": "Supermicro SYS-821GE-TNHR",
        "bios": "2.1 (11/28/2023)",
        "bmc_firmware": "13.05",
        "mlx5_driver": "23.10-1.1.9",
        "ib_fw_version": "20.38.1002 (1), 28.39.1002 (2)",
        "ib_board": "MT_0000000838",
        "nccl_version": "2.20.5",
        "cuda_toolkit": "12.4",
        "cmdline": "ro iommu=pt quiet",
    }
    assert said.node == {"boot_time": 1773450000}
    assert said.gpu_words == {}


def test_nothing_is_known_of_an_empty_node() -> None:
    said = facts("identity", ran={"bmc": wire.Ran(exit=1, err="Could not open device at /dev/ipmi0\n")})
    assert said.words == {}
    assert said.node == {"boot_time": "unsupported"}


def test_the_vbios_of_gpus_in_the_order_of_their_addresses() -> None:
    text = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nVideo BIOS: \t {vbios}\nBus Type: \t PCIe\n"
    said = facts(
        "identity",
        {
            "/proc/driver/nvidia/gpus/0000:4e:00.0/information": text.format(vbios="??.??.??.??.??"),
            "/proc/driver/nvidia/gpus/0000:19:00.0/information": text.format(vbios="96.00.74.00.01"),
        },
    )
    assert said.gpu_words == {"gpu_vbios_version": ("96.00.74.00.01", "")}


@pytest.mark.parametrize(
    ("ran", "notes"),
    [
        (wire.Ran(exit=1, err="sudo: a password is required\n"), {"bmc": "ipmitool needs root"}),
        (wire.Ran(exit=1, err="sudo: unable to resolve host gpu7: Name or service not known\n"), {}),
        (wire.Ran(exit=1, err="Could not open device at /dev/ipmi0: No such file or directory\n"), {}),
        (
            wire.Ran(exit=1, err="Could not open device at /dev/ipmi0: Permission denied\n"),
            {"bmc": "ipmitool needs root"},
        ),
        (wire.Ran(status="absent"), {}),
        (wire.Ran(status="timeout"), {}),
        (wire.Ran(out=BMC), {}),
    ],
)
def test_why_the_management_controller_is_not_seen(ran: wire.Ran, notes: dict[str, str]) -> None:
    assert facts("identity", {}, ran={"bmc": ran}).notes == notes
