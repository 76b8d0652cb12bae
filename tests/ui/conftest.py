"""Screens look the same wherever the tests run."""

from __future__ import annotations

import os

# Read when Textual is imported.
os.environ["TEXTUAL_COLOR_SYSTEM"] = "256"
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ.pop("NO_COLOR", None)
