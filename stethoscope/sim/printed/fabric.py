"""What the tools of the InfiniBand fabric print on a simulated node."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View

_LANES = 4
_DIM_DBM = -6.0
"""Below this much light the adapter complains."""
_COUNTERS = (
    ("SymbolErrorCounter", "ib_symbol_error"), ("LinkErrorRecoveryCounter", "ib_link_error_recovery"),
    ("LinkDownedCounter", "ib_link_downed"), ("PortRcvErrors", "ib_port_rcv_errors"),
    ("PortRcvRemotePhysicalErrors", "ib_port_rcv_remote_physical_errors"),
    ("PortRcvSwitchRelayErrors", "ib_port_rcv_switch_relay_errors"), ("PortXmitDiscards", "ib_port_xmit_discards"),
    ("PortXmitConstraintErrors", ""), ("PortRcvConstraintErrors", ""),
    ("LocalLinkIntegrityErrors", "ib_local_link_integrity_errors"),
    ("ExcessiveBufferOverrunErrors", "ib_excessive_buffer_overrun_errors"), ("VL15Dropped", "ib_vl15_dropped"),
    ("PortXmitWait", "ib_port_xmit_wait"), ("QP1Dropped", ""),
)  # fmt: skip
_DARK_DBM = -40.0
_SPEEDS = {800: "XDR", 400: "NDR", 200: "HDR", 100: "EDR", 56: "FDR", 40: "QDR", 10: "SDR"}
"""Rate of four lanes, in Gb/s -> the name of the speed."""
_THRESHOLD = 10
"""What a port may have counted before ibqueryerrors shows it; waiting for credit is no error to it."""
_MTU = 4096


def guid(name: str, port: int) -> str:
    """Return the GUID of an adapter: the vendor's prefix and what is its own."""
    return "0xa088c2" + hashlib.sha256(f"{name} {port}".encode()).hexdigest()[:10]


def lid(node: int, port: int) -> int:
    """Return the local address of a port."""
    return 100 + 16 * node + port


def port_of(view: View, device: str) -> int | None:
    """Return the number of an adapter by its name or PCI address, None for one that is not there."""
    there = (port for port in range(view.ports) if not view.lacks_port(port))
    return next((port for port in there if device == f"mlx5_{port}"), None)


def ibstat(view: View) -> str:
    """Return what ibstat prints."""
    states, rates = view.readings.port["ib_port_state"][view.node], view.readings.port["ib_port_rate"][view.node]
    physical = view.readings.port["ib_port_phys_state"][view.node]
    text = ""
    for port in range(view.ports):
        if view.lacks_port(port):
            continue
        own = guid(view.name, port)
        base_lid, manager = (0, 0) if view.on_ethernet else (lid(view.node, port), 1)
        text += (
            f"CA 'mlx5_{port}'\n\tCA type: MT4129\n\tNumber of ports: 1\n"
            f"\tFirmware version: {view.build.ib_fw_version}\n\tHardware version: 0\n\tNode GUID: {own}\n"
            f"\tSystem image GUID: {own}\n\tPort 1:\n\t\tState: {_STATES.get(states[port], 'Down')}\n"
            f"\t\tPhysical state: {_PHYSICAL.get(physical[port], 'Disabled')}\n\t\tRate: {rates[port]}\n"
            f"\t\tBase lid: {base_lid}\n\t\tLMC: 0\n\t\tSM lid: {manager}\n\t\tCapability mask: 0xa751e848\n"
            f"\t\tPort GUID: {own}\n\t\tLink layer: {'Ethernet' if view.on_ethernet else 'InfiniBand'}\n"
        )
    return text


_STATES: dict[object, str] = {1: "Down", 2: "Initializing", 3: "Armed", 4: "Active"}
_PHYSICAL: dict[object, str] = {2: "Polling", 3: "Disabled", 5: "LinkUp", 6: "LinkErrorRecovery"}


