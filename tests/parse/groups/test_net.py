"""Interfaces that are hardware, and what their adapters count."""

from __future__ import annotations

import pytest

from stethoscope.model.metric import Scope
from tests.parse.groups.parts import facts, only, row

DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:    9       9    9    9    9     9          9         9     9       9    9    9    9     9       9          9
  eth0: 1000      10    1    2    0     0          0         0  2000      20    4    8    0     0       0          0
veth12:    9       9    9    9    9     9          9         9     9       9    9    9    9     9       9          9
"""
SNMP = """Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens RetransSegs InErrs
Tcp: 1 200 120000 -1 1103 9 348 98
"""
FOLDER = "/sys/class/net/eth0"


def interface(**files: str) -> dict[str, str]:
    texts = {"operstate": "up\n", "mtu": "4200\n", "speed": "400000\n", "carrier_changes": "3\n", **files}
    return {
        f"{FOLDER}/device": "/sys/devices/pci0000:15/0000:15:01.0/0000:1a:00.0",
        **{f"{FOLDER}/{name}": text for name, text in texts.items()},
        "/sys/class/net/lo/operstate": "unknown\n",
        "/sys/class/net/veth12/operstate": "up\n",
        "/proc/net/dev": DEV,
        "/proc/net/snmp": SNMP,
    }


def test_an_interface() -> None:
    said = facts("net", interface())
    devices = only(said, Scope.NET)
    assert devices.names == ("eth0",)
    assert devices.about["eth0"] == {"pci": "0000:1a:00.0"}
    assert row(devices, "eth0") == {
        "net_operstate": 6,
        "net_mtu": 4200,
        "net_speed": 400000,
        "net_carrier_changes": 3,
        "net_rx_bytes": 1000,
        "net_tx_bytes": 2000,
        "net_drops": 10,
        "net_errors": 5,
        "net_rx_discards_phy": "unsupported",
        "net_rx_crc_errors_phy": "unsupported",
        "net_rx_symbol_err_phy": "unsupported",
        "net_link_down_events_phy": "unsupported",
        "net_pci_stalled_wr": "unsupported",
        "net_pfc_rx_pause_duration": "unsupported",
        "net_pfc_tx_pause": "unsupported",
    }
    assert said.node == {"net_tcp_retrans": 348}


def test_files_below_the_device_are_the_same_interface() -> None:
    files = {f"{FOLDER}/device": "/sys/devices/x/virtio0", f"{FOLDER}/device/net/eth0/mtu": "1500\n"}
    devices = only(facts("net", files), Scope.NET)
    assert row(devices, "eth0")["net_mtu"] == 1500
    assert devices.about["eth0"] == {}


@pytest.mark.parametrize("text", ["-1\n", "4294967295\n", "65535\n", "0\n"])
def test_a_speed_that_is_unknown_is_absent(text: str) -> None:
    assert row(only(facts("net", interface(speed=text)), Scope.NET), "eth0")["net_speed"] == "absent"


def test_without_a_link_the_speed_cannot_be_read() -> None:
    files = interface(operstate="lowerlayerdown\n")
    del files[f"{FOLDER}/speed"]
    devices = only(facts("net", files, failed={f"{FOLDER}/speed": "error"}), Scope.NET)
    assert row(devices, "eth0")["net_speed"] == "absent"
    assert row(devices, "eth0")["net_operstate"] == 3
    devices = only(facts("net", files, failed={f"{FOLDER}/speed": "permission"}), Scope.NET)
    assert row(devices, "eth0")["net_speed"] == "permission"


def test_a_state_that_no_kernel_has_is_an_error() -> None:
    assert row(only(facts("net", interface(operstate="sideways\n")), Scope.NET), "eth0")["net_operstate"] == "error"


def test_what_the_adapter_counts() -> None:
    files = interface()
    files["/sys/class/infiniband/mlx5_3/device/net/eth0"] = (
        "rx_discards_phy 12\nrx_crc_errors_phy 1\nrx_symbol_err_phy 2\nrx_pcs_symbol_err_phy 9\n"
        "link_down_events_phy 5\noutbound_pci_stalled_wr 30\nrx_out_of_buffer 77\n"
        "rx_prio0_pause 4\nrx_prio0_pause_duration 100\nrx_prio3_pause_duration 23\n"
        "tx_prio0_pause 6\ntx_prio3_pause 7\ntx_prio3_pause_duration 999\n"
    )
    devices = only(facts("net", files), Scope.NET)
    values = row(devices, "eth0")
    assert {metric: value for metric, value in values.items() if "phy" in metric or "p" in metric[4:6]} == {
        "net_rx_discards_phy": 12,
        "net_rx_crc_errors_phy": 1,
        "net_rx_symbol_err_phy": 2,
        "net_link_down_events_phy": 5,
        "net_pci_stalled_wr": 30,
        "net_pfc_rx_pause_duration": 123,
        "net_pfc_tx_pause": 13,
        "net_operstate": 6,
        "net_speed": 400000,
    }
    assert devices.about["eth0"]["adapter"] == "mlx5_3"


def test_another_name_for_symbol_errors_and_counters_of_nonsense() -> None:
    files = interface()
    path = "/sys/class/infiniband/mlx5_3/device/net/eth0"
    devices = only(facts("net", {**files, path: "rx_pcs_symbol_err_phy 9\n"}), Scope.NET)
    assert row(devices, "eth0")["net_rx_symbol_err_phy"] == 9
    devices = only(facts("net", {**files, path: "rx_discards_phy many\n"}), Scope.NET)
    assert row(devices, "eth0")["net_rx_discards_phy"] == "error"


@pytest.mark.parametrize("text", ["", "Tcp: RetransSegs\n", "Tcp: A B\nTcp: 1 2\n"])
def test_without_the_column_nothing_is_said_of_tcp(text: str) -> None:
    assert facts("net", {"/proc/net/snmp": text}).node == {"net_tcp_retrans": "unsupported"}


def test_what_hardly_ever_changes_is_the_same_object_on_nodes_of_one_kind() -> None:
    first, again = (only(facts("net", interface(carrier_changes=text)), Scope.NET) for text in ("3\n", "4\n"))
    assert first.about is again.about
    assert first.names is again.names
    assert [row(one, "eth0")["net_carrier_changes"] for one in (first, again)] == [3, 4]
    other = only(facts("net", interface(mtu="9000\n")), Scope.NET)
    assert row(other, "eth0")["net_mtu"] == 9000


def test_texts_and_paths_beyond_all_measure_are_read_without_being_kept() -> None:
    files = interface(mtu="1" * 20_000)
    files.update({f"/sys/class/net/veth{number}/operstate": "up\n" for number in range(600)})
    devices = only(facts("net", files, failed={f"/sys/class/net/e{n}/speed": "error" for n in range(600)}), Scope.NET)
    assert row(devices, "eth0")["net_mtu"] == "error"
    assert row(devices, "eth0")["net_operstate"] == 6


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("many 1 1 2 0 0 0 0 2 2 4 8 0 0 0 0", ["error"] * 4),
        ("1 1 1 2 0 0 0 0 2 2 4 8 0 0 0", ["error"] * 4),
        (f"{2**64 - 1} 1 1 2 0 0 0 0 2 2 4 8 0 0 0 0 9 9", [2**64 - 1, 2, 10, 5]),
        (f"1 1 1 {2**63} 0 0 0 0 2 2 4 {2**63} 0 0 0 0", [1, 2, "error", 5]),
    ],
)
def test_a_row_of_nonsense_leaves_the_others(columns: str, said: list[object]) -> None:
    files = {**interface(), "/sys/class/net/eth1/device": "/sys/devices/x/virtio0"}
    files["/proc/net/dev"] = DEV + f"  eth1: {columns}\n"
    devices = only(facts("net", files), Scope.NET)
    counted = ("net_rx_bytes", "net_tx_bytes", "net_drops", "net_errors")
    assert [row(devices, "eth1")[metric] for metric in counted] == said
    assert [row(devices, "eth0")[metric] for metric in counted] == [1000, 2000, 10, 5]
