"""Every theme can be read, and the one for other eyes keeps what matters apart for them."""

from __future__ import annotations

from itertools import combinations

import pytest
from rich.color import Color

from stethoscope.cli.look import THEMES
from stethoscope.ui.present.spans import Tone
from stethoscope.ui.theme import NAMES, PALETTES, Palette

TEXT = (Tone.PLAIN, Tone.STRONG, Tone.TITLE, Tone.KEY, Tone.WARNING, Tone.CRITICAL, Tone.LOST, Tone.HUNG, Tone.PLANNED)
QUIET = (Tone.NORMAL, Tone.QUIET, Tone.MISSING, Tone.STALE)
COLOURED = [palette for palette in PALETTES.values() if palette.colours]

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
EYES = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    "usual": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
}


def linear(number: int) -> tuple[float, float, float]:
    """Return a colour of the 256 in linear RGB."""
    parts = [part / 255 for part in Color.from_ansi(number).get_truecolor()]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def luminance(number: int) -> float:
    red, green, blue = linear(number)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: int, other: int) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def lab(colour: tuple[float, float, float]) -> tuple[float, float, float]:
    red, green, blue = (min(max(part, 0.0), 1.0) for part in colour)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def difference(one: int, other: int, eyes: str) -> float:
    """Return the distance of two colours (CIE 1976) as those eyes see them."""
    seen = []
    for number in (one, other):
        colour = linear(number)
        rows = [sum(factor * part for factor, part in zip(row, colour, strict=True)) for row in EYES[eyes]]
        seen.append(lab((rows[0], rows[1], rows[2])))
    return sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5


def test_the_command_line_knows_the_themes() -> None:
    assert THEMES == NAMES


@pytest.mark.parametrize("palette", COLOURED, ids=lambda palette: palette.name)
def test_text_can_be_read(palette: Palette) -> None:
    ground = palette.ground[0]
    ratios = {tone: contrast(palette.colours[tone][0], ground) for tone in (*TEXT, *QUIET)}
    assert {tone.name: round(ratios[tone], 2) for tone in TEXT if ratios[tone] < 4.5} == {}
    assert {tone.name: round(ratios[tone], 2) for tone in QUIET if ratios[tone] < 3.0} == {}


def test_high_contrast_is_higher() -> None:
    palette = PALETTES["contrast"]
    assert min(contrast(palette.colours[tone][0], palette.ground[0]) for tone in (*TEXT, *QUIET)) >= 7


@pytest.mark.parametrize("palette", COLOURED, ids=lambda palette: palette.name)
def test_what_is_wrong_is_not_a_magnitude(palette: Palette) -> None:
    heat = [tone for tone in Tone if tone.name.startswith("HEAT_")]
    for wrong in (Tone.WARNING, Tone.CRITICAL):
        for tone in (*heat, Tone.NORMAL):
            assert difference(palette.colours[wrong][0], palette.colours[tone][0], "usual") > 25, (wrong, tone)


@pytest.mark.parametrize("eyes", EYES)
def test_the_safe_theme_keeps_levels_apart_for_other_eyes(eyes: str) -> None:
    colours = PALETTES["safe"].colours
    apart = (Tone.NORMAL, Tone.WARNING, Tone.CRITICAL, Tone.HEAT_7, Tone.PLAIN)
    close = {
        (one.name, other.name): round(difference(colours[one][0], colours[other][0], eyes), 1)
        for one, other in combinations(apart, 2)
        if difference(colours[one][0], colours[other][0], eyes) < 18
    }
    assert close == {}


@pytest.mark.parametrize("palette", COLOURED, ids=lambda palette: palette.name)
def test_magnitude_grows_in_one_direction(palette: Palette) -> None:
    heat = [luminance(palette.colours[tone][0]) for tone in Tone if tone.name.startswith("HEAT_")]
    assert heat == sorted(heat, reverse=not palette.dark)
