"""Forms that the tools' outputs take on other machines: other drivers, several outputs in one text, cut-off lines."""

from __future__ import annotations

import contextlib
import json
import time
from importlib import import_module

import pytest

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import Item, ToolError
from stethoscope.parse.tools import (
    dcgmi,
    ethtool,
    ipmitool,
    mlxlink,
    nvidia_smi_csv,
    nvidia_smi_nvlink,
    nvidia_smi_q,
    nvidia_smi_table,
    nvidia_smi_topo,
    nvme,
    smartctl,
)
from stethoscope.text import clean_text
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


def test_a_sensor_list_gives_readings_states_and_what_is_wrong() -> None:
    report = ipmitool.read(
        "Inlet Temp       | 05h | ucr |  7.1 | 55 degrees C\n"
        "PSU2             | 0Ah | ok  | 10.2 | 140 Watts, Presence detected\n"
        "PSU3             | 0Bh | ok  | 10.3 | Presence detected, Failure detected\n"
        "Exhaust Temp     | 06h | ns  |  7.1 | No Reading\n"
        "FAN 7            | no reading        | ns\n"
        "FAN 8            | 41.5 percent      | ok\n"
    )
    assert report.items == (
        Item("sensor/Inlet Temp 05h", "reading", 55, "C", "critical"),
        Item("sensor/PSU2 0Ah", "reading", 140, "W"),
        Item("sensor/PSU2 0Ah", "event", "Presence detected"),
        Item("sensor/PSU3 0Bh", "event", "Presence detected, Failure detected", "", "critical"),
        Item("sensor/Exhaust Temp 06h", "reading", UNSUPPORTED),
        Item("sensor/FAN 7", "reading", UNSUPPORTED),
        Item("sensor/FAN 8", "reading", 41.5, "%"),
    )
    assert report.remarks == (
        "Inlet Temp 05h: 55 degrees C is critical",
        "PSU3 0Bh: Presence detected, Failure detected",
    )


def test_several_ports_in_one_text_keep_their_values_apart() -> None:
    report = mlxlink.read(
        "me@n1:~$ sudo mlxlink -d mlx5_4 -c\nState : Active\nEffective Physical Errors : 0\n"
        "===== mlx5_5 =====\nState : Polling\nEffective Physical Errors : 7\n"
        "State : Active\nRaw Physical Errors Per Lane : 1,2\n"
    )
    assert [(item.where, item.name, item.value) for item in report.items] == [
        ("mlx5_4", "state", "Active"),
        ("mlx5_4", "effective_errors", 0),
        ("mlx5_5", "state", "Polling"),
        ("mlx5_5", "effective_errors", 7),
        ("port/2", "state", "Active"),
        ("port/2/lane/0", "raw_errors", 1),
        ("port/2/lane/1", "raw_errors", 2),
    ]


def test_the_json_of_a_port_has_lanes_in_either_form_and_says_why_it_is_empty() -> None:
    report = mlxlink.read(
        '{"result": {"output": {"a": {"Raw Physical Errors Per Lane": ["3", "4"],'
        ' "Bias Current [mA]": {"values": ["7.5"]}}}}}\n$ '
    )
    assert report.get("lane/1", "raw_errors") == 4
    assert report.get("", "module_bias") == 7.5
    with pytest.raises(ToolError) as error:
        mlxlink.read('{"status": {"code": 1, "message": "No such device: mlx5_9"}, "result": {}}')
    assert error.value.reason == "no_device"


def test_interfaces_of_several_commands_keep_their_statistics_apart() -> None:
    report = ethtool.read(
        "# ethtool -S eth2\nNIC statistics:\n     rx_discards_phy: 5\n"
        "# ethtool -S eth3\nNIC statistics:\n     rx_discards_phy: 0\n"
    )
    assert (report.get("eth2", "rx_discards_phy"), report.get("eth3", "rx_discards_phy")) == (5, 0)


