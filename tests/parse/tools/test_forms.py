"""Forms that the tools' outputs take on other machines: other drivers, several outputs in one text, cut-off lines."""

from __future__ import annotations

import contextlib
import time
from importlib import import_module

import pytest

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, ToolError
from stethoscope.parse.tools import (
    nvidia_smi_csv,
    nvidia_smi_nvlink,
    nvidia_smi_q,
    nvidia_smi_table,
    nvidia_smi_topo,
)
from tests.parse.tools.test_tools import READERS

UNSUPPORTED, ERROR = Missing(Reason.UNSUPPORTED), Missing(Reason.ERROR)


def _gpu(body: str) -> str:
    return f"Driver Version : 600.1\nGPU 00000000:2A:00.0\n{body}"


def test_states_of_the_fabric_that_are_not_good_have_a_level() -> None:
    report = nvidia_smi_q.read(
        _gpu(
            "    Fabric\n        State : In Progress\n        Status : Success\n        Health\n"
            "            Summary : Unhealthy\n            Bandwidth : Degraded\n            Route Unhealthy : True\n"
            "            Route Recovery in progress : False\n"
        )
    )
    levels = {item.name: item.level for item in report.items if item.name.startswith("fabric")}
    assert levels == {
        "fabric_state": "critical",
        "fabric_status": "",
        "fabric_health_summary": "critical",
        "fabric_health_bandwidth": "warning",
        "fabric_health_route_unhealthy": "warning",
        "fabric_health_route_recovery_in_progress": "",
    }
    assert "0000:2a:00.0: fabric health summary Unhealthy" in report.remarks


def test_a_number_whose_unit_is_cut_off_is_no_number() -> None:
    report = nvidia_smi_q.read(_gpu("    Max Clocks\n        SM : 1755 MHz\n        Memory : 26"))
    assert report.get("0000:2a:00.0", "gpu_sm_clock_max") == 1755
    assert report.get("0000:2a:00.0", "gpu_mem_clock_max") == ERROR


def test_of_several_outputs_in_one_text_the_last_is_read() -> None:
    one = _gpu("    Temperature\n        GPU Current Temp : {} C\n")
    assert nvidia_smi_q.read(one.format(41) + one.format(77)).get("0000:2a:00.0", "gpu_temp") == 77
    xml = (
        "<?xml version='1.0'?>\n<nvidia_smi_log><gpu id='00000000:2A:00.0'><temperature><gpu_temp>{} C</gpu_temp>"
        "</temperature></gpu></nvidia_smi_log>\n"
    )
    text = "root@n1:~# nvidia-smi -q -x\n" + xml.format(41) + xml.format(77) + xml.format(5)[:60] + "\n$ "
    assert nvidia_smi_q.read(text).get("0000:2a:00.0", "gpu_temp") == 77
    csv = "index, temperature.gpu\n0, 41\n1, 42\n0, 77\nindex, temperature.gpu\n1, 78\n"
    assert [
        (item.where, item.value, item.unit) for item in nvidia_smi_csv.read(csv).items if item.name == "gpu_temp"
    ] == [
        ("gpu/0", 77, "C"),
        ("gpu/1", 78, "C"),
    ]


def test_identifiers_stay_as_they_are_printed() -> None:
    report = nvidia_smi_csv.read(
        "index, pci.device_id, platform.chassis_serial_number, pci.bus\n0, 0x0A1B10DE, 0007, 0x0C\n"
    )
    assert report.get("gpu/0", "pci.device_id") == "0x0A1B10DE"
    assert report.get("gpu/0", "platform.chassis_serial_number") == "0007"


def test_an_xml_with_odd_elements_is_read_or_refused() -> None:
    deep = "<a>" * 3000 + "</a>" * 3000
    report = nvidia_smi_q.read(
        f"<nvidia_smi_log><gpu id='00000000:2A:00.0'><mig_devices><mig_device/></mig_devices>{deep}"
        "<minor_number>3</minor_number></gpu></nvidia_smi_log>"
    )
    assert report.get("0000:2a:00.0", "minor_number") == "3"


def test_mig_devices_of_the_query_have_their_instances_and_errors() -> None:
    report = nvidia_smi_q.read(
        _gpu(
            "    MIG Device\n        Index : 1\n        GPU Instance ID : 5\n        Compute Instance ID : 0\n"
            "        ECC Errors\n            Volatile\n                SRAM Uncorrectable : 2\n"
            "        Shared FB Memory Usage\n            Total : 9728 MiB\n            Used : 12 MiB\n"
        )
    )
    assert [item for item in report.items if "/mig/" in item.where] == [
        Item("0000:2a:00.0/mig/1", "gpu_instance", 5),
        Item("0000:2a:00.0/mig/1", "compute_instance", 0),
        Item("0000:2a:00.0/mig/1", "gpu_ecc_uncorr_volatile_sram", 2, "errors"),
        Item("0000:2a:00.0/mig/1", "gpu_fb_total", 9728, "MiB"),
        Item("0000:2a:00.0/mig/1", "gpu_fb_used", 12, "MiB"),
    ]