def perfquery(view: View, port: int) -> str:
    """Return what `perfquery -x` prints of a port."""
    sent, received = view.total("ib_port_xmit_data")[port], view.total("ib_port_rcv_data")[port]
    packets, packets_in = sent * 4 // _MTU, received * 4 // _MTU
    rows: list[tuple[str, object]] = [
        ("PortSelect", 1), ("CounterSelect", "0x0000"), ("PortXmitData", sent), ("PortRcvData", received),
        ("PortXmitPkts", packets), ("PortRcvPkts", packets_in), ("PortUnicastXmitPkts", packets),
        ("PortUnicastRcvPkts", packets_in), ("PortMulticastXmitPkts", 0), ("PortMulticastRcvPkts", 0),
        ("CounterSelect2", "0x00000000"),
    ]  # fmt: skip
    rows += [(name, view.total(metric)[port] if metric else 0) for name, metric in _COUNTERS]
    head = f"# Port extended counters: Lid {lid(view.node, port)} port 1 (CapMask: 0x5A00 CapMask2: 0x0000002)\n"
    return head + "".join(f"{name + ':':.<33}{value}\n" for name, value in rows)


def query_errors(view: View) -> str:
    """Return what `ibqueryerrors --data --details` prints of all adapters."""
    layout = view.twin.layout
    wanted = [(name, metric) for name, metric in _COUNTERS if metric and metric != "ib_port_xmit_wait"]
    totals = {metric: view.twin.total(metric, view.readings.t_s) for _, metric in wanted}
    data = {metric: view.twin.total(metric, view.readings.t_s) for metric in ("ib_port_xmit_data", "ib_port_rcv_data")}
    text, bad = "", 0
    for node, name in enumerate(layout.nodes):
        for port in range(view.ports):
            counts = [(title, int(totals[metric][node, port])) for title, metric in wanted]
            shown = "".join(f" [{title} == {count}]" for title, count in counts if count > _THRESHOLD)
            if not shown or view.twin.link(node) != "up" or view.twin.effects.port_missing[node, port]:
                continue
            bad += 1
            for title, metric in (("PortXmitData", "ib_port_xmit_data"), ("PortRcvData", "ib_port_rcv_data")):
                words = int(data[metric][node, port])
                shown += f" [{title} == {words} ({words * 4 / 2**40:.3f}TB)]"
            text += f'Errors for "{name} mlx5_{port}"\n   GUID {guid(name, port)} port 1:{shown}\n'
    ports = len(layout.nodes) * view.ports
    return (
        f"{text}\n## Summary: {ports} nodes checked, {bad} bad nodes found\n"
        f"##          {ports} ports checked, {bad} ports have errors beyond threshold\n"
        "## Thresholds: \n## Suppressed:\n"
    )


