"""Cables between hosts and switches, in every form of the two tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.parse.ibnet import (
    Cable,
    Unnamed,
    device_name,
    host_of,
    named,
    read_fabric,
    read_guids,
    switch_name,
)

DISCOVER = """\
vendid=0x0
switchguid=0x200001(200001)
Switch	40 "S-0000000000200001"		# "leaf2" base port 0 lid 3 lmc 0
[1]	"H-0000000000100002"[1](100003) 		# "gpu001 mlx5_1" lid 5 4xNDR
[2]	"H-0000000000100006"[1](100007) 		# "MT4129 ConnectX7 Mellanox Technologies" lid 8 4xNDR
[33]	"S-0000000000200002"[3]		# "spine1" lid 4 4xNDR
[41]	"H-0000000000100009"[1](100009) 		# "Mellanox Technologies Aggregation Node" lid 9 4xNDR

Switch	40 "S-0000000000200002"		# "spine1" base port 0 lid 4 lmc 0
[3]	"S-0000000000200001"[33]		# "leaf2" lid 3 4xNDR

Switch	40 "S-0000000000200003"		# "MF0;leaf-07:MQM9700/U1" enhanced port 0 lid 7 lmc 0

Ca	1 "H-0000000000100002"		# "gpu001 mlx5_1"
[1](100003) 	"S-0000000000200001"[1]		# lid 5 lmc 0 "leaf2" lid 3 4xNDR

Ca	1 "H-0000000000100006"		# "MT4129 ConnectX7 Mellanox Technologies"
[1](100007) 	"S-0000000000200001"[2]		# lid 8 lmc 0 "leaf2" lid 3 4xNDR

Ca	1 "H-0000000000100009"		# "Mellanox Technologies Aggregation Node"
[1](100009) 	"S-0000000000200001"[41]		# lid 9 lmc 0 "leaf2" lid 3 4xNDR

Ca	2 "H-000000000010000a"		# "gpu002 HCA-4"
[2](10000b) 	"S-0000000000200003"[9]		# lid 12 lmc 0 "MF0;leaf-07:MQM9700/U1" lid 7 4xNDR
"""
PORTS = """\
CA   134  1 0x7cfe901a97500a16 4x EDR - SW  1719 10 0x7cfe90f302706d5e ( 'o0001 HCA-1' - 'ib-i1l1s01' )
SW  1719 10 0x7cfe90f302706d5e 4x EDR - CA   134  1 0x7cfe901a97500a16 ( 'ib-i1l1s01' - 'o0001 HCA-1' )
SW  1719  1 0x7cfe90f302706d5e 4x EDR - SW  1516  1 0x7cfe900aa51e9ba6 ( 'ib-i1l1s01' - 'ib-i1l2s01' )
SW  2052 37 0x506b4bdcdbf2950b 4x ???                                    'ib-i4l1s01'
"""
GROUPED = """\
CA: gpu008 mlx5_1:
      0x000000000010001f     20    1[  ] ==( 4X          53.125 Gbps Active/  LinkUp)==>       3    8[  ] "leaf2" ( )
Switch: 0x0000000000200001 leaf2:
           3    8[  ] ==( 4X          53.125 Gbps Active/  LinkUp)==>      20    1[  ] "gpu008 mlx5_1" ( )
           3    9[  ] ==(                Down/ Polling)==>             [  ] "" ( )
           3   33[  ] ==( 4X          53.125 Gbps Active/  LinkUp)==>       4    3[  ] "spine1" ( )
"""
LINES = """\
0x000000000010001f "                 gpu008 mlx5_1"     20    1[  ] ==( 4X  10.0 Gbps Active/  LinkUp)==>  0x0000000000200001      3    8[  ] "leaf2" (Could be 12X )
0x0000000000200001 "                         leaf2"      3   38[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""  # noqa: E501  as the tool prints it


def test_ibnetdiscover() -> None:
    read = read_fabric(DISCOVER)
    assert read.cables == (
        Cable("gpu001", "mlx5_1", 1, "leaf2", 1),
        Cable("gpu002", "HCA-4", 2, "leaf-07", 9),
    )
    assert read.unnamed == (Unnamed("0000000000100006", 1, "leaf2", 2),)
    assert read.lost == 0
    assert read.switches == ("leaf-07", "leaf2", "spine1")


def test_ibnetdiscover_by_ports() -> None:
    read = read_fabric(PORTS)
    assert read.cables == (Cable("o0001", "HCA-1", 1, "ib-i1l1s01", 10),)


@pytest.mark.parametrize("text", [GROUPED, LINES])
def test_iblinkinfo(text: str) -> None:
    assert read_fabric(text).cables == (Cable("gpu008", "mlx5_1", 1, "leaf2", 8),)


def test_adapters_without_a_name_are_found_by_their_guid() -> None:
    guids = read_guids(
        "gpu003: /sys/class/infiniband/mlx5_6/node_guid:0000:0000:0010:0006\n"
        "gpu004: mlx5_0/node_guid:0000:0000:0010:00FF\njunk\nx: mlx5_0/node_guid:12\n"
    )
    assert guids == {"0000000000100006": ("gpu003", "mlx5_6"), "00000000001000ff": ("gpu004", "mlx5_0")}
    read = named(read_fabric(DISCOVER), guids)
    assert Cable("gpu003", "mlx5_6", 1, "leaf2", 2) in read.cables
    assert read.unnamed == ()


def test_descriptions() -> None:
    assert host_of("gpu-007 mlx5_3") == ("gpu-007", "mlx5_3")
    assert host_of("gpu-007.cluster HCA-4") == ("gpu-007.cluster", "HCA-4")
    assert host_of("RMD701091901003 ibp11s0f0") == ("RMD701091901003", "ibp11s0f0")
    assert host_of("gpu-007") == ("gpu-007", "")
    assert host_of("MT4129 ConnectX7   Mellanox Technologies") == ("", "")
    assert host_of("mlx5_0") == ("", "")
    assert [device_name(name) for name in ("HCA-1", "HCA-12", "mlx5_3")] == ["mlx5_0", "mlx5_11", "mlx5_3"]
    assert switch_name("MF0;spine-row1-01ib1-A:MCS8500/L01/U1") == "spine-row1-01ib1-A/L01"
    assert switch_name("MF0;leaf-3:MQM8700/U1") == "leaf-3"
    assert switch_name("leaf 3") == "leaf 3"


@given(st.lists(st.sampled_from((DISCOVER + PORTS + GROUPED + LINES).splitlines()), max_size=12), st.text(max_size=60))
def test_lines_in_any_order_and_junk_are_survived(lines: list[str], junk: str) -> None:
    for cable in read_fabric("\n".join([*lines, junk])).cables:
        assert (cable.host + cable.device + cable.switch).isprintable()
