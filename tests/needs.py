"""What tests need of the machine: where it is missing they skip with a reason, or fail where the tools are promised."""

from __future__ import annotations

import os
import shutil

import pytest


def tool(*names: str) -> str:
    """Return the path of the first of these programs that is there; without any, skip, or fail when
    STETHOSCOPE_REQUIRE_TOOLS is 1."""
    for name in names:
        path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
        if path:
            return path
    missing(f"{' or '.join(names)} is not installed")
    raise AssertionError


def missing(reason: str) -> None:
    """Skip the test for `reason`, or fail it where all tools are promised."""
    if os.environ.get("STETHOSCOPE_REQUIRE_TOOLS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
