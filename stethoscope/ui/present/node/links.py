"""The sections of what connects the devices of a node: NVLink and PCIe."""

from __future__ import annotations

from collections import Counter

import numpy as np

from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.ui.present.node.devices import aged, errors, joined, present, said, waiting
from stethoscope.ui.present.node.judge import expectation, of_lost_gpus, same_address
from stethoscope.ui.present.node.rows import Column, device_rows
from stethoscope.ui.present.node.view import Line, Piece, Section, Spot, View
from stethoscope.ui.present.numbers import value_text
from stethoscope.ui.present.spans import Level, Tone, level_tone

_SHORT = {
    "nvlink_crc_errors": "CRC errors", "nvlink_effective_errors": "effective", "nvlink_symbol_errors": "symbol",
}  # fmt: skip
_PCIE_NOW = ("pcie_link_width", "pcie_link_speed")
_BRIDGE = "pcieport"


def nvlink(view: View, level: int) -> Section | None:
    """Return the section of the NVLinks, None on a node without GPUs."""
    if not view.node.gpus:
        return None
    states = present(view, Scope.NVLINK, "nvlink_state")
    count = len(view.snapshot.rows(view.node, Scope.NVLINK))
    if not count:
        unseen = view.node.notes.get("nvml") or view.node.notes.get("traffic")
        summary = f"not seen: {unseen}" if unseen else waiting(view, "gpu", Scope.NVLINK)
    else:
        up = sum(state == 1 for state in states)
        each = Counter(name.partition("/")[0] for name in view.node.devices[Scope.NVLINK])
        of_each = f"{next(iter(each.values()))} of each GPU" if len(set(each.values())) == 1 else ""
        links = f"{up} links up" if up == count else f"{up} of {count} links up"
        traffic = [f"receive {text}" for text in said(view, Scope.GPU, "nvlink_rx")]
        summary = joined(view, [links, of_each, aged(view, "gpu"), errors(view, Scope.NVLINK), *traffic])
    return Section("nvlink", "NVLink", level, summary, _nvlink_body)


def _nvlink_body(view: View) -> list[Line]:
    """Return a line for each GPU with a sign for each link, and the links that are wrong or have counted errors."""
    snapshot, node = view.snapshot, view.node
    table, part = snapshot.tables[Scope.NVLINK], snapshot.rows(node, Scope.NVLINK)
    levels = view.levels(Scope.NVLINK)
    # A lost GPU is told once; its links are quiet.
    quiet = of_lost_gpus(view, Scope.NVLINK)
    levels[list(quiet)] = Level.NORMAL
    state = table.index["nvlink_state"]
    by_gpu: dict[str, list[int]] = {}
    for at, name in enumerate(node.devices.get(Scope.NVLINK, ())):
        by_gpu.setdefault(name.partition("/")[0], []).append(at)
    lines: list[Line] = []
    for gpu, links in by_gpu.items():
        line = [Piece(f"   gpu {gpu:<3}", Tone.QUIET)]
        up = 0
        for at in links:
            row = part[at]
            here = table.reasons[state, row] == Reason.PRESENT
            down = here and table.values[state, row] == 0
            up += int(here and not down)
            mark = Level(int(levels[at])) if levels[at] > Level.MISSING else Level.PLANNED if down else Level.NORMAL
            tone = level_tone(mark) if mark > Level.MISSING else Tone.NORMAL
            sign = view.glyphs.dash if at in quiet else view.glyphs.level(mark)
            line.append(Piece(sign, tone, Spot("nvlink", Scope.NVLINK, "nvlink_state", at)))
        speed = [
            f"{value_text(snapshot.catalogue['nvlink_speed'], value)} each"
            for value in {table.get("nvlink_speed", part[at]) for at in links}
            if not isinstance(value, Missing)
        ]
        words = joined(view, [f"{up} of {len(links)} up", *speed[:1]])
        lines.append(
            (*line, Piece(f"  {words}", Tone.QUIET if all(levels[at] <= Level.MISSING for at in links) else Tone.PLAIN))
        )
    counted = np.zeros(len(part), dtype=bool)
    for name in table.counters:
        counted |= table.totals[table.counter_index[name], part.start : part.stop] > 0
    links_with = np.flatnonzero(counted | (levels > Level.MISSING)).tolist()
    if links_with:
        columns = [Column(name, 12, _SHORT.get(name)) for name in table.counters]
        lines += [(), *device_rows(view, "nvlink", Scope.NVLINK, links_with, columns, head="link", name_cells=8)]
    return lines


