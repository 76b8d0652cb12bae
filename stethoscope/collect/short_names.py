"""What the modules of a program define, what it is called in the end, and which names have to stay."""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import itertools
import keyword
import string
import types
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

_LETTERS = string.ascii_letters
_LITERAL = 6
"""A constant whose literal has at most so many characters stands where it is used."""
_Key = TypeVar("_Key", bound="Hashable")


class Names:
    """What the modules of a program define, and what it is called in the end."""

    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self.trees = trees
        self.defined = {name: _bound(tree.body) for name, tree in trees.items()}
        self.modules: dict[str, dict[str, str]] = {name: {} for name in trees}
        """Of each module: what it calls others of the program."""
        self.taken: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in trees}
        """Of each module: what it calls things that it takes from others, each a module and a name."""
        for name, tree in trees.items():
            for node in ast.walk(tree):
                self._take_import(name, node)
        outside = _outside(trees)
        attributes = sorted(_attributes(trees) - outside)
        own = {node.name for node in _walk(trees, ast.FunctionDef, ast.ClassDef)}
        self.callable = own - outside
        """Names that nothing but functions of the program has: their keywords are known."""
        keywords: set[str] = set()
        self.fixed: set[str] = set()
        """Parameters that keep their names, because somebody else may use them."""
        for call in _walk(trees, ast.Call):
            (keywords if called(call) in self.callable else self.fixed).update(
                word.arg for word in call.keywords if word.arg and called(call) in own
            )
        keywords -= self.fixed
        self.constants = self._constants()
        uses = self._uses()
        free = self._free()
        shorts = _shorts(free)
        self.attribute = _shared({name: uses["." + name] for name in attributes}, _members(trees), outside)
        keys = [(module, name) for module in trees for name in sorted(self.defined[module])]
        keys = [key for key in keys if key not in self.constants and not is_special(key[1])]
        keys += [("", word) for word in sorted(keywords)]
        letters = (name for name in string.ascii_uppercase + string.ascii_lowercase[::-1] if name not in free)
        pool = itertools.chain(letters, filter(_is_long, shorts))
        self.short = _assigned({key: uses["/".join(key)] for key in keys}, pool)
        self.locals = [*filter(lambda name: len(name) == 1, _shorts(free)), *itertools.islice(_shorts(free), 60, 99)]

    def _take_import(self, module: str, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            found = {alias.asname or alias.name: alias.name for alias in node.names if alias.name in self.trees}
            self.modules[module].update(found)
        elif isinstance(node, ast.ImportFrom) and node.module in self.trees:
            self.taken[module].update((alias.asname or alias.name, (node.module, alias.name)) for alias in node.names)

    def key_of(self, module: str, name: str) -> tuple[str, str] | None:
        """Return module and name of what a name means at the top of a module, None when it is not of the program."""
        return (module, name) if name in self.defined[module] else self.taken[module].get(name)

    def key_at(self, module: str, node: ast.expr) -> tuple[str, str] | None:
        """Return the same for an attribute of a module, however far it leads."""
        if isinstance(node, ast.Attribute) and (owner := self.module_at(module, node.value)):
            return owner, node.attr
        return None

    def module_at(self, module: str, node: ast.expr) -> str | None:
        """Return the module of the program that an expression means."""
        if isinstance(node, ast.Name):
            return self.modules[module].get(node.id)
        if isinstance(node, ast.Attribute) and (owner := self.module_at(module, node.value)):
            return self.modules[owner].get(node.attr)
        return None

    def _constants(self) -> dict[tuple[str, str], ast.Constant]:
        """Return what is set once, to something short."""
        found = {}
        for module, tree in self.trees.items():
            sets = Counter(node.id for node in _walk({module: tree}, ast.Name) if isinstance(node.ctx, ast.Store))
            changed = {name for node in _walk({module: tree}, ast.Global) for name in node.names}
            for statement in tree.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                    (target, *more), value = statement.targets, statement.value
                    if (
                        isinstance(target, ast.Name)
                        and not more
                        and sets[target.id] == 1
                        and target.id not in changed
                        and len(repr(value.value)) <= _LITERAL
                    ):
                        found[module, target.id] = value
        return found

    def _uses(self) -> Counter[str]:
        uses: Counter[str] = Counter()
        for module, tree in self.trees.items():
            for node in ast.walk(tree):
                key = None
                if isinstance(node, ast.Name):
                    key = self.key_of(module, node.id)
                elif isinstance(node, ast.Attribute):
                    uses["." + node.attr] += 1
                    key = self.key_at(module, node)
                elif isinstance(node, ast.keyword):
                    key = ("", str(node.arg))
                if key:
                    uses["/".join(key)] += 1
        return uses

    def _free(self) -> set[str]:
        """Return the names that stay anywhere in the program."""
        free = set(keyword.kwlist) | set(dir(builtins)) | self.fixed
        for module, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and (not self.key_of(module, node.id) or is_special(node.id)):
                    free.add(node.id)
                elif isinstance(node, ast.alias):
                    free.add(node.asname or node.name)
        return free


def _walk(trees: Mapping[str, ast.Module], *kinds: type[ast.AST]) -> Iterator[Any]:
    return (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, kinds))


