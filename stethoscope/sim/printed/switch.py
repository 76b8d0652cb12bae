"""What tells of switches, addresses and filters on a simulated node: the ports of the leaf behind an adapter, the
addresses of adapter ports, who listens, and what the packet filter keeps out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim import board
from stethoscope.sim.files import net
from stethoscope.sim.machine import TICKS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.sim.files.view import View

_ACTIVE = 4
_UPLINKS = 4
_FIRST_UPLINK = 33
_WORDS_PER_S = 2.9e9
"""What a port of a leaf sends in a healthy step, in words of four bytes."""
_USUAL = "weighted (high 4:64,1:32  low 0:16)"
_STARVING = "strict_priority (high 0:255)"
_FILTERS = {"refused": "reject with tcp reset", "timeout": "drop"}


def node_description(view: View, port: int) -> tuple[int, str, str]:
    """Return what `smpquery nodedesc` prints of the switch behind a port."""
    leaf = view.twin.layout.fleet.leaf(view.node, port)
    is_up = view.twin.shown().get((f"leaf/{leaf}", "leaf_up"), 1) != 0
    if view.readings.port["ib_port_state"][view.node][port] != _ACTIVE or not is_up:
        return 1, "", "ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1)\n"
    return 0, f"Node Description:........MF0;{leaf}:MQM9790/U1\n", ""


def counters(view: View, port: int) -> tuple[int, str, str]:
    """Return how fast the counters of the leaf behind a port grow, port by port."""
    status, _, errors = node_description(view, port)
    if status:
        return status, "", errors
    text = ""
    for number, share, pace, downs in _ports(view, port):
        text += (
            f"port {number} xmit_wait {share * TICKS_PER_S:.0f}/s xmit_data {pace * _WORDS_PER_S:.0f}/s "
            f"xmit_discards 0/s symbol_errors 0.0/s rcv_errors 0.0/s link_downed {downs}\n"
        )
    return 0, text, ""


def _ports(view: View, port: int) -> list[tuple[int, float, float, int]]:
    """Return number, share of time that it waits, pace, and times down of each port of the leaf."""
    twin, effects, name = view.twin, view.twin.effects, f"leaf/{view.twin.layout.fleet.leaf(view.node, port)}"
    behind = [view.node, *twin.layout.rail_partners(view.node, port)]
    behind.sort()
    draws = view.draw("leaf ports", 64)
    worst = twin.shown().get((name, "leaf_xmit_wait"))
    downs = twin.total("ib_link_downed", view.readings.t_s)
    found = []
    for place, node in enumerate(behind):
        pace = float(twin.machine.pace[node].max(initial=0.0)) * (twin.machine.on_sockets[node] == 0)
        # What the adapter behind it does not take waits here.
        share = 0.012 + 0.006 * draws[place] + 0.45 * (1 - float(effects.bandwidth[node, port]))
        if isinstance(worst, int | float):
            share = worst if place == len(behind) // 2 else 0.02 + 0.1 * worst * draws[place]
        found.append((place + 1, share if pace > 0 else 0.0, pace, int(downs[node, port])))
    pace = sum(one[2] for one in found) / max(1, len(found))
    found += [(_FIRST_UPLINK + up, (0.015 + 0.006 * draws[32 + up]) * (pace > 0), pace, 0) for up in range(_UPLINKS)]
    return found


def arbitration(view: View, port: int) -> tuple[int, str, str]:
    """Return how each port of the leaf behind a port shares its link between virtual lanes."""
    status, _, errors = node_description(view, port)
    if status:
        return status, "", errors
    name = f"leaf/{view.twin.layout.fleet.leaf(view.node, port)}"
    is_starved = view.twin.effects.shown.get((name, "leaf_mode")) == "qos"
    odd = (1 + len(view.twin.layout.rail_partners(view.node, port))) // 2 + 1
    return (
        0,
        "".join(
            f"port {number} vl-arb: {_STARVING if is_starved and number == odd else _USUAL}\n"
            for number, *_ in _ports(view, port)
        ),
        "",
    )


def ports(view: View) -> str:
    """Return link layer, state, interface and MTU of every adapter port."""
    layer = "Ethernet" if view.on_ethernet else "InfiniBand"
    states = view.readings.port["ib_port_state"][view.node] if view.ports else []
    return "".join(
        f"mlx5_{port} 1 {layer} {'ACTIVE' if states[port] == _ACTIVE else 'DOWN'} {view.netdev(port)} "
        f"{net.mtu(view, port)}\n"
        for port in range(view.ports)
        if not view.lacks_port(port)
    )


def addresses(view: View) -> str:
    """Return what show_gids prints."""
    text = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4\t\tVER\tDEV\n"
    for port in range(view.ports):
        if view.lacks_port(port):
            continue
        name = view.netdev(port)
        own = f"{view.node:04x}:{port:04x}"
        text += f"mlx5_{port}\t1\t0\tfe80:0000:0000:0000:a288:c2ff:{own}\t\tv1\t{name}\n"
        if not view.on_ethernet:
            continue
        text += f"mlx5_{port}\t1\t1\tfe80:0000:0000:0000:a288:c2ff:{own}\t\tv2\t{name}\n"
        if view.state("ib_gid_present", 1, port=port) > 0:
            numbers = (10, 100 + port, view.node // 250, view.node % 250 + 1)
            mapped = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*numbers)
            address = ".".join(map(str, numbers))
            text += "".join(f"mlx5_{port}\t1\t{2 + v}\t{mapped}\t{address}\tv{1 + v}\t{name}\n" for v in (0, 1))
    return text


def listening(view: View) -> str:
    """Return what `ss -H -l -t -n -p` prints: services, and the ranks that wait for others to connect."""
    rows = [("0.0.0.0:22", "sshd", 1_100), ("0.0.0.0:6818", "slurmd", 1_240), ("127.0.0.1:25", "master", 1_310)]
    job = view.twin.layout.job_of(view.node)
    if job is not None:
        run = view.twin.runs.get(job.id)
        alive = run.alive[job.nodes.index(view.node)].tolist() if run is not None else []
        if alive and alive[0] and job.nodes[0] == view.node:
            rows.append(("0.0.0.0:29500", "python3", board.rank_pid(view.node, 0)))
        for gpu, lives in enumerate(alive):
            if lives:
                port = 40_000 + (view.node * 31 + gpu * 7) % 20_000
                rows.append((f"0.0.0.0:{port}", "python3", board.rank_pid(view.node, gpu)))
    return "".join(
        f'LISTEN 0      4096   {address:>18}       0.0.0.0:*    users:(("{name}",pid={pid},fd={5 + pid % 90}))\n'
        for address, name, pid in rows
    )


def reached(view: View, peers: Sequence[str]) -> str:
    """Return what comes of trying to reach others of the job: a host that is up answers, unless its filter drops it."""
    job = view.twin.layout.job_of(view.node)
    over = "eno1" if job is not None and job.id in view.twin.effects.over_ethernet else "bond0"
    text = f"told {over}\n"
    for peer in peers:
        if peer not in view.twin.layout.nodes:
            text += f"peer {peer} has no address here\n"
            continue
        node = view.twin.layout.nodes.index(peer)
        text += f"peer {peer} address {board.node_address(node)} over {over}\n"
        if view.twin.link(node) != "up":
            text += "".join(f"peer {peer} {what} no answer\n" for what in ("ping", "tcp/22", "tcp/29500"))
            continue
        drops = view.twin.effects.shown.get((peer, "ports_filtered")) == "timeout"
        leads = job is not None and job.nodes[0] == node
        word = "no answer" if drops else "connects" if leads else "refused"
        text += f"peer {peer} ping answers\npeer {peer} tcp/22 connects\npeer {peer} tcp/29500 {word}\n"
    return text


def filter_rules(view: View) -> str:
    """Return what `nft list ruleset` prints."""
    mode = view.twin.effects.shown.get((view.name, "ports_filtered"))
    rule = f"\t\ttcp dport 1024-65535 {_FILTERS[mode]}\n" if isinstance(mode, str) and mode in _FILTERS else ""
    return (
        "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy accept;\n"
        f'\t\tct state established,related accept\n\t\tiif "lo" accept\n\t\ttcp dport 22 accept\n{rule}\t}}\n}}\n'
    )
