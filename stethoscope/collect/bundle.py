"""Makes one text of several modules that import each other, with short names for all that they define themselves.

What the modules are called is forgotten: what was `files.read_text` in one and `read_text` in the other becomes one
short name. Names that something else could mean stay: those of Python, its library, and what is taken from these.
"""

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
_Function = ast.FunctionDef | ast.Lambda
_Key = TypeVar("_Key", bound="Hashable")


def bundle(stages: Sequence[Sequence[str]], sources: Mapping[str, str], entries: Sequence[str] = ()) -> list[str]:
    """Return a text for each stage: its modules one after the other, each after those that it needs.

    The stages run one after the other in one namespace. `entries` are statements that end them, in the words of
    the stage's last module; names there that no module defines stay. Raises KeyError for a module without a source.
    """
    trees = {name: _prepared(sources[name]) for stage in stages for name in stage}
    for stage, entry in zip(stages, entries, strict=False):
        trees[stage[-1]].body += ast.parse(entry).body
    names = _Names(trees)
    return [_text(names, [(name, trees[name]) for name in stage]) for stage in stages]


def _text(names: _Names, modules: list[tuple[str, ast.Module]]) -> str:
    plain: dict[str, ast.alias] = {}
    stars: list[ast.stmt] = []
    body: list[ast.stmt] = []
    for name, tree in modules:
        _Shortener(names, name).visit(tree)
        for statement in tree.body:
            if isinstance(statement, ast.Import):
                plain.update((alias.asname or alias.name, alias) for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom):
                stars.append(statement)
            else:
                body.append(statement)
    imports: list[ast.stmt] = [ast.Import([plain[name] for name in sorted(plain)])] if plain else []
    return ast.unparse(ast.fix_missing_locations(ast.Module([*stars, *imports, *body], [])))