def _bound(body: Iterable[ast.stmt]) -> set[str]:
    """Return what statements bind in their own namespace, imports apart."""
    found: set[str] = set()
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        pending.extend(ast.iter_child_nodes(node))
    return found


def _attributes(trees: Mapping[str, ast.Module]) -> set[str]:
    """Return the attributes that classes of the program have, or that it sets."""
    found = {node.attr for node in _walk(trees, ast.Attribute) if isinstance(node.ctx, ast.Store)}
    for node in _walk(trees, ast.ClassDef):
        found |= _bound(node.body)
    return {name for name in found if not is_special(name)}


def _members(trees: Mapping[str, ast.Module]) -> list[set[str]]:
    """Return the attributes that each class has; those of all classes are in one set where a class has a base, and
    those that no class is known to have are in every set."""
    classes = list(_walk(trees, ast.ClassDef))
    members = [_bound(one.body).union(_set_on_itself(one)) for one in classes]
    everything: set[str] = set().union(*members)
    if any(one.bases for one in classes):
        members = [everything]
    return [names | (_attributes(trees) - everything) for names in members]


def _set_on_itself(one: ast.ClassDef) -> Iterator[str]:
    stored = (node for node in ast.walk(one) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return (node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self")


def _outside(trees: Mapping[str, ast.Module]) -> set[str]:
    """Return the names that Python has, and those of what the program imports and of its classes."""
    found = {*dir(builtins), *keyword.kwlist}
    things: list[object] = [builtins, io, types]
    for node in _walk(trees, ast.Import, ast.ImportFrom):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        things += [importlib.import_module(name) for name in modules if name not in trees]
    for thing in things:
        found.update(dir(thing))
        for name in dir(thing):
            member = getattr(thing, name, None)
            found.update(dir(member if isinstance(member, type) else type(member)))
    return found


def is_special(name: str) -> bool:
    return name.startswith("_") and name.endswith("_")


def _is_long(name: str) -> bool:
    return len(name) > 1


def _shorts(avoid: set[str]) -> Iterator[str]:
    """Yield names, the shortest first."""
    tails = _LETTERS + string.digits + "_"
    names = itertools.chain(_LETTERS, map("".join, itertools.product(_LETTERS, tails)))
    return (name for name in names if name not in avoid)


def _shared(uses: Mapping[str, int], groups: Sequence[set[str]], avoid: set[str]) -> dict[str, str]:
    """Return a name for each key, the shortest for the one that is used most; keys that no group has both of may get
    the same."""
    found: dict[str, str] = {}
    for key in sorted(uses, key=lambda key: -uses[key]):
        near = set().union(*(group for group in groups if key in group))
        taken = avoid | {found[other] for other in near if other in found}
        found[key] = next(_shorts(taken))
    return found


def _assigned(uses: Mapping[_Key, int], pool: Iterable[str]) -> dict[_Key, str]:
    """Return a name for each key, the shortest for the one that is used most."""
    return dict(zip(sorted(uses, key=lambda key: -uses[key]), pool, strict=False))


def called(call: ast.Call) -> str:
    """Return the last word of what is called."""
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
