"""How moments are written in options: `02:14`, `2026-03-14T02:14:07Z`, `2h` (so long before the newest)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from stethoscope.specs.duration import duration_s

_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?)?")


def moment_of(text: str, newest: float, zone: tzinfo = UTC) -> float:
    """Return the wall seconds of a moment: a time of day is the last such one up to `newest` (wall seconds), a span is
    so long before it; what names no zone is of `zone`. ValueError for anything else."""
    word = text.strip()
    if match := _TIME.fullmatch(word):
        hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
        if hours > 23 or minutes > 59 or seconds > 59:
            raise ValueError(f'"{word}" is no time of day')
        end = datetime.fromtimestamp(newest, zone)
        wanted = end.replace(hour=hours, minute=minutes, second=seconds, microsecond=0)
        # Within the same second counts as up to it.
        return (wanted if wanted <= end else wanted - timedelta(days=1)).timestamp()
    if _DATE.fullmatch(word):
        try:
            when = datetime.fromisoformat(word)
        except ValueError:
            raise ValueError(f'"{word}" is no day or time that exists') from None
        return (when if when.tzinfo is not None else when.replace(tzinfo=zone)).timestamp()
    try:
        return newest - duration_s(word)
    except ValueError:
        raise ValueError(
            f'"{word}" is no time: write 02:14, 2026-03-14T02:14:07Z, or 2h for the last two hours'
        ) from None


def wall_of(text: str) -> float:
    """Return the wall seconds of a day or a time as files say it: `2026-03-14`, `2026-03-14 02:14`,
    `2026-03-14T02:14:07.250Z`; without a zone it is UTC. ValueError for anything else."""
    word = text.strip().replace("z", "Z")
    if not _DATE.fullmatch(word):
        raise ValueError(f'"{word}" is no time such as 2026-03-14T02:14:07Z')
    try:
        when = datetime.fromisoformat(word)
    except ValueError:
        raise ValueError(f'"{word}" is no day or time that exists') from None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
