"""Screens look the same wherever the tests run."""

from __future__ import annotations

import os

os.environ["TERM"] = "xterm-256color"
os.environ["TEXTUAL_ANIMATIONS"] = "none"
for name in ("NO_COLOR", "COLORTERM"):
    os.environ.pop(name, None)
