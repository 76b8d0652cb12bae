"""Writes to the terminal only the cells that changed.

Textual redraws a whole span of a line when a cell of it changes, each run of text with its full set of attributes. Over
a slow link that is most of what is sent. Here the last picture is kept, cell by cell, and only the difference goes out.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.style import Style
    from textual.strip import Strip

Look = tuple[str, str, str]
"""Codes of the attributes, the foreground and the background of a cell."""
Cell = tuple[str, Look]
"""Text of a cell (empty for the right half of a wide character) and its look."""
_PLAIN: Look = ("", "39", "49")

_NEAR = 3
"""Unchanged cells up to this many are written again rather than jumped over."""


class Picture:
    """What the terminal shows, as far as it was drawn here."""

    def __init__(self) -> None:
        """Start knowing nothing: everything is drawn."""
        self._lines: dict[int, list[Cell | None]] = {}
        self._drawn: dict[int, dict[int, tuple[Strip, int]]] = {}
        """By line and column: strips that were drawn after everything else on their line changed."""
        self._looks: dict[tuple[Style, ColorSystem], Look] = {}

    def forget(self) -> None:
        """Draw everything again: the terminal was resized, cleared, or written to by someone else."""
        self._lines.clear()
        self._drawn.clear()

    def draw(self, x: int, y: int, cells: int, strip: Strip, system: ColorSystem) -> str:
        """Return what to send so that the first `cells` of `strip` stand at column `x` of line `y`."""
        drawn = self._drawn.setdefault(y, {})
        last = drawn.get(x)
        if last is not None and last[0] is strip and last[1] == cells:
            return ""
        # What was drawn on this line before may be covered by this strip: its cells are compared again next time.
        drawn.clear()
        drawn[x] = (strip, cells)
        return self._difference(self._lines.setdefault(y, []), x, y, self._explode(strip, cells, system))

    def _difference(self, line: list[Cell | None], x: int, y: int, cells: list[Cell]) -> str:
        end = x + len(cells)
        if len(line) < end:
            line += [None] * (end - len(line))
        before = line[x:end]
        if before == cells:
            return ""
        changed = [place for place, (was, cell) in enumerate(zip(before, cells, strict=True), x) if was != cell]
        out: list[str] = []
        look = _PLAIN
        at: int | None = None
        for place in _bridged(changed, cells, x):
            cell = cells[place - x]
            line[place] = cell
            if at is None:
                out.append(f"\x1b[{y + 1};{place + 1}H")
            elif at != place:
                # Absolute, so that a character that the terminal draws wider or narrower spoils nothing after it.
                out.append(f"\x1b[{place + 1}G")
            if cell[1] != look:
                out.append(_turn(look, cell[1]))
                look = cell[1]
            out.append(cell[0])
            at = place + 1
        if look != _PLAIN:
            out.append("\x1b[m")
        return "".join(out)

    def _explode(self, strip: Strip, limit: int, system: ColorSystem) -> list[Cell]:
        cells: list[Cell] = []
        for text, style, _ in strip:
            look = self._look(style, system) if style is not None else _PLAIN
            if text.isascii() and text.isprintable():
                cells += zip(text, repeat(look))
                continue
            for character in text:
                size = _SIZES.get(character)
                if size is None:
                    size = _size(character)
                if size == 1:
                    cells.append((character, look))
                    continue
                # The last gate: whatever a widget was given, no control character is ever sent to the terminal.
                if size < 0:
                    continue
                if size == 0:
                    if cells:
                        # A combining mark belongs to the character before it.
                        index = len(cells) - 1 if cells[-1][0] else max(0, len(cells) - 2)
                        cells[index] = (cells[index][0] + character, cells[index][1])
                    continue
                cells += ((character, look), ("", look))
        if len(cells) > limit:
            cells = cells[:limit]
            if cells and cell_len(cells[-1][0]) == 2:
                cells[-1] = (" ", cells[-1][1])
        return cells

    def _look(self, style: Style, system: ColorSystem) -> Look:
        key = (style, system)
        look = self._looks.get(key)
        if look is None:
            attributes = [code for name, code in _ATTRIBUTES if getattr(style, name)]
            colours = [
                ";".join(colour.downgrade(system).get_ansi_codes(foreground=foreground))
                if colour is not None
                else default
                for colour, foreground, default in ((style.color, True, "39"), (style.bgcolor, False, "49"))
            ]
            look = self._looks[key] = (";".join(attributes), colours[0], colours[1])
        return look


_ATTRIBUTES = (
    ("bold", "1"),
    ("dim", "2"),
    ("italic", "3"),
    ("underline", "4"),
    ("blink", "5"),
    ("reverse", "7"),
    ("strike", "9"),
)


_SIZES: dict[str, int] = {}
"""Cells of each character that was drawn, -1 for one that is never drawn."""
_MOST_SIZES = 4096


def _size(character: str) -> int:
    if len(_SIZES) >= _MOST_SIZES:
        _SIZES.clear()
    size = _SIZES[character] = cell_len(character) if character.isprintable() else -1
    return size


def _turn(old: Look, new: Look) -> str:
    """Return the shortest sequence from one look to another."""
    codes = []
    if old[0] != new[0]:
        if old[0]:
            # Attributes can only be taken back all together, and the colours with them.
            codes.append("0")
            old = _PLAIN
        codes.append(new[0])
    codes += [after for before, after in zip(old[1:], new[1:], strict=True) if before != after]
    return f"\x1b[{';'.join(code for code in codes if code)}m"


def _bridged(changed: list[int], cells: list[Cell], x: int) -> Iterable[int]:
    """Yield the places to write: the changed ones, short unchanged gaps between them, and whole wide characters."""
    last: int | None = None
    for place in changed:
        if not cells[place - x][0] and place > x and last != place - 1:
            place -= 1
        if last is not None and place <= last:
            continue
        if last is not None and place - last - 1 <= _NEAR:
            yield from range(last + 1, place)
        yield place
        last = place
        if last + 1 - x < len(cells) and not cells[last + 1 - x][0]:
            last += 1
            yield last


class Difference(CompositorUpdate):
    """An update of Textual's compositor, sent as its difference to what the terminal already shows."""

    def __init__(self, update: CompositorUpdate, picture: Picture) -> None:
        """Wrap `update`; nothing is drawn until Textual asks for it."""
        self._update = update
        self._picture = picture

    def render_segments(self, console: Console) -> str:
        """Return the bytes for the terminal."""
        update, picture = self._update, self._picture
        system = console._color_system or ColorSystem.EIGHT_BIT
        if system is ColorSystem.TRUECOLOR:
            # All colours of the theme are among the 256, and their codes are half as long.
            system = ColorSystem.EIGHT_BIT
        if isinstance(update, LayoutUpdate):
            # A new layout is drawn whole: that also heals what other programs wrote over the screen.
            picture.forget()
            return "".join(
                self._line(update.region.x, y, strips, system)
                for y, strips in enumerate(update.strips, update.region.y)
            )
        if isinstance(update, ChopsUpdate):
            return "".join(self._chops(update, system))
        picture.forget()
        return update.render_segments(console)

    def _line(self, x: int, y: int, strips: Iterable[Strip], system: ColorSystem) -> str:
        out = []
        for strip in strips:
            out.append(self._picture.draw(x, y, strip.cell_length, strip, system))
            x += strip.cell_length
        return "".join(out)

    def _chops(self, update: ChopsUpdate, system: ColorSystem) -> Iterable[str]:
        for y, first, last in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is None or x > last or end <= first:
                    continue
                yield self._picture.draw(x, y, min(end, last) - x, strip, system)
