"""Incidents out of a table (CSV), whatever it calls its columns."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from stethoscope.errors import DataError
from stethoscope.specs.incident_columns import field_of, plain_name
from stethoscope.specs.incident_import import assemble
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.specs.incident_import import Imported, Options

_LEAST = frozenset({"title", "summary", "began", "date", "detected", "symptoms", "root_cause"})
"""One of these is needed to make an incident of a row."""


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
    others = []
    for number, cell in enumerate(cells):
        if number not in taken and cell.strip():
            head = heads[number].strip() if number < len(heads) and heads[number].strip() else f"column {number + 1}"
            others.append((head, cell.strip()))
    spelled = {name: heads[number].strip() for name, number in fields.items()}
    whole = "\x1f".join(cell.strip() for cell in cells)
    return assemble(named, others, where, options, whole=whole, spelled=spelled)
