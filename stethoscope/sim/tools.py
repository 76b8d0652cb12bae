"""What the tools on a simulated node answer to an on-demand probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.sim.twin import Twin

NOT_INSTALLED = 127


def output(twin: Twin, node: int, probe_id: str, args: Sequence[str]) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error of the script `probe_id` with its arguments on a node (by
    position)."""
    text = twin.probe_text(node, probe_id)
    if text is None:
        return NOT_INSTALLED, "", f"stethoscope-probe: not installed: {probe_id}\n"
    return 0, text, ""
