"""How a console looks and makes itself heard, and where its incidents are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """What the user chose on the command line or in the settings."""

    ascii_only: bool = False
    theme: str = "dark"
    """One of ui.theme.NAMES."""
    metric: str | None = None
    """Metric of the fleet screen to start with."""
    bell: bool = True
    """Ring the terminal's bell when a P0 is found."""
    title: bool = True
    """Say in the terminal's title what was found."""
    mouse: bool = True
    """Take clicks and the wheel; the terminal's own marking of text then needs the shift key."""
    incidents: str | None = None
    """Directory of the incidents; None for that of the settings, on a simulated fleet one apart."""
