"""nvidia-smi in all its forms: renamed fields, margins, sums of parts, and every way to say that there is no value."""

from __future__ import annotations

import pytest

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Report, ToolError
from stethoscope.parse.tools import (
    nvidia_smi_csv,
    nvidia_smi_lines,
    nvidia_smi_nvlink,
    nvidia_smi_q,
    nvidia_smi_table,
    nvidia_smi_topo,
)

UNSUPPORTED, LOST, ERROR = Missing(Reason.UNSUPPORTED), Missing(Reason.LOST), Missing(Reason.ERROR)
GPU = "0000:1b:00.0"

TEXT_NEW = """
==============NVSMI LOG==============

Driver Version                            : 610.10.01 [Deprecated; will be removed. Use KMD Version instead]
KMD Version                               : 610.10.01
CUDA UMD Version                          : 13.3

Attached GPUs                             : 1
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H200
    Display Mode                          : Requested functionality has been deprecated
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 8x
        Replays Since Reset               : 150
        Tx Throughput                     : 3092 KB/s
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 2354613 us
        HW Thermal Slowdown               : 77 us
    ECC Errors
        Volatile
            SRAM Correctable              : 1
            SRAM Uncorrectable Parity     : 2
            SRAM Uncorrectable SEC-DED    : 3
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Threshold Exceeded       : Yes
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 4
        Pending                           : Yes
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 2559 bank(s)
            None                          : 1 bank(s)
    Temperature
        GPU Current Temp                  : 59 C
        GPU T.Limit Temp                  : 26 C
        GPU Slowdown T.Limit Temp         : -2 C
        Memory Current Temp               : ERR!
    GPU Power Readings
        Average Power Draw                : N/A
        Instantaneous Power Draw          : 97.75 W
        GPU Ceiling Power Limit
            Current Power Limit           : 650.00 W
            Default Power Limit           : 700.00 W
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 11327
            Type                          : C
            Name                          : /usr/bin/python3 train.py
            Used GPU Memory               : 70566 MiB
    Something Nobody Knows                : 7
"""


def test_text_of_a_new_driver() -> None:
    report = nvidia_smi_q.read(TEXT_NEW)
    expected = {
        "name": "NVIDIA H200", "gpu_mig_mode": 0, "gpu_pcie_link_gen": 1, "gpu_pcie_link_gen_max": 5,
        "gpu_pcie_link_width": 8, "gpu_pcie_link_width_max": 16, "gpu_pcie_replay": 150, "gpu_pcie_tx": 3092,
        "gpu_pstate": "P0", "gpu_clocks_event_reasons": 0x4 | 0x8 | 0x40,
        "gpu_throttle_time_sw_power_cap": 2_354_613, "gpu_throttle_time_hw_thermal": 77,
        "gpu_ecc_corr_volatile_sram": 1, "gpu_ecc_uncorr_volatile_sram": 5, "gpu_ecc_corr_volatile_dram": 177,
        "gpu_ecc_uncorr_volatile_dram": 0, "gpu_sram_threshold_exceeded": 1, "gpu_remapped_rows_uncorr": 4,
        "gpu_row_remap_pending": 1, "gpu_row_remap_failure": 0, "gpu_row_remap_banks_none": 1, "gpu_temp": 59,
        "gpu_temp_margin": 26, "gpu_margin_slowdown": -2, "gpu_mem_temp": ERROR, "gpu_power_draw": 97.75,
        "gpu_power_limit": 650.0, "gpu_power_limit_default": 700.0,
    }  # fmt: skip
    assert {name: report.get(GPU, name) for name in expected} == expected
    assert report.get("", "driver_version") == "610.10.01"
    assert report.get("", "cuda_version") == "13.3"
    assert report.get(f"{GPU}/process/11327", "process_memory") == 70_566
    assert report.get(f"{GPU}/process/11327", "process_name") == "/usr/bin/python3 train.py"
    assert report.get(GPU, "gpu_temp_slowdown") is None, "a margin is not a temperature"
    assert report.unknown == ("something_nobody_knows",)
    assert f"{GPU}: row remap pending" in report.remarks
    assert f"{GPU}: sram threshold exceeded" in report.remarks


def _xml(body: str, head: str = "<driver_version>535.86.05</driver_version>") -> str:
    start = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>'
    return f'{start}{head}<gpu id="00000000:1B:00.0">{body}</gpu></nvidia_smi_log>'


