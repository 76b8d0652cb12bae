"""What must not be imported where: the part that a static graph cannot see, asked of a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after running `code`."""
    script = f"{code}\nimport sys\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


HEAVY = {"textual", "rich", "asyncssh", "numpy", "msgspec", "yaml", "ClusterShell", "pynvml", "psutil", "asyncio"}


def test_the_command_line_starts_without_anything_heavy() -> None:
    code = "from stethoscope.cli.main import group\nfrom click.testing import CliRunner\n"
    code += "assert CliRunner().invoke(group, ['--help']).exit_code == 0"
    assert modules_after("import click.testing") & HEAVY <= {"asyncio"}
    before = modules_after("import click.testing")
    assert (modules_after(code) - before) & HEAVY == set()


@pytest.mark.parametrize(
    "module", ["cli.watch", "cli.check", "cli.demo", "cli.sim", "cli.lint", "cli.record", "cli.replay"]
)
def test_a_verb_can_show_its_help_without_anything_heavy(module: str) -> None:
    code = f"import stethoscope.{module}"
    assert modules_after(code) & (HEAVY - {"asyncio"}) == set()


def test_the_first_paint_needs_neither_numbers_nor_ssh() -> None:
    assert (
        modules_after("import stethoscope.ui.app") & {"numpy", "asyncssh", "yaml", "msgspec", "ClusterShell"} == set()
    )


def test_the_session_needs_neither_a_screen_nor_ssh() -> None:
    assert modules_after("import stethoscope.session.session") & {"textual", "asyncssh", "pynvml"} == set()


@pytest.mark.parametrize("package", ["analysis", "parse", "collect", "session", "sim"])
def test_nothing_below_the_screens_imports_textual(package: str) -> None:
    code = (
        "import importlib, pkgutil, stethoscope." + package + " as p\n"
        "for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.'):\n"
        "    importlib.import_module(m.name)"
    )
    assert modules_after(code) & {"textual", "pynvml"} == set()
