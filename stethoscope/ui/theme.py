"""The only place with colours: tones to styles, by theme, for terminals of 256 colours, of 16, and of none.

In every theme magnitude is one hue from faint to strong, and a second hue is for what is wrong and for nothing else.
Every level also has its sign and its word, so that no theme says more than another.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.color import Color
from rich.style import Style
from textual.theme import Theme

from stethoscope.ui.present.spans import Tone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App


class Palette(NamedTuple):
    """The colours of one theme."""

    name: str
    title: str
    """What it is for, in the list of themes."""
    dark: bool
    ground: tuple[int, int]
    """Background: colour of 256, colour of 16."""
    colours: Mapping[Tone, tuple[int, int, str]]
    """Tone -> colour of 256, colour of 16, attributes; empty for a theme without colours."""


def _heat(many: tuple[int, ...], few: tuple[int, ...]) -> dict[Tone, tuple[int, int, str]]:
    steps = [tone for tone in Tone if tone.name.startswith("HEAT_")]
    return {tone: (one, other, "") for tone, one, other in zip(steps, many, few, strict=True)}


_DARK = Palette("dark", "for dark terminals", True, (233, 0), {
    Tone.NORMAL: (242, 8, ""), Tone.MISSING: (103, 7, ""), Tone.PLANNED: (180, 3, ""), Tone.STALE: (139, 5, ""),
    Tone.WARNING: (214, 11, ""), Tone.LOST: (203, 9, ""), Tone.HUNG: (203, 9, ""), Tone.CRITICAL: (203, 9, ""),
    Tone.PLAIN: (250, 7, ""), Tone.QUIET: (244, 7, ""), Tone.STRONG: (255, 15, "bold"), Tone.RULE: (237, 8, ""),
    Tone.KEY: (110, 12, "bold"), Tone.TITLE: (255, 15, "bold"), Tone.FAINT: (238, 8, ""),
    **_heat((24, 24, 25, 25, 31, 31, 67, 67), (4, 4, 4, 4, 6, 6, 6, 14)),
})  # fmt: skip

_LIGHT = Palette("light", "for light terminals and bright rooms", False, (231, 15), {
    Tone.NORMAL: (243, 8, ""), Tone.MISSING: (61, 4, ""), Tone.PLANNED: (94, 6, ""), Tone.STALE: (96, 5, ""),
    Tone.WARNING: (130, 3, "bold"), Tone.LOST: (124, 1, "bold"), Tone.HUNG: (124, 1, "bold"),
    Tone.CRITICAL: (124, 1, "bold"), Tone.PLAIN: (236, 0, ""), Tone.QUIET: (241, 8, ""), Tone.STRONG: (16, 0, "bold"),
    Tone.RULE: (250, 7, ""), Tone.KEY: (25, 4, "bold"), Tone.TITLE: (16, 0, "bold"), Tone.FAINT: (249, 7, ""),
    **_heat((153, 117, 110, 74, 68, 32, 25, 18), (6, 6, 6, 6, 4, 4, 4, 4)),
})  # fmt: skip

_CONTRAST = Palette("contrast", "high contrast, for poor screens and tired eyes", True, (16, 0), {
    Tone.NORMAL: (250, 7, ""), Tone.MISSING: (189, 7, ""), Tone.PLANNED: (228, 3, "bold"), Tone.STALE: (219, 13, ""),
    Tone.WARNING: (226, 11, "bold"), Tone.LOST: (217, 9, "bold"), Tone.HUNG: (217, 9, "bold"),
    Tone.CRITICAL: (217, 9, "bold reverse"), Tone.PLAIN: (231, 15, ""), Tone.QUIET: (252, 7, ""),
    Tone.STRONG: (231, 15, "bold"), Tone.RULE: (244, 8, ""), Tone.KEY: (159, 14, "bold"),
    Tone.TITLE: (231, 15, "bold"), Tone.FAINT: (246, 8, ""),
    **_heat((33, 39, 45, 51, 87, 123, 159, 195), (4, 4, 12, 12, 6, 6, 14, 14)),
})  # fmt: skip

_SAFE = Palette("safe", "for eyes that do not tell red from green, or blue from yellow", True, (233, 0), {
    Tone.NORMAL: (242, 8, ""), Tone.MISSING: (103, 7, ""), Tone.PLANNED: (187, 3, ""), Tone.STALE: (139, 5, ""),
    Tone.WARNING: (220, 11, ""), Tone.LOST: (202, 9, "bold"), Tone.HUNG: (202, 9, "bold"),
    Tone.CRITICAL: (202, 9, "bold"), Tone.PLAIN: (250, 7, ""), Tone.QUIET: (244, 7, ""),
    Tone.STRONG: (255, 15, "bold"), Tone.RULE: (237, 8, ""), Tone.KEY: (117, 12, "bold"),
    Tone.TITLE: (255, 15, "bold"), Tone.FAINT: (238, 8, ""),
    **_heat((17, 18, 19, 25, 25, 31, 32, 33), (4, 4, 4, 4, 12, 12, 12, 14)),
})  # fmt: skip

_MONO = Palette("mono", "without colours", True, (233, 0), {})

PALETTES: dict[str, Palette] = {palette.name: palette for palette in (_DARK, _LIGHT, _CONTRAST, _SAFE, _MONO)}
NAMES: tuple[str, ...] = (*PALETTES, "ascii")
"""The themes by name; `ascii` is dark with characters that every terminal has."""

_LOUD = (Tone.WARNING, Tone.LOST, Tone.HUNG, Tone.CRITICAL, Tone.STRONG, Tone.TITLE, Tone.KEY)
_DIM = (Tone.NORMAL, Tone.FAINT, Tone.RULE)
"""Without colours, what is healthy still has to step back, and what is wrong to step forward."""


def textual_theme(palette: Palette) -> Theme:
    """Return what Textual's own parts (inputs, scrollbars, notices) are drawn with."""
    shades = ("#121212", "#1c1c1c", "#c6c6c6", "#303030", "#585858", "#ffffff")
    if not palette.dark:
        shades = ("#ffffff", "#eeeeee", "#303030", "#bcbcbc", "#8a8a8a", "#000000")
    ground, surface, text, line, active, strong = shades
    accent = "#87afd7" if palette.dark else "#005faf"
    return Theme(
        name=palette.name,
        primary=accent,
        secondary=accent,
        warning="#ffaf00" if palette.dark else "#af5f00",
        error="#ff5f5f" if palette.dark else "#af0000",
        success=accent,
        accent=accent,
        foreground=text,
        background=ground,
        surface=surface,
        panel=surface,
        dark=palette.dark,
        ansi=True,
        variables={
            "ansi-background": ground,
            "ansi-foreground": text,
            "footer-key-foreground": accent,
            "input-cursor-background": text,
            "input-selection-background": line,
            "scrollbar": line,
            "scrollbar-background": ground,
            "scrollbar-hover": active,
            "scrollbar-active": active,
            "scrollbar-corner-color": ground,
            "scrollbar-background-hover": ground,
            "scrollbar-background-active": ground,
            "border": line,
            "border-blurred": line,
            "block-cursor-foreground": strong,
            "block-cursor-background": line,
            "block-hover-background": surface,
        },
    )


