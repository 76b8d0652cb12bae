"""Makes Python sources small before they are sent, together with `bundle`, which makes their names short.

python-minifier is imported only when something is made, not when a console starts with what is kept.
"""

from __future__ import annotations

import ast


def compact(source: str) -> str:
    """Return the source without comments and blanks that it does not need; the names stay.

    It runs on Python 3.6 if the source does: nothing is written in a newer way.
    """
    import python_minifier

    small = python_minifier.minify(
        source,
        remove_literal_statements=True,
        hoist_literals=False,
        rename_globals=False,
        rename_locals=False,
        preserve_shebang=False,
    )
    assert isinstance(small, str)
    return small


def reached(name: str, parts: dict[str, str]) -> dict[str, str]:
    """Return the sources of a part and of those that it imports at its top, however far, each after all that it
    imports; what it imports in a function comes later."""
    found: dict[str, str] = {}
    for node in ast.parse(parts[name]).body:
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        else:
            imported = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for other in imported:
            if other in parts and other not in found:
                found.update(reached(other, parts))
    return {**found, name: parts[name]}
