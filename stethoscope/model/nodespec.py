"""What is known of a node before it is reached."""

from __future__ import annotations

from typing import Protocol


class NodeSpec(Protocol):
    """What is known of a node before it is reached."""

    @property
    def name(self) -> str:
        """Return the name that is used everywhere."""

    @property
    def rack(self) -> str:
        """Return the rack, empty when it is not known."""

    @property
    def pod(self) -> str:
        """Return the pod, empty when it is not known."""

    @property
    def leaves(self) -> tuple[tuple[str, str], ...]:
        """Return the leaf switch of each port that one is known of: (`mlx5_0` or `mlx5_0:2`, leaf)."""

    @property
    def tick_s(self) -> float:
        """Return the seconds between two frames."""

    @property
    def expected_gpus(self) -> int | None:
        """Return how many GPUs the node should have, None when nobody said."""
