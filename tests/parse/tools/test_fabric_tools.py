"""What tells of switches, addresses and packet filters is read as it was printed."""

from __future__ import annotations

import pytest

from stethoscope.model.report import Item, ToolError
from stethoscope.parse.tools import show_gids, ss, switch_ports

GIDS = """\
DEV	PORT	INDEX	GID					IPv4  		VER	DEV
---	----	-----	---					------------  	---	---
mlx5_0	1	0	fe80:0000:0000:0000:ba59:9fff:fe0d:1e2c			v1	ens1f0np0
mlx5_0	1	3	0000:0000:0000:0000:0000:ffff:c0a8:0a05	192.168.10.5  	v2	ens1f0np0
mlx5_1	1	0	fe80:0000:0000:0000:ba59:9fff:fe0d:1e2d			v1	ens1f1np1
mlx5_1	1	1	fe80:0000:0000:0000:ba59:9fff:fe0d:1e2d			v2	ens1f1np1
n_gids_found=4
"""


def test_a_port_without_its_ipv4_entry_is_critical_beside_one_that_has_it() -> None:
    report = show_gids.read(GIDS)
    assert report.get("mlx5_0:1", "roce_v2_ipv4") == "192.168.10.5"
    assert [item for item in report.items if item.level] == [
        Item("mlx5_1:1", "roce_v2_ipv4", "none", level="critical"),
    ]
    assert report.get("mlx5_1:1", "gids") == 2
    assert report.remarks == ("mlx5_1:1: no IPv4 entry of RoCE v2, which other ports have",)


def test_where_no_port_has_one_none_is_missed() -> None:
    alone = "".join(line + "\n" for line in GIDS.splitlines() if "v2" not in line)
    assert not [item for item in show_gids.read(alone).items if item.level]
    assert show_gids.read("DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\n").items == ()


def test_layer_interface_and_mtu_of_a_port() -> None:
    report = show_gids.read("mlx5_3 1 Ethernet ACTIVE enp94s0np0 2200\nmlx5_4 1 InfiniBand ACTIVE ib4 -\n")
    assert report.get("mlx5_3:1", "net_mtu") == 2200
    assert report.get("mlx5_4:1", "link_layer") == "InfiniBand"
    assert report.get("mlx5_4:1", "net_mtu") is None


def test_the_port_of_a_switch_that_shares_otherwise_than_its_sisters() -> None:
    report = switch_ports.read(
        "port 1/1  sl2vl default      vl-arb: weighted (high 4:64,1:32  low 0:16)\n"
        "port 1/2  sl2vl default      vl-arb: weighted (high 4:64,1:32  low 0:16)\n"
        "port 1/17 sl2vl default      vl-arb: strict_priority (high 0:255)\n"
    )
    assert report.get("port/1/17", "vl_arbitration") == "strict_priority (high 0:255)"
    assert [item.where for item in report.items if item.level] == ["port/1/17"]
    assert report.get("port/1/2", "sl2vl") == "default"
    assert len(report.remarks) == 1


def test_two_ports_have_no_majority() -> None:
    report = switch_ports.read("port 1 vl-arb: weighted (high 1:2)\nport 2 vl-arb: strict_priority (high 0:255)\n")
    assert not [item for item in report.items if item.level]


def test_the_port_of_a_switch_at_which_packets_wait() -> None:
    report = switch_ports.read(
        "Node Description:........MF0;leaf-02-5:MQM9790/U1\n"
        + "".join(f"port {port} xmit_wait 1800000/s xmit_discards 0/s symbol_errors 0.0/s\n" for port in range(1, 8))
        + "port 17 xmit_wait 43700000/s xmit_discards 0/s symbol_errors 2.5/s\n"
    )
    assert report.get("", "switch") == "MF0;leaf-02-5:MQM9790/U1"
    assert [(item.where, item.name, item.value) for item in report.items if item.level == "warning"] == [
        ("port/17", "xmit_wait", 43_700_000.0),
        ("port/17", "symbol_errors", 2.5),
    ]


def test_a_table_of_another_tool_about_ports_of_a_switch() -> None:
    report = switch_ports.read("Port 1/17: xmit_wait=0.31, queue_depth 88 %, discards 0\n")
    assert report.get("port/1/17", "queue_depth") == 88
    assert report.get("port/1/17", "discards") == 0


@pytest.mark.parametrize(
    ("text", "ports", "word", "level"),
    [
        ("\t\ttcp dport 1024-65535 reject with tcp reset\n", "1024-65535", "reject", "critical"),
        ("\t\ttcp dport { 29500, 40000-60000 } drop\n", "29500, 40000-60000", "drop", "critical"),
        ("\t\ttcp dport 111 drop\n", "111", "drop", ""),
        ("-A INPUT -p tcp -m tcp --dport 1024:65535 -j DROP\n", "1024:65535", "drop", "critical"),
        ("-A INPUT -p tcp -m multiport --dports 25,111 -j REJECT --reject-with x\n", "25,111", "reject", ""),
    ],
)
def test_what_a_filter_keeps_out(text: str, ports: str, word: str, level: str) -> None:
    report = ss.read(text)
    assert [item for item in report.items if item.name == "filter"] == [Item(f"tcp/{ports}", "filter", word, "", level)]


def test_who_listens_and_what_is_let_in_by_default() -> None:
    report = ss.read(
        'LISTEN 0      4096            0.0.0.0:40031       0.0.0.0:*    users:(("python3",pid=20097,fd=12))\n'
        "LISTEN 0      128                [::]:22             [::]:*\n"
    )
    assert [(item.where, item.value) for item in report.items] == [("tcp/40031", "python3"), ("tcp/22", "somebody")]
    report = ss.read(
        "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\t}\n}\n"
    )
    assert report.items == (Item("", "input_policy", "drop", "", "warning"),)
    with pytest.raises(ToolError):
        ss.read("")


@pytest.mark.parametrize("read", [show_gids.read, switch_ports.read])
def test_nothing_is_no_answer(read: object) -> None:
    with pytest.raises(ToolError):
        read("")  # type: ignore[operator]