def test_results_of_several_gpus_in_one_line_are_of_each_of_them() -> None:
    report = dcgmi.read(
        "| GPU Memory                | Pass - GPUs: 1, 3                              |\n"
        "|                           | Fail - GPU: 2                                  |\n"
        "| Warning                   | GPU 2 The board became too warm while it work  |\n"
        "|                           | ed, after                                      |\n"
        "|                           | 9 seconds                                      |\n"
    )
    assert report.items == (
        Item("gpu/1", "test/gpu_memory", "pass"),
        Item("gpu/3", "test/gpu_memory", "pass"),
        Item("gpu/2", "test/gpu_memory", "fail", "", "critical"),
    )
    assert report.remarks == ("gpu_memory: GPU 2 The board became too warm while it worked, after 9 seconds",)


def test_rows_of_the_monitor_are_of_what_they_name() -> None:
    report = dcgmi.read("#Entity   GPUTL\nID        %\nGPU 0     40\nGPU-I 0   90\nSwitch 8  N/A\n")
    assert [(item.where, item.value) for item in report.items] == [
        ("gpu/0", 40), ("gpu_instance/0", 90), ("nvswitch/8", UNSUPPORTED),
    ]  # fmt: skip


def test_disks_that_follow_each_other_in_one_text_are_all_read() -> None:
    disk = '{{"smartctl": {{"exit_status": 0}}, "device": {{"name": "/dev/{}"}}, "smart_status": {{"passed": {}}}}}\n'
    report = smartctl.read(
        "$ for d in {a,b}; do smartctl -j; done\n" + disk.format("sda", "true") + disk.format("sdb", "false")
    )
    assert (report.get("sda", "smart_passed"), report.get("sdb", "smart_passed")) == (1, 0)
    with pytest.raises(ToolError) as error:
        smartctl.read(disk.format("sda", "true")[:60])
    assert error.value.reason == "truncated"


def test_wear_and_failed_self_tests_of_every_kind_of_disk_are_said() -> None:
    report = smartctl.read(
        json.dumps(
            {
                "smartctl": {},
                "smart_status": {"passed": True},
                "endurance_used": {"current_percent": 104},
                "spare_available": {"current_percent": 4, "threshold_percent": 10},
                "nvme_self_test_log": {
                    "table": [{"self_test_result": {"value": 7, "string": "Completed: failed segments"}}]
                },
                "scsi_self_test_0": {"result": {"value": 0, "string": "Completed without error"}},
            }
        )
    )
    levels = {item.name: (item.value, item.level) for item in report.items}
    assert levels["endurance_used"] == (104, "warning")
    assert levels["spare_available"] == (4, "critical")
    assert report.remarks == ("self-test: Completed: failed segments",)


def test_an_nvme_log_has_its_sensors_in_degrees_and_whole_numbers() -> None:
    report = nvme.read(
        '{"critical_warning": 0, "temperature": 311.0, "temperature_sensor_2": 320, "media_errors": 4.0}'
    )
    assert report.get("", "temperature_sensor_2") == 47
    assert repr(report.get("", "nvme_media_errors")) == "4"


