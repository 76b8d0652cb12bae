"""A node as a source names it, with nothing special about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """A model.nodespec.NodeSpec."""

    name: str
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    tick_s: float = 60.0
    expected_gpus: int | None = None
