"""What was read, as rows: files, lines, span of time, what could not be read, and what is not among it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.clock import hms, iso
from stethoscope.ui.present.decoded_events import ranks_text
from stethoscope.ui.present.spans import Row, Span, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.logs import Log
    from stethoscope.session.decode import Decoded
    from stethoscope.ui.present.spans import Glyphs

_LABEL = 9
_MOST_TROUBLES = 5
_MOST_RANKS = 100_000
_UNITS = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def read_rows(decoded: Decoded, glyphs: Glyphs, cells: int) -> list[Row]:
    """Return the last block of the answer."""
    log = decoded.log
    parts = [
        f"{len(log.files):,} files" if len(log.files) != 1 else log.files[0].name.rpartition("/")[2],
        f"{log.lines:,} line{'' if log.lines == 1 else 's'}",
        bytes_text(log.bytes),
        span_text(log) or "no times in it",
        f"{log.seconds:.2f} s" if log.seconds else "",
    ]
    rows = _rows("read", f" {glyphs.dot} ".join(filter(None, parts)), cells)
    if decoded.limits:
        rows += _rows("only", decoded.limits, cells)
    troubles = [file for file in log.files if file.trouble]
    for number, file in enumerate(troubles[:_MOST_TROUBLES]):
        rows += _rows("" if number else "not read", f"{file.name}: {file.trouble}", cells, Tone.WARNING)
    if len(troubles) > _MOST_TROUBLES:
        rows += _rows("", f"and {len(troubles) - _MOST_TROUBLES:,} more files", cells, Tone.WARNING)
    for number, absent in enumerate(_absent(log, has_kernel=bool(decoded.kernels))):
        rows += _rows("" if number else "not here", absent, cells)
    return rows


def span_text(log: Log) -> str:
    """Return from when to when the lines are: `2026-03-14 02:00:01 to 02:16:07 UTC`; empty without times."""
    firsts = [file.first_at for file in log.files if file.first_at is not None]
    lasts = [file.last_at for file in log.files if file.last_at is not None]
    if not firsts or not lasts:
        return ""
    first, last = min(firsts), max(lasts)
    end = hms(last) if iso(first)[:10] == iso(last)[:10] else f"{iso(last)[:10]} {hms(last)}"
    return f"{iso(first)[:10]} {hms(first)} to {end} UTC"


def bytes_text(count: int) -> str:
    """Return a size in words: `12.4 MB`."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:,} bytes"


def _absent(log: Log, *, has_kernel: bool) -> Iterator[str]:
    """Yield whose logs would belong to these and are not among them."""
    ranks = {seen.origin.rank for seen in log.seen if seen.origin.rank is not None}
    size = 0
    for event in log.events:
        found = event.fields.get("nranks")
        if isinstance(found, int) and size < found <= _MOST_RANKS:
            size = found
        if event.origin.rank is not None:
            ranks.add(event.origin.rank)
        said = event.fields.get("rank")
        if isinstance(said, int) and event.signature == "nccl.init.complete":
            ranks.add(said)
    absent = [rank for rank in range(size) if rank not in ranks]
    if ranks and absent:
        yield f"{ranks_text(absent)} of {size:,}: no line is known to be theirs"
    if not has_kernel and not any(file.kernel_lines for file in log.files):
        yield "a kernel log: what GPUs, links and disks report of themselves (dmesg -T, journalctl -k)"


def _rows(label: str, text: str, cells: int, tone: Tone = Tone.QUIET) -> list[Row]:
    lines = textwrap.wrap(text, max(20, cells - _LABEL - 2), break_on_hyphens=False)
    return [
        (Span(f"  {'' if number else label:<{_LABEL}}", Tone.QUIET), Span(line, tone))
        for number, line in enumerate(lines)
    ]