def _prepared(source: str) -> ast.Module:
    """Return a module without texts that are only for people, and without what it does when it is run as a file."""
    tree = ast.parse(source)
    tree.body = [statement for statement in tree.body if not _is_guard(statement)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            kept = [line for line in node.body if not _is_literal(line)]
            node.body = kept or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    return tree


def _is_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def _is_literal(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _Names:
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
        literals = {node.value for node in _walk(trees, ast.Constant) if isinstance(node.value, str)}
        attributes = sorted(_attributes(trees) - outside - literals)
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
        self.attribute = _assigned({name: uses["." + name] for name in attributes}, _shorts(outside))
        keys = [(module, name) for module in trees for name in sorted(self.defined[module])]
        keys = [key for key in keys if key not in self.constants and not _is_special(key[1])]
        keys += [("", word) for word in sorted(keywords)]
        pool = itertools.chain((name for name in string.ascii_uppercase if name not in free), filter(_is_long, shorts))
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
                if isinstance(node, ast.Name) and (not self.key_of(module, node.id) or _is_special(node.id)):
                    free.add(node.id)
                elif isinstance(node, ast.alias):
                    free.add(node.asname or node.name)
        return free


class _Shortener(ast.NodeTransformer):
    """Gives what is in one module its short names."""

    def __init__(self, names: _Names, module: str) -> None:
        self.names = names
        self.module = module
        self.scope: dict[str, str] | None = None
        """Short names of the function that is looked at, and of all that is inside it; None outside functions."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if self.scope is not None and node.id in self.scope:
            node.id = self.scope[node.id]
            return node
        return self._global(self.names.key_of(self.module, node.id), node)

    def _global(self, key: tuple[str, str] | None, node: ast.expr) -> ast.expr:
        if key is None:
            return node
        if key in self.names.constants:
            return ast.Constant(self.names.constants[key].value)
        context = node.ctx if isinstance(node, ast.Name | ast.Attribute) else ast.Load()
        return ast.Name(self.names.short.get(key, key[1]), context)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        is_local = isinstance(root, ast.Name) and self.scope is not None and root.id in self.scope
        if not is_local and (key := self.names.key_at(self.module, node)):
            return self._global(key, node)
        self.generic_visit(node)
        node.attr = self.names.attribute.get(node.attr, node.attr)
        return node

    def visit_Global(self, node: ast.Global) -> ast.Global:
        node.names = [self.names.short.get((self.module, name), name) for name in node.names]
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        is_own = called(node) in self.names.callable
        self.generic_visit(node)
        if is_own:
            for word in node.keywords:
                word.arg = self.names.short.get(("", word.arg), word.arg) if word.arg else None
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = (self.scope or {}).get(node.arg, node.arg)
        node.annotation = None
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        self.generic_visit(node)
        if node.name:
            scope = self.scope or {}
            node.name = scope.get(node.name) or self.names.short.get((self.module, node.name), node.name)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.bases = [self.visit(base) for base in node.bases]
        for line in node.body:
            if isinstance(line, ast.FunctionDef):
                self._function(line)
                line.name = self.names.attribute.get(line.name, line.name)
            elif isinstance(line, ast.Assign):
                line.value = self.visit(line.value)
                for target in line.targets:
                    assert isinstance(target, ast.Name)
                    target.id = self.names.attribute.get(target.id, target.id)
        node.name = self.names.short.get((self.module, node.name), node.name)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._function(node)
        scope = self.scope or {}
        node.name = scope.get(node.name) or self.names.short.get((self.module, node.name), node.name)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self._function(node)
        return node

    def _function(self, node: _Function) -> None:
        if self.scope is not None:
            self.generic_visit(node)
            return
        arguments = node.args
        arguments.defaults = [self.visit(default) for default in arguments.defaults]
        arguments.kw_defaults = [default and self.visit(default) for default in arguments.kw_defaults]
        inside = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.scope = self._scope_of([arguments, *inside])
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg):
                self.visit_arg(argument)
        if isinstance(node, ast.Lambda):
            node.body, self.scope = self.visit(node.body), None
            return
        body = [self.visit(line) for line in node.body]
        node.body, self.scope = [line for line in body if line is not None] or [ast.Pass()], None
        node.returns = None
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]

    def _scope_of(self, inside: list[ast.AST]) -> dict[str, str]:
        """Return short names for all that a function and those inside it bind."""
        nodes = [node for part in inside for node in ast.walk(part)]
        shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        imported = {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
        bound: Counter[str] = Counter()
        used: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.arg):
                bound[node.arg] += 1
            elif isinstance(node, ast.FunctionDef | ast.ExceptHandler) and node.name:
                bound[node.name] += 1
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in shared:
                bound[node.id] += 1
        for name in imported | self.names.fixed:
            del bound[name]
        for node in nodes:
            key = None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in bound:
                    bound[node.id] += 1
                else:
                    key = self.names.key_of(self.module, node.id)
            elif isinstance(node, ast.Attribute):
                key = self.names.key_at(self.module, node)
            if key:
                used.add(self.names.short.get(key, key[1]))
        scope = {name: self.names.short["", name] for name in sorted(bound) if ("", name) in self.names.short}
        used.update(scope.values(), (self.names.short.get((self.module, name), name) for name in shared))
        rest = {name: uses for name, uses in bound.items() if name not in scope}
        if "self" in rest:
            rest["self"] = 1 << 30
        return {**scope, **_assigned(rest, (name for name in self.names.locals if name not in used))}

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        node.names = [alias for alias in node.names if alias.name not in self.names.trees]
        return node if node.names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module in self.names.trees else node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        target = node.targets[0]
        if self.scope is None and isinstance(target, ast.Name) and (self.module, target.id) in self.names.constants:
            return None
        self.generic_visit(node)
        return node


def called(call: ast.Call) -> str:
    """Return the last word of what is called."""
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


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
    return {name for name in found if not _is_special(name)}


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


def _is_special(name: str) -> bool:
    return name.startswith("_") and name.endswith("_")


def _is_long(name: str) -> bool:
    return len(name) > 1


def _shorts(avoid: set[str]) -> Iterator[str]:
    """Yield names, the shortest first."""
    tails = _LETTERS + string.digits + "_"
    names = itertools.chain(_LETTERS, map("".join, itertools.product(_LETTERS, tails)))
    return (name for name in names if name not in avoid)


def _assigned(uses: Mapping[_Key, int], pool: Iterable[str]) -> dict[_Key, str]:
    """Return a name for each key, the shortest for the one that is used most."""
    return dict(zip(sorted(uses, key=lambda key: -uses[key]), pool, strict=False))