def pcie(view: View, level: int) -> Section:
    """Return the section of the PCIe links."""
    count = len(view.snapshot.rows(view.node, Scope.PCIE))
    if not count:
        return Section("pcie", "PCIe", level, waiting(view, "pcie", Scope.PCIE), lambda _: [])
    table, part = view.snapshot.tables[Scope.PCIE], view.snapshot.rows(view.node, Scope.PCIE)
    here = slice(part.start, part.stop)
    full = np.ones(count, dtype=bool)
    for now, most in (("pcie_link_width", "pcie_max_link_width"), ("pcie_link_speed", "pcie_max_link_speed")):
        with np.errstate(invalid="ignore"):
            full &= ~(table.values[table.index[now], here] < table.values[table.index[most], here])
    links = f"{count} links at their maximum" if full.all() else f"{int(full.sum())} of {count} links at their maximum"
    moving = errors(view, Scope.PCIE)
    return Section(
        "pcie",
        "PCIe",
        level,
        joined(view, [links, aged(view, "pcie"), "no AER errors" if moving.startswith("no") else moving]),
        _pcie_body,
    )


def _pcie_body(view: View) -> list[Line]:
    names = view.node.devices[Scope.PCIE]
    levels = view.levels(Scope.PCIE)
    bridges = [
        at
        for at, name in enumerate(names)
        if view.node.about.get((Scope.PCIE, name), {}).get("driver") == _BRIDGE and levels[at] <= Level.MISSING
    ]
    hidden = set() if view.all_open else set(bridges)
    devices = [at for at in range(len(names)) if at not in hidden]
    columns = [
        Column("pcie_link_speed", 10, "now"), Column("pcie_link_width", 5, ""),
        Column("pcie_max_link_speed", 10, "most"), Column("pcie_max_link_width", 5, ""),
        Column("pcie_aer_correctable", 11, "corrected"), Column("pcie_aer_nonfatal", 10, "nonfatal"),
        Column("pcie_aer_fatal", 7, "fatal"),
    ]  # fmt: skip

    def note(at: int) -> str:
        name = view.node.devices[Scope.PCIE][at]
        low = [one for one in _PCIE_NOW if (Scope.PCIE, one, at) in view.marks]
        expected = expectation(view, Scope.PCIE, low[0], at) if low else None
        should = (
            ""
            if expected is None
            else (f"{value_text(view.snapshot.catalogue[low[0]], expected.value)} on {expected.source}")
        )
        return joined(view, [what_is_at(view, name), should])

    lines = device_rows(view, "pcie", Scope.PCIE, devices, columns, head="address", name_cells=13, note=note)
    if hidden:
        lines.append((Piece(f"   and {len(hidden)} bridges with nothing wrong", Tone.NORMAL),))
    return lines


def what_is_at(view: View, address: str) -> str:
    """Return which GPU or port has this PCI address, else the driver of the device."""
    for gpu in view.node.gpus:
        if same_address(gpu.pci, address):
            return f"gpu/{gpu.index}"
    for port in view.node.ports:
        if same_address(port.pci, address):
            return f"ib/{port.device}"
    about = view.node.about.get((Scope.PCIE, address), {})
    return " ".join(word for word in (about.get("driver", ""), about.get("model", "")) if word)