def test_xml_of_an_old_driver_and_a_whole_section_that_the_board_lacks() -> None:
    report = nvidia_smi_q.read(
        _xml(
            "<ecc_errors><volatile><single_bit><device_memory>3</device_memory><l2_cache>1</l2_cache>"
            "<cbu>N/A</cbu></single_bit><double_bit><device_memory>N/A</device_memory></double_bit></volatile>"
            "</ecc_errors><remapped_rows>N/A</remapped_rows><power_readings><power_draw>66.92 W</power_draw>"
            "<power_limit>400.00 W</power_limit><enforced_power_limit>350.00 W</enforced_power_limit></power_readings>"
            "<clocks_throttle_reasons><clocks_throttle_reason_gpu_idle>Active</clocks_throttle_reason_gpu_idle>"
            "</clocks_throttle_reasons><temperature><gpu_temp>33 C</gpu_temp>"
            "<gpu_temp_max_threshold>92 C</gpu_temp_max_threshold></temperature>"
        )
    )
    expected = {
        "gpu_ecc_corr_volatile_dram": 3, "gpu_ecc_corr_volatile_sram": 1, "gpu_ecc_uncorr_volatile_dram": UNSUPPORTED,
        "gpu_remapped_rows_uncorr": UNSUPPORTED, "gpu_row_remap_pending": UNSUPPORTED, "gpu_power_draw": 66.92,
        "gpu_power_limit": 350.0, "gpu_power_limit_requested": 400.0, "gpu_clocks_event_reasons": 1,
        "gpu_temp_shutdown": 92,
    }  # fmt: skip
    assert {name: report.get(GPU, name) for name in expected} == expected
    assert report.unknown == ()


