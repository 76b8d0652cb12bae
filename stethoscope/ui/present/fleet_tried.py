"""What `stethoscope fleet test` prints: a line for each way that nodes stand, folded, then what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.model.ids import fold

if TYPE_CHECKING:
    from stethoscope.session.fleet_test import FleetTest, NodeTest


def tried_lines(result: FleetTest) -> list[str]:
    """Return the lines for people."""
    groups: dict[str, list[str]] = {}
    for node in result.nodes:
        groups.setdefault(_words(node), []).append(node.node)
    fine = sum(node.is_fine for node in result.nodes)
    lines = [f"{result.fleet}: {len(result.nodes):,} nodes, {fine:,} fine"]
    lines += [f"  {fold(names)}  {words}" for words, names in groups.items()]
    if result.advice:
        lines += ["", "what to do"]
        lines += [f"  {advice.what} on {advice.nodes}: {advice.do}" for advice in result.advice]
    return lines


def _words(node: NodeTest) -> str:
    if not node.reached or node.authenticated is False or node.clock_offset_s is None:
        return node.link
    parts = [
        "sh" if node.interpreter == "sh" else f"Python {node.interpreter}",
        f"driver {node.driver}",
        f"kernel log {node.kernel_log}",
        f"InfiniBand {node.infiniband}",
    ]
    if node.sudo is not None:
        parts.append("sudo ok" if node.sudo == "ok" else "sudo no")
    parts.append("clock ok" if abs(node.clock_offset_s) < 1 else f"clock {node.clock_offset_s:+.0f} s")
    return ", ".join(parts)


def tried_json(result: FleetTest) -> dict[str, Any]:
    """Return the document of `--json`."""
    from dataclasses import asdict

    return {
        "schema": "stethoscope.fleet.test/1",
        "fleet": result.fleet,
        "nodes": [{**asdict(node), "fine": node.is_fine} for node in result.nodes],
        "advice": [asdict(advice) for advice in result.advice],
    }
