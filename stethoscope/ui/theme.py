"""The only place with colours: tones to styles for terminals of 256 colours, of 16, and of none.

Magnitude is one hue from dark to bright; the second hue (orange to red) is for what is wrong and for nothing else.
Blue and orange stay apart for the common colour-vision deficiencies, and every level also has its glyph and its word.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.color import Color
from rich.style import Style
from textual.theme import Theme

from stethoscope.ui.present.spans import Tone

if TYPE_CHECKING:
    from textual.app import App

BACKGROUND = "#121212"
_SURFACE = "#1c1c1c"

THEME = Theme(
    name="stethoscope",
    primary="#5f87af",
    secondary="#87afd7",
    warning="#ffaf00",
    error="#ff5f5f",
    success="#87afd7",
    accent="#87afd7",
    foreground="#c6c6c6",
    background=BACKGROUND,
    surface=_SURFACE,
    panel=_SURFACE,
    dark=True,
    ansi=True,
    variables={
        "ansi-background": BACKGROUND,
        "ansi-foreground": "#c6c6c6",
        "footer-key-foreground": "#87afd7",
        "input-cursor-background": "#c6c6c6",
        "input-selection-background": "#3a3a3a",
        "scrollbar": "#303030",
        "scrollbar-background": BACKGROUND,
        "scrollbar-hover": "#585858",
        "scrollbar-active": "#585858",
        "scrollbar-corner-color": BACKGROUND,
        "scrollbar-background-hover": BACKGROUND,
        "scrollbar-background-active": BACKGROUND,
        "border": "#303030",
        "border-blurred": "#303030",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-background": "#303030",
        "block-hover-background": "#262626",
    },
)

_COLOURS: dict[Tone, tuple[int, int, str]] = {
    # tone: colour of 256, colour of 16, attributes
    Tone.NORMAL: (242, 8, ""),
    Tone.MISSING: (103, 7, ""),
    Tone.PLANNED: (180, 3, ""),
    Tone.STALE: (139, 5, ""),
    Tone.WARNING: (214, 11, ""),
    Tone.LOST: (203, 9, ""),
    Tone.HUNG: (203, 9, ""),
    Tone.CRITICAL: (203, 9, ""),
    Tone.PLAIN: (250, 7, ""),
    Tone.QUIET: (244, 7, ""),
    Tone.STRONG: (255, 15, "bold"),
    Tone.RULE: (237, 8, ""),
    Tone.KEY: (110, 12, "bold"),
    Tone.TITLE: (255, 15, "bold"),
    Tone.FAINT: (238, 8, ""),
    Tone.HEAT_0: (24, 4, ""),
    Tone.HEAT_1: (25, 4, ""),
    Tone.HEAT_2: (25, 4, ""),
    Tone.HEAT_3: (31, 4, ""),
    Tone.HEAT_4: (31, 6, ""),
    Tone.HEAT_5: (67, 6, ""),
    Tone.HEAT_6: (31, 6, ""),
    Tone.HEAT_7: (67, 14, ""),
}


_GROUND = (233, 0)


_DIM = (Tone.NORMAL, Tone.FAINT, Tone.RULE)
"""Without colours, what is healthy still has to step back."""


@lru_cache(maxsize=4)
def _styles(colours: int) -> tuple[list[Style], list[Style], Style]:
    ground = Color.from_ansi(_GROUND[0] if colours >= 256 else _GROUND[1])
    plain, selected = [], []
    for tone in Tone:
        many, few, attributes = _COLOURS[tone]
        bold = True if "bold" in attributes else None
        colour = Color.from_ansi(many if colours >= 256 else few)
        dim = True if colours == 0 and tone in _DIM else None
        plain.append(Style(color=colour, bgcolor=ground, bold=bold, dim=dim))
        selected.append(Style(color=colour, bgcolor=ground, bold=True, reverse=True))
    return plain, selected, Style(bgcolor=ground)


def palette(app: App[object]) -> tuple[list[Style], list[Style], Style]:
    """Return the styles by tone, plain and under the cursor, and that of blank cells, for the app's terminal."""
    return _styles(0 if app.no_color else 16 if app.console.color_system == "standard" else 256)
