"""Stacks of the training processes of a node as `py-spy dump` prints them, each behind the number of its rank."""

from __future__ import annotations

from stethoscope.model.report import Item, Report
from stethoscope.parse.stacks import read_stacks
from stethoscope.parse.tools.errors import without_values

TOOL = "py_spy"
_MOST_FRAMES = 12


def read(text: str, *, exit: int = 0, err: str = "") -> Report:  # noqa: A002  the shell's word
    """Return of each process, as `rank/N` or `pid/N`, the function in which its main thread is, the functions above it,
    and the state of the thread; raises ToolError where there is no stack."""
    items: list[Item] = []
    for process in read_stacks(text.encode(), "py_spy"):
        main = process.main
        if main is None or not main.frames:
            continue
        where = f"rank/{process.rank}" if process.rank is not None else f"pid/{process.pid}"
        items += [
            Item(where, "frame", main.frames[0].text),
            Item(where, "stack", " < ".join(frame.text for frame in main.frames[:_MOST_FRAMES])),
            Item(where, "state", main.state),
        ]
        if process.pid is not None:
            items.append(Item(where, "pid", process.pid))
    if not items:
        raise without_values(text, exit=exit, err=err, tool=TOOL)
    return Report(TOOL, tuple(items))