def test_the_table_of_windows_and_of_mig() -> None:
    report = nvidia_smi_table.read(
        "| NVIDIA-SMI 611.20      KMD Version: 611.20     CUDA UMD Version: 13.4  |\n"
        "|   0  NVIDIA RTX A2000            TCC  |   00000000:0D:00.0 Off |                    3 |\n"
        "| ERR!   51C    P8            N/A /  70W |       3MiB /   6138MiB |      0%      Default |\n"
        "|  0    4   0   1  |             12MiB /  9728MiB    | 14      2 |  1   0    0    0    0 |\n"
        "|    0    4    0          7001      C   python train.py --x            10MiB |\n"
        "|    0    4    0          7002      C                                  N/A |\n"
    )
    values = {(item.where, item.name): item.value for item in report.items}
    assert values["", "driver_version"] == "611.20"
    assert values["", "cuda_version"] == "13.4"
    assert values["gpu/0", "name"] == "NVIDIA RTX A2000"
    assert values["gpu/0", "driver_model"] == "TCC"
    assert values["gpu/0", "gpu_ecc_uncorr_volatile"] == 3
    assert values["gpu/0", "fan_speed"] == ERROR
    assert values["gpu/0", "gpu_power_draw"] == UNSUPPORTED
    assert values["gpu/0", "gpu_power_limit"] == 70
    assert values["gpu/0/mig/1", "gpu_fb_used"] == 12
    assert values["gpu/0/mig/1", "gpu_ecc_uncorr_volatile_sram"] == 2
    assert values["gpu/0/process/7001", "gpu_instance"] == 4
    assert values["gpu/0/process/7001", "process_name"] == "python train.py --x"
    assert values["gpu/0/process/7002", "process_memory"] == UNSUPPORTED


def test_a_gpu_alone_has_a_topology_and_empty_cells_move_nothing() -> None:
    alone = nvidia_smi_topo.read(
        "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t\t1\t\t2\n"
    )
    assert alone.items == (
        Item("", "devices", 1),
        Item("gpu/0", "numa_affinity", "1"),
        Item("gpu/0", "gpu_numa_id", "2"),
    )


def test_a_board_without_nvlink_has_no_count_of_links() -> None:
    report = nvidia_smi_nvlink.read("GPU 0: NVIDIA L4 (UUID: GPU-1)\n\t Device does not have or support Nvlink\n")
    assert report.get("gpu/0", "nvlink_active_count") == UNSUPPORTED
    assert report.unknown == report.remarks == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bash: smartctl: Kommando nicht gefunden.", "not_installed"),
        ("ipmitool: Keine Berechtigung", "permission"),
        ("ERROR: Option -m is missing its value. Please run 'nvidia-smi -h' for help.", "refused"),
    ],
)
def test_errors_in_other_words_are_told_apart(text: str, reason: str) -> None:
    with pytest.raises(ToolError) as error:
        nvidia_smi_topo.read(text)
    assert error.value.reason == reason


HOSTILE = {
    "sudo": "sudo: " * 170_000,
    "mad_rpc": "mad_rpc " * 130_000,
    "spaces": "a" + " " * 1_000_000 + "b",
    "bar and spaces": "|   0" + " " * 1_000_000,
    "many GPUs": "".join(f"GPU 0000:{number // 256:02x}:{number % 256:02x}.0\n    A : b\n" for number in range(40_000)),
    "one GPU often": "GPU 00000000:01:00.0\n    A : b\n" * 30_000,
    "many rows": "index, name\n" + "1, 2\n" * 200_000,
    "many different rows": "index, name\n" + "".join(f"{number}, 2\n" for number in range(130_000)),
    "a monitor": "# gpu pwr\n" + "0 1\n" * 250_000,
    "lanes": ("Rx Power Current [dBm] : " + ",".join(["1"] * 190) + "\n") * 2500,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_text_keeps_a_reader_busy(name: str, kind: str) -> None:
    read = import_module(f"stethoscope.parse.tools.{name}").read
    start = time.process_time()
    with contextlib.suppress(ToolError):
        read(HOSTILE[kind][: 256 * 1024])
    assert time.process_time() - start < 0.75
