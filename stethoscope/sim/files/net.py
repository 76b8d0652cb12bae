"""Network interfaces of a simulated node: one for management, two Ethernet ports that are one bond, and those of the
fabric's ports: IP over InfiniBand, or Ethernet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim import board

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View

ETHERNET = ("eth0", "eth1")
ETHERNET_PCI = ("0000:2a:00.0", "0000:2a:00.1")
SPEED_MBPS = 25_000
MANAGEMENT, MANAGEMENT_PCI = "eno1", "0000:00:1f.6"
_MTU_OF = {256: 400, 512: 700, 1024: 1500, 2048: 2200, 4096: 4200}
"""Active MTU of RoCE -> the smallest MTU of the interface that allows it and is in use."""
_ACTIVE = 4
_COUNTED = (
    "rx_out_of_buffer", "outbound_pci_stalled_wr", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy",
    "rx_corrected_bits_phy", "rx_crc_errors_phy", "rx_discards_phy", "tx_discards_phy", "link_down_events_phy",
    *(f"{way}_prio{priority}_pause{what}"
      for priority in range(8) for way in ("rx", "tx") for what in ("", "_duration")),
)  # fmt: skip
_TCP = (
    "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs "
    "RetransSegs InErrs OutRsts InCsumErrors"
)


def name_of(port: int, *, on_ethernet: bool) -> str:
    """Return the name of an adapter's interface: IP over InfiniBand, or the Ethernet port itself."""
    return f"enp{int(board.port_pci(port)[5:7], 16)}s0np0" if on_ethernet else f"ib{port}"


def files(view: View) -> dict[str, str]:
    """Return the files of the interfaces, the kernel's counters, and what the adapters' drivers count."""
    found = {"/proc/net/snmp": _snmp(view), "/proc/net/dev": _dev(view)}
    found[f"/sys/class/net/{MANAGEMENT}/device"] = f"/sys/devices/pci0000:00/{MANAGEMENT_PCI}"
    found.update(_interface(f"/sys/class/net/{MANAGEMENT}", "up", 1500, management_mbps(view), 2))
    for number, name in enumerate(ETHERNET):
        base = f"/sys/class/net/{name}"
        found[f"{base}/device"] = f"/sys/devices/pci0000:2a/0000:2a:00.{number}"
        found.update(_interface(base, "up", 9000, SPEED_MBPS, 2 + (view.draw("flap", 2)[number] < 0.1)))
    found.update(_interface("/sys/class/net/bond0", "up", 9000, 2 * SPEED_MBPS, 2))
    found.update(_interface("/sys/class/net/lo", "unknown", 65_536, None, 0))
    for port in range(view.ports):
        if not view.lacks_port(port):
            found.update(_of_port(view, port))
    return found


def _of_port(view: View, port: int) -> dict[str, str]:
    name = view.netdev(port)
    root, pci = board.port_root_pci(port), board.port_pci(port)
    rate, downs = view.readings.port["ib_port_rate"][view.node][port], _downs(view, port)
    is_up = view.readings.port["ib_port_state"][view.node][port] == _ACTIVE
    megabits = round(1000 * rate) if isinstance(rate, int | float) else None
    # A link that is away has come and gone once less.
    changes = 1 + 2 * downs - (not is_up and downs > 0)
    found = _interface(
        f"/sys/class/net/{name}", "up" if is_up else "down", mtu(view, port), megabits if is_up else -1, changes
    )
    found[f"/sys/class/net/{name}/device"] = f"/sys/devices/pci{root[:7]}/{root}/{pci}"
    found[f"/sys/class/infiniband/mlx5_{port}/device/net/{name}"] = _statistics(view, port, downs)
    return found


def mtu(view: View, port: int) -> int:
    """Return the MTU of a port's interface."""
    if not view.on_ethernet:
        return int(view.build.mtu)
    active = round(view.state("ib_active_mtu", 4096, port=port))
    return _MTU_OF.get(active, active + 104)


