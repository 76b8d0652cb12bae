"""Incidents out of a table (CSV), whatever it calls its columns."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.errors import DataError
from stethoscope.specs.incident_columns import field_of, plain_name
from stethoscope.specs.incident_import import STAGES, assemble
from stethoscope.specs.incident_words import is_day_first
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.specs.incident_import import Imported, Options

_LEAST = frozenset({"title", "summary", "began", "date", "detected", "symptoms", "root_cause"})
"""One of these is needed to make an incident of a row."""
_DATES = ("date", *STAGES)
_SEVERAL = {"tags": ", ", "nodes": ", ", "link": " ", "component": ", ", "notes": "\n\n"}
"""Fields that several columns of one name may make together -> what stands between them."""


def read_table(text: str, where: str, options: Options) -> list[Imported]:
    """Return the incidents of a CSV table, one a row; its first row has the heads of the columns.

    DataError for a table without a column that is understood, or that is none.
    """
    head = text.lstrip("\n").split("\n", 1)[0]
    delimiter = max(",;\t|", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        # A quoted cell may go over many lines: where a row begins is behind the end of the one before.
        begin = 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((begin, cells))
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"no table: {error}", where=f"{where}:{reader.line_num}") from None
    if not rows:
        raise DataError("an empty table", where=where)
    heads = rows[0][1]
    fields = _fields(heads, options, where)
    if not _LEAST & set(fields):
        names = ", ".join(clean(head, 30) for head in heads[:8])
        raise DataError(f"no column is understood ({names}): say which is which with --column title=NAME", where=where)
    if options.day_first is None:
        # One date that can be only one day says how all of its table are meant.
        dates = [
            cells[fields[name]] for _, cells in rows[1:] for name in _DATES if fields.get(name, 10**9) < len(cells)
        ]
        options = replace(options, day_first=is_day_first(dates))
    return [_of_row(heads, fields, cells, f"{where}:{line}", options) for line, cells in rows[1:]]


def _fields(heads: Sequence[str], options: Options, where: str) -> dict[str, int]:
    """Return field -> number of its column."""
    found: dict[str, int] = {}
    for name, head in options.columns.items():
        wanted = plain_name(head)
        number = next((number for number, one in enumerate(heads) if plain_name(one) == wanted), None)
        if number is None:
            names = ", ".join(clean(one, 30) for one in heads[:12])
            raise DataError(f'no column is called "{clean(head, 40)}": there are {names}', where=f"{where}:1")
        found[name] = number
    summaries = [number for number, head in enumerate(heads) if field_of(head) == "summary"]
    if "title" not in options.columns and not any(field_of(head) == "title" for head in heads) and len(summaries) > 1:
        # Trackers call the title `Summary`, and have a `Description` beside it.
        short = next((number for number in summaries if plain_name(heads[number]) == "summary"), summaries[0])
        found["title"] = short
    for number, head in enumerate(heads):
        name = field_of(head)
        if name and number not in found.values():
            found.setdefault(name, number)
    return found


def _of_row(
    heads: Sequence[str], fields: Mapping[str, int], cells: Sequence[str], where: str, options: Options
) -> Imported:
    named = {name: cells[number].strip() for name, number in fields.items() if number < len(cells)}
    taken = set(fields.values())
    again = {plain_name(heads[fields[name]]): name for name in _SEVERAL if name in fields}
    others = []
    for number, cell in enumerate(cells):
        name = again.get(plain_name(heads[number]), "") if number < len(heads) else ""
        if number not in taken and cell.strip() and name:
            # A tracker writes each label, and each comment, in a column of the same name.
            named[name] = f"{named[name]}{_SEVERAL[name]}{cell.strip()}" if named.get(name) else cell.strip()
        elif number not in taken and cell.strip():
            head = heads[number].strip() if number < len(heads) and heads[number].strip() else f"column {number + 1}"
            others.append((head, cell.strip()))
    spelled = {name: heads[number].strip() for name, number in fields.items()}
    whole = "\x1f".join(cell.strip() for cell in cells)
    return assemble(named, others, where, options, whole=whole, spelled=spelled)