SAMPLES = {
    "nvidia_smi_q": _gpu("    Temperature\n        GPU Current Temp : 41 C\n"),
    "nvidia_smi_csv": "index, temperature.gpu\n0, 41\n",
    "nvidia_smi_nvlink": "GPU 0: NVIDIA X (UUID: GPU-1)\n\t Link 0: 50 GB/s\n\t Link 1: <inactive>\n",
    "nvidia_smi_topo": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t8-15\n",
    "nvidia_smi_table": "|   0  NVIDIA X    On  |   00000000:2A:00.0 Off |   0 |\n",
    "nvidia_smi_lines": "# gpu    pwr  gtemp\n# Idx      W      C\n    0     95     41\n",
    "dcgmi": "|-----  Deployment  ------+-----|\n| Denylist                | Pass |\n",
    "lspci": "2a:00.0 3D controller: NVIDIA X\n\t\tLnkSta:\tSpeed 16GT/s, Width x8\n",
    "ibstat": "CA 'mlx5_1'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n",
    "perfquery": "# Port counters: Lid 4 port 1 (CapMask: 0x00)\nSymbolErrorCounter:..............3\n",
    "ibqueryerrors": 'Errors for "n1 HCA-1"\n   GUID 0x1 port 1: [SymbolErrorCounter == 3]\n',
    "switch_ports": "port 1/17 sl2vl default  vl-arb: weighted (high 4:64,1:32  low 0:16)\n",
    "show_gids": "mlx5_0 1 Ethernet ACTIVE eth4 4200\n",
    "reach": "told bond0\npeer n2 address 10.2.0.2 over bond0\npeer n2 ping answers\npeer n2 tcp/29500 refused\n",
    "ss": "LISTEN 0      128          0.0.0.0:22        0.0.0.0:*\n",
    "mlxlink": "State : Active\nEffective Physical Errors : 4\n",
    "ethtool": "Settings for eth4:\n\tSpeed: 25000Mb/s\n\tLink detected: yes\n",
    "smartctl": '{\n  "smartctl": {},\n  "smart_status": {"passed": true}\n}\n',
    "nvme": '{\n  "critical_warning": 0,\n  "percent_used": 4\n}\n',
    "ipmitool": "   1 | 03/04/2026 | 05:06:07 | Memory #0x02 | Correctable ECC | Asserted\n",
}
FORMS = {
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "a prompt around it": lambda text: "root@n1:~# some command --with=1 | cat\n" + text + "root@n1:~# ",
    "watch": lambda text: "Every 2.0s: some command      n1: Thu Mar  5 06:07:08 2026\n\n" + text,
    "a word of sudo": lambda text: "sudo: unable to resolve host n1: Name or service not known\n" + text,
    "colours": lambda text: "\n".join(f"\x1b[32m{line}\x1b[0m" for line in text.split("\n")),
    "spaces at the ends": lambda text: text.replace("\n", "   \n"),
    "no last line feed": lambda text: text.rstrip("\n"),
    "indented": lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", READERS)
def test_what_stands_around_an_output_changes_nothing(name: str, form: str) -> None:
    read = import_module(f"stethoscope.parse.tools.{name}").read
    assert read(clean_text(FORMS[form](SAMPLES[name]))).items == read(SAMPLES[name]).items


@pytest.mark.parametrize("name", sorted(set(READERS) - {"smartctl", "nvme", "mlxlink"}))
def test_an_output_that_is_there_twice_counts_nothing_twice(name: str) -> None:
    read = import_module(f"stethoscope.parse.tools.{name}").read
    once = {(item.where, item.name): item.value for item in read(SAMPLES[name]).items}
    twice = {(item.where, item.name): item.value for item in read(SAMPLES[name] * 2).items}
    assert twice == once


def test_half_a_line_at_the_end_of_a_full_buffer_is_left_out() -> None:
    text, last = "NIC statistics:\n", "     rx_errors: 77"
    while (left := 4096 - len(text) - len(last)) > 80:
        text += "     tx_packets: 123456\n"
    text += f"     {'x' * (left - 9)}: 1\n{last}"
    assert len(text) == 4096
    assert ethtool.read(text).get("", "rx_errors") is None
    assert ethtool.read(text + "\n").get("", "rx_errors") is not None


def test_sensors_of_one_name_are_all_kept() -> None:
    report = ipmitool.read("Temp | 30 degrees C | ok\nTemp | 40 degrees C | ok\n")
    assert (report.get("sensor/Temp", "reading"), report.get("sensor/Temp 2", "reading")) == (30, 40)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ethtool", "Settings for eth0:\n\tSupported ports: [ TP"),
        ("perfquery", "# Port counters: Lid 4 port 1 (CapMask: 0x00)\nSymbolErr"),
        ("smartctl", '{"device": {"name": "/dev/sda"}, "power_on_time": {"hou'),
    ],
)
def test_what_ends_before_its_first_value_is_cut_off(name: str, text: str) -> None:
    with pytest.raises(ToolError) as error:
        import_module(f"stethoscope.parse.tools.{name}").read(text)
    assert error.value.reason == "truncated"


