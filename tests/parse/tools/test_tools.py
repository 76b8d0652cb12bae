"""The tools of fabric, bus, drives and controllers: exact values of small outputs, and named errors for junk."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.model.metric import Missing, Reason
from stethoscope.model.report import REASONS, ToolError
from stethoscope.parse.tools import (
    dcgmi,
    ethtool,
    ibqueryerrors,
    ibstat,
    ipmitool,
    lspci,
    mlxlink,
    nvme,
    perfquery,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.report import Report

READERS = (
    "nvidia_smi_q", "nvidia_smi_csv", "nvidia_smi_nvlink", "nvidia_smi_topo", "nvidia_smi_table", "nvidia_smi_lines",
    "dcgmi", "lspci", "ibstat", "perfquery", "ibqueryerrors", "mlxlink", "ethtool", "smartctl", "nvme", "ipmitool",
    "show_gids", "ss", "switch_ports", "reach",
)  # fmt: skip
FRAGMENTS = (
    "GPU 00000000:1B:00.0\n", "    ECC Errors\n", "        Pending : Yes\n", "CA 'mlx5_0'\n", "\tPort 1:\n",
    "\t\tState: Down\n", "# Port counters: Lid 2 port 3\n", "SymbolErrorCounter:...7\n", 'Errors for "x"\n',
    "   GUID 0x1 port 3: [A == 1]\n", "|   0  NVIDIA  On  | 00000000:19:00.0 Off | 0 |\n", "# gpu pwr\n", "    0 1\n",
    "19:00.0 3D controller: X\n", "\t\tLnkSta:\tSpeed 8GT/s, Width x8\n", "NIC statistics:\n", "     a: 1\n",
    '{"critical_warning": ', "0}", "[", "]", "index, name\n", "0, x\n", "-> Link 0 |",
    " 1 | 01/02/2025 | 03:04:05 | a | b | c\n",
    "port 1/17 sl2vl default vl-arb: weighted (high 4:64)\n", "port 3 xmit_wait 12/s\n",
    "mlx5_0 1 Ethernet ACTIVE e 1\n",
    "mlx5_0 1 3 0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1 v2 e\n", "tcp dport 1-2 drop\n",
    "told e\n", "peer a tcp/1 refused\n",
    "LISTEN 0 1 *:22 *:*\n", "Rx Power Current [dBm] : 1,-2 [-10..6]\n", "<gpu id='1'>", "</gpu>",
    "\x00\x1b[31m", "é", "9" * 40, "-", ":", "\n",
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@given(text=st.one_of(st.text(max_size=200), st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)))
def test_whatever_it_is_given_a_reader_raises_nothing_but_a_named_error(name: str, text: str) -> None:
    read = import_module(f"stethoscope.parse.tools.{name}").read
    levels, reason = _outcome(read, text)
    assert set(levels) <= {"", "warning", "critical"}
    assert reason in ("", *REASONS)


def _outcome(read: Callable[..., Report], text: str) -> tuple[list[str], str]:
    try:
        return [item.level for item in read(text, exit=1, err=text).items], ""
    except ToolError as error:
        return [], error.reason


def test_ibstat_and_its_relatives_agree() -> None:
    classic = ibstat.read(
        "CA 'mlx5_0'\n\tFirmware version: 28.39.1002\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n"
        "\t\tRate: 400\n\t\tBase lid: 65535\n\t\tLink layer: InfiniBand\n"
    )
    status = ibstat.read(
        "Infiniband device 'mlx5_0' port 1 status:\n\tbase lid:\t 0xffff\n\tstate:\t\t 1: DOWN\n"
        "\tphys state:\t 2: Polling\n\trate:\t\t 400 Gb/sec (4X NDR)\n\tlink_layer:\t InfiniBand\n"
    )
    info = ibstat.read(
        "hca_id:\tmlx5_0\n\tfw_ver:\t\t28.39.1002\n\t\tport:\t1\n\t\t\tstate:\t\tPORT_DOWN (1)\n"
        "\t\t\tport_lid:\t65535\n\t\t\tactive_mtu:\t4096 (5)\n"
    )
    for report in (classic, status, info):
        assert report.get("mlx5_0:1", "ib_port_state") == 1
        assert report.get("mlx5_0:1", "base_lid") == Missing(Reason.ABSENT)
        assert report.remarks == ("mlx5_0:1 is not active",)
    assert classic.get("mlx5_0:1", "ib_port_phys_state") == status.get("mlx5_0:1", "ib_port_phys_state") == 2
    assert classic.get("mlx5_0:1", "ib_port_rate") == status.get("mlx5_0:1", "ib_port_rate") == 400
    assert classic.get("mlx5_0", "ib_fw_version") == info.get("mlx5_0", "ib_fw_version") == "28.39.1002"
    assert info.get("mlx5_0:1", "active_mtu") == 4096


def test_ibstat_that_breaks_off_keeps_what_it_said() -> None:
    report = ibstat.read(
        "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n", exit=255, err="ibpanic: stat of mlx5_8 failed\n"
    )
    assert report.get("mlx5_0:1", "ib_port_state") == 4
    assert report.remarks == ("ibpanic: stat of mlx5_8 failed",)


def test_perfquery_says_which_counters_stand_still() -> None:
    report = perfquery.read(
        "# Port counters: Lid 2 port 3 (CapMask: 0x1300)\nPortSelect:......................3\n"
        "SymbolErrorCounter:..............65535\nLinkDownedCounter:...............255\n"
        "PortXmitData:....................2160\nPortXmitWait:....................77\nSomethingNew:....9\n"
    )
    where = "lid 2/port 3"
    assert report.get(where, "ib_symbol_error") == 65_535
    assert report.get(where, "ib_port_xmit_wait") == 77
    assert report.get(where, "SomethingNew") == 9
    assert [item.name for item in report.items if item.level] == ["ib_symbol_error", "ib_link_downed"]
    assert len(report.remarks) == 2
    wide = perfquery.read(
        "# Port extended counters: Lid 2 port 3 (CapMask: 0x5300)\nLinkDownedCounter:...............255\n"
    )
    assert wide.remarks == (), "64 bits do not stand still at 255"


def test_ibqueryerrors_leaves_the_sums_of_switches_out() -> None:
    report = ibqueryerrors.read(
        'Errors for 0x200000 "leaf1"\n'
        "   GUID 0x200000 port ALL: [SymbolErrorCounter == 9]\n"
        "   GUID 0x200000 port 3: [SymbolErrorCounter == 9] [PortXmitData == 6840 (26.719KB)] [PortXmitWait == 5]\n\n"
        "## Summary: 20 nodes checked, 4 bad nodes found\n##          176 ports checked, 6 ports have errors beyond"
        " threshold\n## Thresholds: \n## Suppressed:\n"
    )
    assert [(i.where, i.name, i.value, i.level) for i in report.items] == [
        ("leaf1:3", "ib_symbol_error", 9, "warning"),
        ("leaf1:3", "ib_port_xmit_data", 6840, ""),
        ("leaf1:3", "ib_port_xmit_wait", 5, ""),
        ("", "nodes_checked", 20, ""),
        ("", "bad_nodes", 4, ""),
        ("", "ports_checked", 176, ""),
        ("", "bad_ports", 6, ""),
    ]
    assert report.remarks == ("leaf1:3: SymbolErrorCounter 9",)


MLXLINK = """
Operational Info
----------------
State                              : Active
Speed                              : IB-NDR
Recommendation                     : Bad signal integrity
Temperature [C]                    : 76 [-5..75]
Rx Power Current [dBm]             : 1.886,1.989,-9.812,1.976 [-10.41..6]
Rx LOS [per lane]                  : 0,0,1,0
Symbol BER                         : 3E-13
Effective Physical BER             : 15E-255
Raw Physical Errors Per Lane       : 88121,91220,4119927733120,90017
Link Down Counter                  : 7
"""


def test_mlxlink_text() -> None:
    report = mlxlink.read(MLXLINK)
    assert [report.get(f"lane/{lane}", "ib_module_rx_power") for lane in range(4)] == [1.886, 1.989, -9.812, 1.976]
    assert report.get("lane/2", "raw_errors") == 4_119_927_733_120
    assert report.get("", "ib_effective_ber") == 0.0
    assert report.get("", "symbol_ber") == 3e-13
    assert report.get("", "ib_link_down_counter") == 7
    assert {(item.where, item.name): item.level for item in report.items if item.level} == {
        ("", "ib_module_temp"): "warning",
        ("lane/2", "rx_los"): "critical",
    }
    assert "Bad signal integrity" in report.remarks
    assert "lane/2 receives -9.812 dBm, the other lanes 1.976 dBm" in report.remarks


def test_mlxlink_json_says_the_same_as_its_text() -> None:
    output = {
        "Operational Info": {"State": "Active", "Speed": "IB-NDR"},
        "Physical Counters and BER Info": {
            "Effective Physical BER": "15E-255",
            "Raw Physical Errors Per Lane": {"values": ["88121", "91220", "4119927733120", "90017"]},
        },
    }
    report = mlxlink.read(json.dumps({"result": {"output": output}, "status": {"code": 0}}))
    text = mlxlink.read(MLXLINK)
    assert set(report.items) <= set(text.items)
    assert len(report.items) == 7


def test_nvme_in_numbers_texts_and_objects_and_kelvin() -> None:
    for warning in (4, "4", {"value": 4, "reliability_degraded": 1}):
        log = {"critical_warning": warning, "temperature": "310", "avail_spare": 3, "spare_thresh": 5,
               "percent_used": "104", "media_errors": 7, "new_field": 1}  # fmt: skip
        report = nvme.read("# /dev/nvme1\n" + json.dumps(log))
        assert report.get("nvme1", "nvme_critical_warning") == 4
        assert report.get("nvme1", "nvme_temperature") == 37
        assert report.get("nvme1", "nvme_media_errors") == 7
        assert {item.name: item.level for item in report.items if item.level} == {
            "nvme_critical_warning": "critical", "nvme_available_spare": "critical", "nvme_percentage_used": "warning",
            "nvme_media_errors": "warning",
        }  # fmt: skip
        assert report.remarks[0] == "nvme1 reliability degraded"
        assert report.unknown == ("new_field",)


def test_ethtool_link_statistics_and_light() -> None:
    link = ethtool.read("Settings for eth0:\n\tSpeed: Unknown!\n\tDuplex: Full\n\tLink detected: no (No cable)\n")
    assert link.get("eth0", "net_speed") == Missing(Reason.ABSENT)
    assert link.get("eth0", "link_detected") == 0
    statistics = ethtool.read("NIC statistics:\n     rx_packets: 5\n     rx_discards_phy: 3\n")
    assert [(i.name, i.value, i.level) for i in statistics.items] == [
        ("rx_packets", 5, ""), ("rx_discards_phy", 3, "warning"),
    ]  # fmt: skip
    module = ethtool.read(
        "\tIdentifier                                : 0x11 (QSFP28)\n"
        "\tModule temperature                        : 38.00 degrees C / 100.40 degrees F\n"
        "\tRcvr signal avg optical power(Channel 2)  : 0.0044 mW / -23.57 dBm\n"
        "\tReceiver signal average optical power     : 0.0000 mW / -inf dBm\n"
        "\tModule temperature high alarm             : On\n"
    )
    assert module.get("", "ib_module_temp") == 38.0
    assert module.get("lane/1", "ib_module_rx_power") == -23.57
    assert module.get("", "ib_module_rx_power") == Missing(Reason.ABSENT)
    assert [item.level for item in module.items if item.level] == ["critical"]


def test_lspci_link_below_its_maximum_errors_and_a_dead_device() -> None:
    report = lspci.read(
        "19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1\n"
        "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n"
        "\t\tCESta:\tRxErr+ BadTLP+ BadDLLP- Rollover- Timeout- AdvNonFatalErr-\n"
        "\t\tUESta:\tDLP- SDES- TLP-\n\t\tACSCtl:\tSrcValid+ TransBlk-\n\tKernel driver in use: nvidia\n\n"
        "0001:3b:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev ff)\n"
        "\t!!! Unknown header type 7f\n\tCapabilities: <access denied>\n"
    )
    names = ("pcie_link_speed", "pcie_max_link_speed", "pcie_link_width", "pcie_max_link_width", "pcie_correctable",
             "pcie_uncorrectable", "pcie_acs_enabled", "driver")  # fmt: skip
    assert [report.get("0000:19:00.0", name) for name in names] == [
        2.5, 32, 8, 16, "RxErr, BadTLP", "none", 1, "nvidia",
    ]  # fmt: skip
    assert report.get("0001:3b:00.0", "gone") == 1
    assert report.get("0001:3b:00.0", "ids") == "10de:2330"
    assert "capabilities of 1 devices cannot be read: that needs root" in report.remarks


def test_dcgmi_diag_as_table_and_as_json_of_each_generation() -> None:
    table = dcgmi.read(
        "| DCGM Version              | 4.2.3                                          |\n"
        "|-----  Deployment  --------+------------------------------------------------|\n"
        "| software                  | Pass                                           |\n"
        "|                           | GPU0: Pass                                     |\n"
        "+-----  Integration  -------+------------------------------------------------+\n"
        "| pcie                      | Fail                                           |\n"
        "|                           | GPU5: Fail                                     |\n"
        "| Warning: GPU5             | PCIe replays exceeded: Detected 44 PCIe replay |\n"
        "|                           | s per minute                                   |\n"
        "| Inforom                   | Skip - All                                     |\n"
    )
    assert table.get("", "test/pcie") == table.get("gpu/5", "test/pcie") == "fail"
    assert table.get("gpu/0", "test/software") == "pass"
    assert table.get("", "test/inforom") == "skip"
    assert table.remarks == ("gpu/5 pcie: PCIe replays exceeded: Detected 44 PCIe replays per minute",)
    new = {"DCGM Diagnostic": {"test_categories": [{"category": "x", "tests": [
        {"name": "pcie", "test_summary": {"status": "Fail"}, "results": [
            {"entity_group": "GPU", "entity_id": 5, "status": "Fail", "warnings": [{"warning": "replays"}]}]}]}]},
        "metadata": {"version": "4.2.3"}}  # fmt: skip
    old = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "x", "tests": [
        {"name": "PCIe", "results": [{"gpu_ids": "5", "status": "Fail", "warnings": "replays"}]}]}]}}  # fmt: skip
    for document in (new, old):
        report = dcgmi.read(json.dumps(document))
        assert report.get("gpu/5", "test/pcie") == "fail"
        assert report.remarks == ("gpu/5 pcie: replays",)


def test_dcgmi_link_status_counts_no_link_that_is_not_there() -> None:
    report = dcgmi.read("|  NvLink Link Status  |\nGPUs:\n    gpuId 1:\n        U U D X _ _\n")
    assert report.get("gpu/1", "nvlink_active_count") == 2
    assert report.get("gpu/1/nvlink/2", "nvlink_state") == 0
    assert report.get("gpu/1/nvlink/4", "nvlink_state") is None
    assert report.remarks == ("gpu/1/nvlink/2 is down", "gpu/1/nvlink/3 is disabled")


def test_event_log_and_sensors_of_the_controller() -> None:
    report = ipmitool.read(
        "   1 | 03/02/2025 | 02:58:11 | Power Supply PSU3 | Power Supply AC lost | Asserted\n"
        "   2 | 03/02/2025 | 02:58:14 | Power Supply PSU3 | Power Supply AC lost | Deasserted\n"
        "   5 | 03/02/2025 | 03:12:09 | Memory #0x87 | Correctable ECC | Asserted | CPU0 DIMM_A3\n"
    )
    assert report.get("", "entries") == 3
    assert [item.level for item in report.items if item.name == "event"] == ["critical", "", "warning"]
    sensors = ipmitool.read(
        "GPU5 Temp        | 91.000     | degrees C  | cr    | na        | na        | na        | 85.000    | 90.000"
        "    | 95.000    \n"
        "P1-DIMMA1 Temp   | na         |            | na    | na        | na        | na        | na        | na     "
        "   | na        \n"
    )
    assert sensors.get("sensor/GPU5 Temp", "reading") == 91.0
    assert sensors.get("sensor/GPU5 Temp", "upper_critical") == 90.0
    assert sensors.get("sensor/P1-DIMMA1 Temp", "reading") == Missing(Reason.UNSUPPORTED)
    assert sensors.remarks == ("GPU5 Temp 91.0 C is critical",)
    assert ipmitool.read("", err="SEL has no entries\n").get("", "entries") == 0
