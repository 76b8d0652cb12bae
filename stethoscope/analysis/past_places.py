"""Which devices slow counters are remembered of, and where: a large fleet has half a million of them, with names that
nearly all nodes share."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from stethoscope.analysis.compact import Compact

Places = npt.NDArray[np.int32]

_NOWHERE = np.int32(-(2**31))


class Devices:
    """The devices of one scope, by the numbers of their nodes."""

    def __init__(self) -> None:
        """Know of none yet."""
        self.size = 0
        """How many places there are, also those that have no room yet."""
        self.first = Compact()
        """Wall seconds of the first look at each place, and ..."""
        self.firsts = np.empty(0)
        """... the different ones of those, in their order."""
        self.unsaved: set[int] = set()
        """Nodes whose devices were not kept yet as they stand."""
        self._names: list[tuple[str, ...]] = []
        self._begins = array("i")
        """Place of the first device of each node. The others stand behind it, but for nodes of which some came
        later:"""
        self._apart: dict[int, Places] = {}
        """the places of the devices of those."""
        self._rows = 0
        # Rows of a node stand together, as its places do: it is enough to know by how far each stretch was moved.
        self._stretches = self._moved = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        """Return the memory of what is remembered of each place and row."""
        return self.first.nbytes + self._stretches.nbytes + self._moved.nbytes

    def of(self, node: int) -> tuple[tuple[str, ...], Places]:
        """Return the devices of a node and their places."""
        names = self._names[node] if node < len(self._names) else ()
        begin = self._begins[node] if names else 0
        apart = self._apart.get(node)
        return names, np.arange(begin, begin + len(names), dtype=np.int32) if apart is None else apart

    def put(self, node: int, names: tuple[str, ...], places: list[int]) -> None:
        """Take the devices of a node and their places."""
        missing = node + 1 - len(self._names)
        self._names.extend([()] * missing)
        self._begins.extend([0] * missing)
        begin = places[0] if places else 0
        self._names[node], self._begins[node] = names, begin
        if places == [*range(begin, begin + len(places))]:
            self._apart.pop(node, None)
        else:
            self._apart[node] = np.array(places, np.int32)

    def keep_first(self, first: npt.NDArray[np.float64]) -> None:
        """Take when each place was looked at first."""
        self.first.keep(first)
        self.firsts = np.unique(first[~np.isnan(first)])

    def stand_for(self, places: Places) -> None:
        """Take the place of the device that each row of the table stands for, -1 for none."""
        moved = np.where(places < 0, _NOWHERE, places - np.arange(len(places), dtype=np.int32))
        is_other = np.ones(len(places), np.bool_)
        np.not_equal(moved[1:], moved[:-1], out=is_other[1:])
        self._rows = len(places)
        self._stretches = np.flatnonzero(is_other).astype(np.int32)
        self._moved = moved[self._stretches]

    def rows(self) -> Places:
        """Return what `stand_for` took, as an array of its own."""
        moved = np.repeat(self._moved, np.diff(self._stretches, append=self._rows))
        return np.where(moved == _NOWHERE, np.int32(-1), moved + np.arange(self._rows, dtype=np.int32))
