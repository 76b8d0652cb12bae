"""Makes Python sources small before they are sent: definitions that nothing reaches, comments and long local names go.

python-minifier is imported only when something is made, not when a console starts with what is kept.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PYNVML_UNUSED = frozenset(
    {"_fmt_", "_errcode_to_string", "__str__", "_extractNVMLErrorsAsClasses", "nvmlErrorString", "nvmlExceptionClass"}
)
"""What pynvml has to show errors and structures to people: the probe looks at numbers."""


def attributes_of(tree: ast.AST, name: str) -> set[str]:
    """Return the attributes that are taken from a variable, or from an attribute, called `name`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            if (isinstance(owner, ast.Name) and owner.id == name) or (
                isinstance(owner, ast.Attribute) and owner.attr == name
            ):
                found.add(node.attr)
    return found


def prune(source: str, wanted: Iterable[str], unused: frozenset[str] = frozenset()) -> str:
    """Return the module with nothing but what `wanted` reaches: imports and calls at the top level stay, definitions
    only if something that stays mentions them. What is called `unused` goes, in classes and with its calls too."""
    tree = ast.parse(source)
    tree.body = [statement for statement in tree.body if not _is_unused(statement, unused)]
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ClassDef):
            kept_members = [member for member in statement.body if not _is_unused(member, unused)]
            statement.body = kept_members or [ast.Pass()]
        elif isinstance(statement, ast.FunctionDef):
            statement.body = [part for line in statement.body for part in _for_linux(line)]
    definitions: dict[str, list[int]] = {}
    kept: set[int] = set()
    pending: list[int] = []
    for position, statement in enumerate(tree.body):
        names = _defined(statement)
        for name in names:
            definitions.setdefault(name, []).append(position)
        if not names and not _is_text(statement):
            pending.append(position)
    for name in wanted:
        pending.extend(definitions.get(name, ()))
    while pending:
        position = pending.pop()
        if position not in kept:
            kept.add(position)
            for name in _mentioned(tree.body[position]):
                pending.extend(definitions.get(name, ()))
    tree.body = [statement for position, statement in enumerate(tree.body) if position in kept]
    return ast.unparse(ast.fix_missing_locations(_without_unused_imports(tree)))


def compact(source: str) -> str:
    """Return the source without comments and docstrings and with short local names; the names that others can see stay.

    It runs on Python 3.6 if the source does: nothing is written in a newer way.
    """
    import python_minifier

    small = python_minifier.minify(
        source, remove_literal_statements=True, hoist_literals=False, rename_globals=False, preserve_shebang=False
    )
    assert isinstance(small, str)
    return small


def reached(name: str, parts: dict[str, str]) -> dict[str, str]:
    """Return the sources of a part and of those that it imports, however far, each after all that it imports."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(parts[name])):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        else:
            imported = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for other in imported:
            if other in parts and other not in found:
                found.update(reached(other, parts))
    return {**found, name: parts[name]}


def _is_unused(statement: ast.stmt, unused: frozenset[str]) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Name) and statement.value.func.id in unused
    return not unused.isdisjoint(_defined(statement))


def _for_linux(statement: ast.stmt) -> list[ast.stmt]:
    """Return what a statement comes to on Linux: of `if sys.platform[:3] == "win"` what stands behind `else`."""
    if isinstance(statement, ast.If) and ast.unparse(statement.test) == "sys.platform[:3] == 'win'":
        return [part for line in statement.orelse for part in _for_linux(line)]
    for field in ("body", "orelse", "finalbody"):
        if lines := getattr(statement, field, None):
            setattr(statement, field, [part for line in lines for part in _for_linux(line)])
    return [statement]


def _without_unused_imports(tree: ast.Module) -> ast.Module:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            statement.names = [
                alias
                for alias in statement.names
                if alias.name == "*" or (alias.asname or alias.name.partition(".")[0]) in names
            ]
    tree.body = [
        statement
        for statement in tree.body
        if not isinstance(statement, ast.Import | ast.ImportFrom) or statement.names
    ]
    return tree


def _defined(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement defines; none for imports, calls and compound statements."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return targets if len(targets) == len(statement.targets) else []
    return []


def _mentioned(statement: ast.stmt) -> set[str]:
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Global):
            names.update(node.names)
    return names


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
