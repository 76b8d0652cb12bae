"""Which variables get one name."""

from __future__ import annotations

import ast
import textwrap

import pytest

from stethoscope.collect.lifetimes import shared


def names_of(source: str) -> dict[str, str]:
    """Return the short names of a function's variables, in the order in which they come."""
    function = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(function, ast.FunctionDef)
    inside: list[ast.AST] = [function.args, *function.body]
    bound: dict[str, None] = {}
    for part in inside:
        for node in ast.walk(part):
            if isinstance(node, ast.arg):
                bound[node.arg] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound[node.id] = None
            elif isinstance(node, ast.ExceptHandler) and node.name:
                bound[node.name] = None
    return shared(inside, bound, list("abcdefgh"))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x):\n y = x + 1\n return y", "aa"),
        ("def f(x):\n y = x + 1\n return y + x", "ab"),
        # Parameters are all there at the beginning.
        ("def f(x, y):\n return 1", "ab"),
        # In a loop everything is needed again.
        ("def f(x):\n while x:\n  y = x\n  z = y\n return 1", "abc"),
        ("def f(x):\n for y in x:\n  y.a()\n z = 1\n return z", "aba"),
        ("def f(x):\n for y in x:\n  for z in y:\n   w = z\n return 1", "abcd"),
        # What runs later needs what it names for as long as anything does.
        ("def f(x):\n y = lambda: x\n z = 1\n return z, y()", "abc"),
        ("def f(x):\n y = (e for e in [1] if x)\n z = 1\n return y, z", "abcd"),
        ("def f(x):\n y = [1 for _ in x]\n return y", "aab"),
        # Python forgets the name of an exception.
        ("def f(x):\n try:\n  y = x\n except OSError as e:\n  return e\n z = 1\n return z", "abaa"),
        ("def f(x):\n try:\n  y = x\n finally:\n  x.a()\n return y", "ab"),
        ("def f(x):\n x.a, y = x, 1\n return y", "aa"),
        ("def f(x):\n y, x.a = 1, x\n return y", "ab"),
    ],
)  # fmt: skip
def test_names(source: str, names: str) -> None:
    assert "".join(names_of(source).values()) == names
