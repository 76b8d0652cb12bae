"""Calls verbs of `stethoscope kb` as a shell does, on a library of their own."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from stethoscope.cli.kb import command


class Shell:
    """Calls verbs and keeps what the last one said."""

    def __init__(self) -> None:
        self.err = ""

    def __call__(self, *arguments: str, stdin: str = "", status: int = 0) -> str:
        result = CliRunner().invoke(command, list(arguments), input=stdin, standalone_mode=False)
        self.err = result.stderr
        if result.exception is not None:
            raise result.exception
        assert result.return_value == status
        return result.stdout

    def json(self, *arguments: str, stdin: str = "", status: int = 0) -> Any:
        document = json.loads(self(*arguments, "--json", stdin=stdin, status=status))
        assert document["schema"] == f"stethoscope.kb.{arguments[0]}/1"
        return document


def recorded(kb: Shell, title: str = "GPU fell off the bus", *more: str) -> str:
    """Record an incident by hand and return its id."""
    made = kb.json(
        "add", "--no-edit", "--title", title, "--place", "gpu-014/gpu/3", "--symptom", "xid.79", "--cause",
        "gpu_fallen_off_bus", "--component", "gpu", "--began", "2026-03-14T02:14:07Z", *more,
    )  # fmt: skip
    return str(made["incident"]["id"])