def test_xml_of_a_lost_gpu_has_no_zero() -> None:
    report = nvidia_smi_q.read(
        _xml(
            "<utilization><gpu_util>GPU is lost</gpu_util></utilization><remapped_rows>GPU is lost</remapped_rows>"
            "<ecc_errors><volatile><sram_correctable>0</sram_correctable>"
            "<sram_uncorrectable_parity>0</sram_uncorrectable_parity>"
            "<sram_uncorrectable_secded>GPU is lost</sram_uncorrectable_secded></volatile></ecc_errors>"
        )
    )
    assert report.get(GPU, "gpu_util") == LOST
    assert report.get(GPU, "gpu_row_remap_failure") == LOST
    assert report.get(GPU, "gpu_ecc_uncorr_volatile_sram") == LOST, "a part that is not known makes the sum unknown"
    assert report.remarks == (f"{GPU}: GPU is lost",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("No devices were found\n", "no_device"),
        ("bash: line 1: nvidia-smi: command not found\n", "not_installed"),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.1\n", "driver"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "driver"),
        ("Failed to initialize NVML: Insufficient Permissions\n", "permission"),
        ("", "empty"),
        ("lorem ipsum\n", "not_this_tool"),
        ("<?xml version='1.0' ?>\n<nvidia_smi_log><gpu id='1'><uuid>GPU", "truncated"),
        ('<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "b">]><nvidia_smi_log></nvidia_smi_log>', "not_this_tool"),
        ("Attached GPUs                             : 0\n", "no_device"),
    ],
)
def test_outputs_without_values_have_a_named_reason(text: str, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        nvidia_smi_q.read(text)
    assert caught.value.reason == reason


def test_query_csv_cells_that_are_no_numbers_have_their_reason() -> None:
    report = nvidia_smi_csv.read(
        "index, pci.bus_id, temperature.gpu, power.draw [W], clocks_event_reasons.active, fan.speed [%], pstate\n"
        "0, 00000000:19:00.0, 38, 118.20 W, 0x0000000000000044, [N/A], P0\n"
        "1, 00000000:1B:00.0, [Unknown Error], [GPU requires reset], [Unknown Error], [N/A], [Unknown Error]\n"
        "2, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n"
        "Unable to determine the device handle\n"
    )
    got = {
        place: [report.get(place, name) for name in ("gpu_temp", "gpu_power_draw", "gpu_clocks_event_reasons")]
        for place in ("0000:19:00.0", GPU, "gpu/2")
    }
    assert got == {"0000:19:00.0": [38, 118.2, 0x44], GPU: [ERROR, ERROR, ERROR], "gpu/2": [LOST, LOST, LOST]}
    assert report.get("0000:19:00.0", "fan.speed") == UNSUPPORTED
    assert report.get("0000:19:00.0", "gpu_pstate") == "P0"
    assert report.remarks == ("Unable to determine the device handle",)


def test_query_csv_without_units_and_with_old_names() -> None:
    report = nvidia_smi_csv.read(
        "uuid, clocks_throttle_reasons.active, clocks.current.sm [MHz], memory.used [MiB]\n"
        "GPU-1234, 0x0000000000000001, 405, 103\n"
    )
    assert [(i.name, i.value, i.unit) for i in report.items] == [
        ("uuid", "GPU-1234", ""),
        ("gpu_clocks_event_reasons", 1, "bits"),
        ("gpu_sm_clock", 405, "MHz"),
        ("gpu_fb_used", 103, "MiB"),
    ]


def test_compute_apps_with_no_process_is_an_answer() -> None:
    assert nvidia_smi_csv.read("timestamp, gpu_bus_id, pid, process_name, used_gpu_memory [MiB]\n\n").items == ()


def test_nvlink_links_that_are_down_or_not_there() -> None:
    head = "GPU 3: NVIDIA B200 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    report = nvidia_smi_nvlink.read(head + "\t Link 0: 53.125 GB/s\n\t Link 1: <inactive>\n")
    assert _values(report, "nvlink_speed") == {"gpu/3/nvlink/0": 53.125}
    assert _values(report, "nvlink_state") == {"gpu/3/nvlink/1": 0}
    assert report.get("gpu/3", "nvlink_active_count") == 1
    errors = nvidia_smi_nvlink.read(head + "\t Link 7: Replay Errors: 12841\n\t Link 7: CRC Errors: 0\n")
    assert [(i.name, i.value, i.level) for i in errors.items if "/" in i.where[5:]] == [
        ("nvlink_replay_errors", 12_841, "warning"),
        ("nvlink_crc_errors", 0, ""),
    ]
    none = nvidia_smi_nvlink.read(head + "NVML: Unable to retrieve NVLink information as all links are inActive\n")
    assert none.get("gpu/3", "nvlink_active_count") == 0
    mig = nvidia_smi_nvlink.read(head + "Nvlink queries are not supported for Devices in MIG mode\n")
    assert mig.get("gpu/3", "nvlink_active_count") == UNSUPPORTED


def test_topology_names_adapters_and_counts_bonded_links() -> None:
    report = nvidia_smi_topo.read(
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV18\tPIX\t0-51,104-155\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t52-103\t1\t\tN/A\n"
        "NIC0\tPIX\tSYS\t X \t\t\t\n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_4\n"
    )
    assert report.get("gpu/0", "path/gpu/1") == "NV18"
    assert report.get("gpu/0", "path/mlx5_4") == "PIX"
    assert report.get("mlx5_4", "path/gpu/1") == "SYS"
    assert report.get("gpu/1", "nvlink_bonded") == 18
    assert report.get("gpu/0", "cpu_affinity") == "0-51,104-155"
    assert report.unknown == ()


def test_the_table_with_a_broken_gpu() -> None:
    report = nvidia_smi_table.read(
        "| NVIDIA-SMI 550.127.08     Driver Version: 550.127.08     CUDA Version: 12.4     |\n"
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    2 |\n"
        "| N/A   38C    P0            118W /  700W |   71204MiB /  81559MiB |     97%      Default |\n"
        "|   1  ERR!                           On  |   00000000:3B:00.0 Off |                 ERR! |\n"
        "|ERR!  ERR!  ERR!             N/A /  ERR! |   71204MiB /  81559MiB |    ERR!      Default |\n"
        "|    0   N/A  N/A     41873      C   /usr/bin/python3                            71186MiB |\n"
    )
    names = ("gpu_ecc_uncorr_volatile", "gpu_temp", "gpu_power_draw", "gpu_fb_used", "gpu_util")
    assert [report.get("gpu/0", name) for name in names] == [2, 38, 118, 71_204, 97]
    assert [report.get("gpu/1", name) for name in names] == [ERROR, ERROR, UNSUPPORTED, 71_204, ERROR]
    assert report.get("gpu/0/process/41873", "process_memory") == 71_186
    assert report.remarks == ("gpu/1: ERR!",)


def test_short_outputs() -> None:
    listed = nvidia_smi_lines.read("GPU 2: NVIDIA H100 (UUID: GPU-1)\n  MIG 1g.10gb     Device  3: (UUID: MIG-2)\n")
    assert listed.get("gpu/2/mig/3", "profile") == "1g.10gb"
    version = nvidia_smi_lines.read(
        'NVIDIA-SMI version  : 610.1\nDRIVER version      : Deprecated, see "KMD version" instead\n'
        "KMD version : 610.1\n"
    )
    assert version.get("", "driver_version") == "610.1"
    monitor = nvidia_smi_lines.read(
        "# gpu    pwr  gtemp     sm   mclk \n# Idx      W      C      %    MHz \n"
        "    0    631     63    100   2619 \n    0    634     63      -   2619 \n"
    )
    assert [(i.name, i.value, i.unit) for i in monitor.items] == [
        ("gpu_power_draw", 634, "W"), ("gpu_temp", 63, "C"), ("gpu_util", UNSUPPORTED, "%"),
        ("gpu_mem_clock", 2619, "MHz"),
    ]  # fmt: skip


def _values(report: Report, name: str) -> dict[str, object]:
    return {item.where: item.value for item in report.items if item.name == name}
