"""Links of devices and of the ports above them; what is unknown is never 0."""

from __future__ import annotations

from stethoscope.model.metric import Scope
from tests.parse.groups.parts import facts, only, row

ROOT = "/sys/bus/pci/drivers"
GPU, NIC, DISK = "0000:19:00.0", "0000:1a:00.0", "10000:01:00.0"
PATH = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0"


def device(driver: str, name: str, speed: str = "32.0 GT/s PCIe\n", width: str = "16\n") -> dict[str, str]:
    folder = f"{ROOT}/{driver}/{name}"
    return {
        folder: f"{PATH}/{name}",
        f"{folder}/current_link_speed": speed,
        f"{folder}/current_link_width": width,
        f"{folder}/max_link_speed": "32.0 GT/s PCIe\n",
        f"{folder}/max_link_width": "16\n",
        f"{folder}/aer_dev_correctable": "",
        f"{folder}/aer_dev_nonfatal": "",
        f"{folder}/aer_dev_fatal": "",
    }


def test_a_healthy_device_has_its_link_and_no_errors() -> None:
    devices = only(facts("pcie", device("nvidia", GPU)), Scope.PCIE)
    assert devices.names == (GPU,)
    assert devices.whole
    assert row(devices, GPU) == {
        "pcie_link_speed": 32.0,
        "pcie_max_link_speed": 32.0,
        "pcie_link_width": 16,
        "pcie_max_link_width": 16,
        "pcie_aer_correctable": 0,
        "pcie_aer_nonfatal": 0,
        "pcie_aer_fatal": 0,
    }
    assert devices.about[GPU] == {"driver": "nvidia", "upstream": "0000:17:04.0"}


def test_errors_are_the_total_and_their_kinds_are_named() -> None:
    files = device("mlx5_core", NIC)
    files[f"{ROOT}/mlx5_core/{NIC}/aer_dev_correctable"] = "RxErr 18233\nBadTLP 911\nTOTAL_ERR_COR 19144\n"
    files[f"{ROOT}/mlx5_core/{NIC}/aer_dev_fatal"] = "CmpltTO 1\nTOTAL_ERR_FATAL 1\n"
    devices = only(facts("pcie", files), Scope.PCIE)
    assert row(devices, NIC)["pcie_aer_correctable"] == 19144
    assert row(devices, NIC)["pcie_aer_fatal"] == 1
    assert devices.about[NIC]["aer_correctable"] == "BadTLP 911, RxErr 18233"


def test_older_kernels_write_the_speed_without_pcie() -> None:
    devices = only(facts("pcie", device("nvidia", GPU, speed="16 GT/s\n")), Scope.PCIE)
    assert row(devices, GPU)["pcie_link_speed"] == 16.0


def test_a_device_that_does_not_answer_has_errors_and_no_numbers() -> None:
    devices = only(facts("pcie", device("nvidia", GPU, speed="Unknown\n", width="63\n")), Scope.PCIE)
    assert row(devices, GPU)["pcie_link_speed"] == row(devices, GPU)["pcie_link_width"] == "error"


def test_a_device_without_a_link_is_unsupported() -> None:
    devices = only(facts("pcie", device("nvme", GPU, speed="Unknown speed\n", width="0\n")), Scope.PCIE)
    assert row(devices, GPU)["pcie_link_speed"] == row(devices, GPU)["pcie_link_width"] == "unsupported"


def test_files_that_are_not_there_or_not_readable_say_why() -> None:
    folder = f"{ROOT}/nvidia/{GPU}"
    devices = only(
        facts("pcie", {folder: f"{PATH}/{GPU}"}, failed={f"{folder}/current_link_width": "permission"}), Scope.PCIE
    )
    assert row(devices, GPU)["pcie_link_width"] == "permission"
    assert row(devices, GPU)["pcie_aer_fatal"] == "unsupported"


def test_ports_are_devices_only_above_a_device() -> None:
    files = device("nvidia", GPU) | device("nvme", NIC)
    for port in ("0000:15:01.0", "0000:16:00.0", "0000:17:04.0", "0000:00:1c.0"):
        files[f"{ROOT}/pcieport/{port}/current_link_speed"] = "16.0 GT/s PCIe\n"
        files[f"{ROOT}/pcieport/{port}/aer_dev_correctable"] = "Timeout 7\nTOTAL_ERR_COR 7\n"
    devices = only(facts("pcie", files), Scope.PCIE)
    assert devices.names == ("0000:15:01.0", "0000:16:00.0", "0000:17:04.0", GPU, NIC)
    assert devices.about["0000:17:04.0"] == {
        "driver": "pcieport",
        "upstream": "0000:16:00.0",
        "above": f"{GPU} {NIC}",
        "aer_correctable": "Timeout 7",
    }
    assert row(devices, "0000:15:01.0")["pcie_aer_correctable"] == 7
    assert row(devices, "0000:15:01.0")["pcie_link_width"] == "unsupported"


def test_virtual_functions_have_no_link_of_their_own() -> None:
    files = device("mlx5_core", NIC) | {
        f"{ROOT}/mlx5_core/0000:1a:00.1": f"{PATH}/0000:1a:00.1",
        f"{ROOT}/mlx5_core/0000:1a:00.1/physfn": f"{PATH}/{NIC}",
    }
    assert only(facts("pcie", files), Scope.PCIE).names == (NIC,)


def test_what_is_no_address_is_no_device() -> None:
    files = {f"{ROOT}/nvidia/0x10de": "/sys/devices", f"{ROOT}/nvidia": "/x", "/etc/passwd": "root"}
    assert only(facts("pcie", files), Scope.PCIE).names == ()


def test_a_domain_of_five_digits_comes_last() -> None:
    assert only(facts("pcie", device("nvme", DISK) | device("nvidia", GPU)), Scope.PCIE).names == (GPU, DISK)
