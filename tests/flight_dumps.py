"""Makes flight recorder dumps as PyTorch writes them."""

from __future__ import annotations

from typing import Any

START_NS = 1_773_453_600_000_000_000


def call(
    number: int,
    seq: int,
    op: str = "all_reduce",
    *,
    group: tuple[str, str] = ("0", "default_pg"),
    state: str = "scheduled",
    sizes: list[list[int]] | None = None,
    dtype: str = "BFloat16",
    where: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Return one entry, the `number`-th of its rank."""
    entry = {
        "record_id": number, "pg_id": int(group[0]), "process_group": group, "collective_seq_id": seq, "p2p_seq_id": 0,
        "op_id": seq, "profiling_name": f"nccl:{op}", "time_created_ns": START_NS + number * 1_000_000_000,
        "input_sizes": sizes or [[1024]], "input_dtypes": [dtype], "output_sizes": sizes or [[1024]],
        "output_dtypes": [dtype], "state": state, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False,
    }  # fmt: skip
    if where:
        file, line, name = where.split(":")
        library = {"name": "all_reduce", "filename": "/usr/lib/python3.11/site-packages/torch/dist.py", "line": 9}
        entry["frames"] = [library, {"name": name, "filename": f"/job/{file}", "line": int(line)}]
    return entry | more


def dump(
    entries: list[dict[str, Any]],
    groups: dict[str, tuple[str, list[int]]],
    reached: dict[str, tuple[int, int]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return one rank's dump: entries, groups by name, and (last enqueued, last completed) of each."""
    return {
        "version": "2.9",
        "nccl_version": "2.27.3",
        "pg_config": {name: {"name": name, "desc": d, "ranks": str(ranks)} for name, (d, ranks) in groups.items()},
        "pg_status": {
            name: {
                "last_enqueued_collective": enqueued, "last_started_collective": -1,
                "last_completed_collective": completed,
            }
            for name, (enqueued, completed) in (reached or {}).items()
        },
        "entries": entries,
    } | more  # fmt: skip