def test_a_disk_without_json_is_read_whatever_groups_its_digits() -> None:
    for group in (",", ".", "\u202f", "’", "\ufffd"):
        report = smartctl.read(
            "n1:~# smartctl -a /dev/nvme3\nsmartctl 7.4 2023-08-01 r5530 [x86_64-linux] (local build)\n\n"
            "=== START OF INFORMATION SECTION ===\nModel Number:                       MAKER 4T\n"
            "=== START OF SMART DATA SECTION ===\nSMART overall-health self-assessment test result: FAILED!\n"
            "Critical Warning:                   0x04\nTemperature:                        41 Celsius\n"
            "Available Spare:                    98%\n"
            f"Data Units Read:                    12{group}345{group}678 [6,32 TB]\n"
            "Media and Data Integrity Errors:    17\nTemperature Sensor 2:               52 Celsius\n"
        )
        values = {item.name: (item.where, item.value, item.level) for item in report.items}
        assert values == {
            "model": ("nvme3", "MAKER 4T", ""),
            "smart_passed": ("nvme3", 0, "critical"),
            "nvme_critical_warning": ("nvme3", 4, "critical"),
            "temperature": ("nvme3", 41, ""),
            "nvme_available_spare": ("nvme3", 98, ""),
            "data_units_read": ("nvme3", 12345678, ""),
            "nvme_media_errors": ("nvme3", 17, ""),
            "temperature_sensor_1": ("nvme3", 52, ""),
        }


def test_attributes_of_a_disk_without_json() -> None:
    report = smartctl.read(
        "=== START OF READ SMART DATA SECTION ===\nSMART overall-health self-assessment test result: PASSED\n"
        "  5 Reallocated_Sector_Ct   0x0033   100   100   010    Pre-fail  Always       -       24\n"
        "  9 Power_On_Hours          0x0032   090   090   000    Old_age   Always       -       8123 (7 1 0)\n"
        "197 Current_Pending_Sector  -O--CK   001   001   010    NOW  3\n"
        "194 Temperature_Celsius     -O---K   064   055   000    -    36 (Min/Max 20/45)\n"
    )
    values = {item.name: (item.value, item.level) for item in report.items}
    assert values["smart_reallocated_sectors"] == (24, "")
    assert values["smart_power_on_hours"] == (8123, "")
    assert values["smart_pending_sectors"] == (3, "critical")
    assert values["temperature"] == (36, "")


def test_an_nvme_log_without_json_is_read() -> None:
    report = nvme.read(
        "Smart Log for NVME device:nvme2n1 namespace-id:ffffffff\ncritical_warning                    : 0x1\n"
        "temperature                         : 104°F (313 K)\navailable_spare                     : 9%\n"
        "available_spare_threshold           : 10%\nData Units Written                  : 1,234,567 (632.10 GB)\n"
        "Temperature Sensor 1           : 38 C\n"
    )
    values = {item.name: (item.where, item.value, item.level) for item in report.items}
    assert values["nvme_critical_warning"] == ("nvme2n1", 1, "critical")
    assert values["nvme_temperature"] == ("nvme2n1", 40, "")
    assert values["nvme_available_spare"] == ("nvme2n1", 9, "critical")
    assert values["nvme_data_units_written"] == ("nvme2n1", 1234567, "")
    assert values["temperature_sensor_1"] == ("nvme2n1", 38, "")
