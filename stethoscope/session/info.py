"""What is in a recording: nodes, span, size, gaps, damage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stethoscope.clock import duration, iso
from stethoscope.model.ids import fold
from stethoscope.store.format import RecordType

if TYPE_CHECKING:
    from stethoscope.store.tape import Tape

SCHEMA = "stethoscope.replay/1"
GAP_S = 30.0
"""A pause without a record that is worth telling, in seconds."""


@dataclass(frozen=True, slots=True)
class Info:
    """What `describe` found."""

    tape: Tape
    records: Counter[int]
    raw: int
    """Bytes of lines."""
    size: int
    """Bytes of files."""
    heard: frozenset[str]
    """Nodes that sent a line."""
    gaps: list[tuple[float, float]]
    """Wall time at which nothing more came, and seconds until the next record."""
    lost: int
    """Lines that the recorder's disk was too slow for."""
    damage: list[str] = field(default_factory=list)


def describe(tape: Tape) -> Info:
    """Read all of `tape` and say what is in it."""
    records: Counter[int] = Counter()
    raw = lost = 0
    heard: set[str] = set()
    gaps: list[tuple[float, float]] = []
    last: tuple[float, float] | None = None
    for t, record, reel in tape.play(0.0):
        records[record.type] += 1
        if last is not None and t - last[0] >= GAP_S:
            gaps.append((last[1], t - last[0]))
        last = (t, record.wall)
        if record.type == RecordType.FRAME:
            raw += len(record.payload)
            heard.add(reel.fleet.nodes[record.node].name)
        elif record.type == RecordType.LOST:
            lost += _lost(record.payload)
    damage = [f"{part}: not played" for part in tape.left_out]
    for reel in tape.reels:
        for part in reel.recording.damage:
            when = f", behind {iso(part.wall)}" if part.wall is not None else ""
            damage.append(f"{reel.recording.name}: {part.what} at byte {part.at:,}, {part.size:,} bytes{when}")
        if reel.recording.lost_records:
            damage.append(f"{reel.recording.name}: {reel.recording.lost_records:,} records damaged")
    size = sum(reel.recording.size for reel in tape.reels)
    return Info(tape, records, raw, size, frozenset(heard), gaps, lost, damage)


def _lost(payload: bytes) -> int:
    import msgspec

    try:
        return max(0, msgspec.json.decode(payload, type=dict[str, int]).get("records", 0))
    except (msgspec.MsgspecError, ValueError):
        return 0


def info_json(info: Info) -> dict[str, Any]:
    """Return it in the form of `stethoscope.replay/1`."""
    first, last = info.tape.wall_span
    fleet = info.tape.reels[-1].fleet
    return {
        "schema": SCHEMA,
        "fleet": fleet.fleet,
        "simulated": fleet.simulated,
        "writer": fleet.writer or None,
        "from": iso(first),
        "to": iso(last),
        "duration_s": round(info.tape.end, 3),
        "nodes": len(fleet.nodes),
        "nodes_heard": len(info.heard),
        "files": [
            {
                "file": reel.recording.name,
                "bytes": reel.recording.size,
                "blocks": len(reel.recording.entries),
                "closed": reel.recording.closed,
                "being_written": reel.recording.being_written,
            }
            for reel in info.tape.reels
        ],
        "lines": info.records[RecordType.FRAME],
        "link_changes": info.records[RecordType.LINK],
        "bytes": info.size,
        "bytes_raw": info.raw,
        "lines_lost": info.lost,
        "gaps": [{"at": iso(at), "duration_s": round(seconds, 3)} for at, seconds in info.gaps],
        "left_out": info.tape.beside,
        "damage": info.damage,
    }


def info_lines(info: Info) -> list[str]:
    """Return it as lines for people."""
    tape = info.tape
    first, last = tape.wall_span
    fleet = tape.reels[-1].fleet
    frames = info.records[RecordType.FRAME]
    names = [node.name for node in fleet.nodes]
    silent = [name for name in names if name not in info.heard]
    each = f", {info.size / frames:.0f} bytes a line" if frames else ""
    ratio = f", 1:{info.raw / info.size:.1f} packed" if info.size and frames else ""
    writing = any(reel.recording.being_written for reel in tape.reels)
    many = f"{len(names):,} node{'s' * (len(names) != 1)}"
    lines = [
        f"fleet    {fleet.fleet}{' (simulated)' if fleet.simulated else ''}, {many}: {fold(names)}",
        f"time     {iso(first)} to {iso(last)}, {duration(tape.end)}{', still being recorded' if writing else ''}",
        f"content  {frames:,} lines, {info.records[RecordType.LINK]:,} link changes",
        f"size     {info.size:,} bytes in {len(tape.reels):,} file{'s' * (len(tape.reels) > 1)}{each}{ratio}",
    ]
    if silent:
        lines.append(f"silent   {len(silent):,} of them sent nothing: {fold(silent)}")
    if info.lost:
        lines.append(f"lost     {info.lost:,} lines: the disk was too slow")
    lines += [f"gap      {duration(seconds)} from {iso(at)}" for at, seconds in info.gaps]
    if tape.beside:
        many = f"{len(tape.beside):,} file{'s' * (len(tape.beside) > 1)}"
        lines.append(f"beside   {many} of another recorder that ran at the same time: not played")
    lines += [f"damage   {what}" for what in info.damage]
    if not info.damage:
        lines.append("damage   none")
    return lines