@lru_cache(maxsize=16)
def _styles(name: str, colours: int) -> tuple[list[Style], list[Style], Style]:
    palette = PALETTES[name]
    if not palette.colours:
        return _plain_styles()
    if colours == 0:
        # The terminal's colours are filtered out further on; what is left must be the same in every theme.
        palette = _DARK
    ground = Color.from_ansi(palette.ground[0] if colours >= 256 else palette.ground[1])
    plain, selected = [], []
    for tone in Tone:
        many, few, attributes = palette.colours[tone]
        bold = True if "bold" in attributes else None
        colour = Color.from_ansi(many if colours >= 256 else few)
        dim = True if colours == 0 and tone in _DIM else None
        reverse = True if "reverse" in attributes else None
        plain.append(Style(color=colour, bgcolor=ground, bold=bold, dim=dim, reverse=reverse))
        selected.append(Style(color=colour, bgcolor=ground, bold=True, reverse=None if reverse else True))
    return plain, selected, Style(bgcolor=ground)


def _plain_styles() -> tuple[list[Style], list[Style], Style]:
    plain = [Style(bold=True if tone in _LOUD else None, dim=True if tone in _DIM else None) for tone in Tone]
    return plain, [Style(bold=True, reverse=True) for _ in Tone], Style()


def palette(app: App[object]) -> tuple[list[Style], list[Style], Style]:
    """Return the styles by tone, plain and under the cursor, and that of blank cells, for the app's theme and
    terminal."""
    colours = 0 if app.no_color else 16 if app.console.color_system == "standard" else 256
    return _styles(app.theme if app.theme in PALETTES else _DARK.name, colours)
