"""Which variables of a function may have one name, because each has come to its end before the other begins.

Fewer names make a smaller text: the compressor sees more that is the same.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_LATER = ast.FunctionDef | ast.Lambda | ast.GeneratorExp
"""What runs when nobody can tell."""


def shared(inside: Iterable[ast.AST], names: Iterable[str], pool: Collection[str]) -> dict[str, str]:
    """Return for each variable of a function, which consists of `inside`, the first name of the pool that no other
    variable has that is needed at the same time."""
    lives = _Lives(inside)
    found: dict[str, str] = {}
    for name in names:
        first, last = lives.of(name)
        taken = {found[other] for other in found if not (lives.of(other)[1] < first or last < lives.of(other)[0])}
        found[name] = next(short for short in pool if short not in taken)
    return found


class _Lives:
    """From where to where each variable is needed, in steps of the text; in a loop that is all of the loop."""

    def __init__(self, inside: Iterable[ast.AST]) -> None:
        self.steps = 0
        self.seen: dict[str, tuple[int, int]] = {}
        self.always: set[str] = set()
        self.loops: list[tuple[int, int]] = []
        for part in inside:
            self._walk(part, later=False)

    def of(self, name: str) -> tuple[int, int]:
        """Return the first and the last step at which a variable is needed."""
        first, last = self.seen[name]
        if name in self.always:
            return 0, self.steps
        # Inner loops come first.
        for begin, end in self.loops:
            if begin <= first <= end or begin <= last <= end:
                first, last = min(first, begin), max(last, end)
        return first, last

    def _walk(self, node: ast.AST, *, later: bool) -> None:
        self.steps += 1
        begin, name = self.steps, _name_in(node)
        if name:
            # All parameters are there at the beginning, be they needed or not.
            first = 0 if isinstance(node, ast.arg) else begin
            self.seen[name] = (self.seen.get(name, (first,))[0], begin)
            # Python forgets what an exception was called at the end of its block.
            if later or isinstance(node, ast.ExceptHandler):
                self.always.add(name)
        for child in _in_order(node):
            self._walk(child, later=later or isinstance(node, _LATER))
        if isinstance(node, ast.For | ast.While):
            self.loops.append((begin, self.steps))


def _name_in(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.FunctionDef | ast.ExceptHandler) else None


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node, what is computed before what it is bound to."""
    return iter([node.value, *node.targets]) if isinstance(node, ast.Assign) else ast.iter_child_nodes(node)