def mlxlink(view: View, port: int) -> str:
    """Return what `mlxlink -m -c` prints: light, bit errors, and the counters that the kernel shows too."""
    light = view.state("ib_module_rx_power", 1.5, port=port)
    errors = view.state("ib_effective_ber", 1e-15, port=port)
    symbols = view.total("ib_symbol_error")[port]
    lanes = [1.6 + 0.6 * draw for draw in view.draw(f"light {port}", _LANES)]
    sent = [1.3 + 0.5 * draw for draw in view.draw(f"sent light {port}", _LANES)]
    # One lane goes dark first.
    lanes[port % _LANES] = light if light < 1.4 else max(light, lanes[port % _LANES])
    kind = "ETH" if view.on_ethernet else "IB"
    raw = [int(3e9 * (1 + draw)) for draw in view.draw(f"raw errors {port}", _LANES)]
    rate = view.readings.port["ib_port_rate"][view.node][port]
    is_up = view.readings.port["ib_port_state"][view.node][port] == 4
    if not is_up:
        # What no longer sends gives no light.
        lanes = [_DARK_DBM] * _LANES
    speed = _SPEEDS.get(round(rate), "NDR") if isinstance(rate, int | float) else "N/A"
    is_bad = is_up and (light < _DIM_DBM or errors > 1e-12)
    opcode, group, advice = (15, "PHY FW", "Bad signal integrity") if is_bad else (0, "N/A", "No issue was observed")
    if not is_up:
        opcode, group, advice = 1032, "PHY FW", "No signal is detected on the receiver"
    elif isinstance(rate, int | float) and rate < view.twin.layout.fleet.ib_rate_gbps:
        advice = "Link is up, but not at its highest speed"
    if is_bad:
        raw[port % _LANES] *= 1000
    sections = (
        ("Operational Info", (
            ("State", "Active" if is_up else "Polling"), ("Physical state", "LinkUp" if is_up else "Polling"),
            ("Speed", f"{kind}-{speed}" if is_up else "N/A"), ("Width", "4x" if is_up else "N/A"),
            ("FEC", "Ethernet_Consortium_LL_50G_RS_FEC_PLR -(272,257+1)"), ("Loopback Mode", "No Loopback"),
            ("Auto Negotiation", "ON"),
        )),
        ("Supported Info", (
            ("Enabled Link Speed", "0x000000e0 (NDR,HDR,EDR)"), ("Supported Cable Speed", "0x000000e0 (NDR,HDR,EDR)"),
        )),
        ("Troubleshooting Info", (
            ("Status Opcode", opcode), ("Group Opcode", group), ("Recommendation", advice),
        )),
        ("Tool Information", (
            ("Firmware Version", view.build.ib_fw_version), ("amBER Version", "2.09"), ("MFT Version", "mft 4.26.1-3"),
        )),
        ("Module Info", (
            ("Identifier", "OSFP"), ("Compliance", "IB NDR"), ("Cable Type", "Optical Module (separated)"),
            ("Vendor Name", "NVIDIA"), ("Vendor Part Number", "MMA4Z00-NS400"),
            ("Vendor Serial Number", f"MT24{int(guid(view.name, port)[-6:], 16) % 100_000:05d}FT"), ("Rev", "A5"),
            ("Temperature [C]", f"{view.state('ib_module_temp', 52, port=port):.0f} [-5..75]"),
            ("Voltage [mV]", "3261.2 [2970..3630]"),
            ("Bias Current [mA]", ",".join(["8.380"] * _LANES) + " [2..15]"),
            ("Rx Power Current [dBm]", ",".join(f"{lane:.3f}" for lane in lanes) + " [-10.41..6]"),
            ("Tx Power Current [dBm]", ",".join(f"{lane:.3f}" for lane in sent) + " [-8.508..5]"),
            ("Tx Fault [per lane]", ",".join("0" * _LANES)),
            ("Rx LOS [per lane]", ",".join(("0" if is_up else "1") * _LANES)),
        )),
        ("Physical Counters and BER Info", (
            ("Time Since Last Clear [Min]", f"{view.uptime_s / 60:.1f}"), ("Symbol Errors", symbols),
            ("Symbol BER", _ber(errors / 20)), ("Effective Physical Errors", 37 * symbols),
            ("Effective Physical BER", _ber(errors)),
            ("Raw Physical Errors Per Lane", ",".join(str(count) for count in raw)),
            ("Link Down Counter", view.total("ib_link_downed")[port]),
            ("Link Error Recovery Counter", view.total("ib_link_error_recovery")[port]),
            ("Raw Physical BER", "4E-5" if is_bad else "2E-9"),
        )),
    )  # fmt: skip
    return "\n" + "\n".join(
        f"{title}\n{'-' * len(title)}\n" + "".join(f"{name:<35}: {value}\n" for name, value in rows)
        for title, rows in sections
    )


def _ber(rate: float) -> str:
    """Return a bit error rate as the tool writes it; what it cannot measure is its smallest number."""
    if rate <= 1e-15:
        return "15E-255"
    exponent = math.floor(math.log10(rate))
    digit = round(rate / 10.0**exponent)
    return f"{digit}E{exponent}" if digit < 10 else f"1E{exponent + 1}"