def management_mbps(view: View) -> int:
    """Return the rate of the management network."""
    return round(1000 * view.twin.layout.management_gbps)


def statistics(view: View, name: str) -> dict[str, int] | None:
    """Return what a driver counts of an interface, None for one that is not there."""
    port = next((port for port in range(view.ports) if view.netdev(port) == name), None)
    if port is not None:
        if view.lacks_port(port):
            return None
        return {word: _counted(view, port, word, _downs(view, port)) for word in _COUNTED}
    if name in (*ETHERNET, MANAGEMENT):
        received, sent = _bytes(view) if name in ETHERNET else _management_bytes(view)
        return {"rx_bytes": received, "tx_bytes": sent, "rx_errors": 0, "tx_errors": 0, "rx_crc_errors": 0}
    return None


def _downs(view: View, port: int) -> int:
    return view.total("ib_link_downed")[port]


def _statistics(view: View, port: int, downs: int) -> str:
    return "".join(f"{word} {_counted(view, port, word, downs)}\n" for word in _COUNTED)


def _counted(view: View, port: int, word: str, downs: int) -> int:
    if word == "link_down_events_phy":
        return downs
    if word == "rx_corrected_bits_phy":
        return 1_000 * view.total("ib_symbol_error")[port]
    if word == "rx_prio3_pause_duration":
        return view.count("net_pfc_rx_pause_duration", 0, port=port)
    return 0


def _interface(base: str, state: str, mtu: int, speed_mbps: int | None, changes: int) -> dict[str, str]:
    found = {
        f"{base}/operstate": f"{state}\n",
        f"{base}/mtu": f"{mtu}\n",
        f"{base}/carrier_changes": f"{changes}\n",
    }
    if speed_mbps is not None:
        found[f"{base}/speed"] = f"{speed_mbps}\n"
    return found


def _snmp(view: View) -> str:
    sent = int(900 * view.loading_s + 60 * view.uptime_s)
    # The management network loses a segment now and then: about one in ten seconds.
    again = view.count("net_tcp_retrans", int(0.1 * view.uptime_s) + view.total("management_retrans")[0])
    opened = int(0.05 * view.uptime_s)
    values = f"1 200 120000 -1 {opened} {opened // 2} 12 31 46 {sent - 40} {sent} {again} 0 58 0"
    return f"Tcp: {_TCP}\nTcp: {values}\n"


def _bytes(view: View) -> tuple[int, int]:
    """Return the bytes that one Ethernet port has received and sent: storage goes over InfiniBand."""
    return int(1.2e6 * view.loading_s + 9_000 * view.uptime_s), int(3.1e5 * view.loading_s + 14_000 * view.uptime_s)


def _management_bytes(view: View) -> tuple[int, int]:
    """Return the bytes that the management interface has received and sent: logs and logins, as a rule."""
    training = view.total("management_bytes")[0] + int(1.25e8 * view.count("net_mgmt_tx", 0))
    return int(6_000 * view.uptime_s) + training, int(2_500_000 * view.uptime_s) + training


def _dev(view: View) -> str:
    received, sent = _bytes(view)
    rows = {"lo": (int(400 * view.uptime_s),) * 2, MANAGEMENT: _management_bytes(view)}
    rows.update(dict.fromkeys(ETHERNET, (received, sent)), bond0=(2 * received, 2 * sent))
    for port in range(view.ports):
        if not view.lacks_port(port):
            rows[view.netdev(port)] = int(52 * view.uptime_s), int(44 * view.uptime_s)
    head = (
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls "
        "carrier compressed\n"
    )
    return head + "".join(
        f"{name:>6}: {into:7d} {into // 900:7d}    0    0    0     0          0         0 {out:8d} {out // 900:7d}"
        "    0    0    0     0       0          0\n"
        for name, (into, out) in rows.items()
    )
