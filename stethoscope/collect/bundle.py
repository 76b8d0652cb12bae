"""Makes one text of several modules that import each other, with short names for all that they define themselves.

What the modules are called is forgotten: what was `files.read_text` in one and `read_text` in the other becomes one
short name. Names that something else could mean stay: those of Python, its library, and what is taken from these.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from stethoscope.collect.lifetimes import shared
from stethoscope.collect.short_names import Names, called

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Function = ast.FunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def bundle(stages: Sequence[Sequence[str]], sources: Mapping[str, str], entries: Sequence[str] = ()) -> list[str]:
    """Return a text for each stage: its modules one after the other, each after those that it needs.

    The stages run one after the other in one namespace. `entries` are statements that end them, in the words of
    the stage's last module; names there that no module defines stay. Raises KeyError for a module without a source.
    """
    trees = {name: _prepared(sources[name]) for stage in stages for name in stage}
    for stage, entry in zip(stages, entries, strict=False):
        trees[stage[-1]].body += ast.parse(entry).body
    names = Names(trees)
    known: set[str] = set()
    return [_text(names, [(name, trees[name]) for name in stage], known) for stage in stages]


def _text(names: Names, modules: list[tuple[str, ast.Module]], known: set[str]) -> str:
    """Return the text of a stage; `known` is what those before it import."""
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
    fresh = [plain[name] for name in sorted(plain) if name not in known]
    known.update(plain)
    imports: list[ast.stmt] = [ast.Import(fresh)] if fresh else []
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


class _Shortener(ast.NodeTransformer):
    """Gives what is in one module its short names."""

    def __init__(self, names: Names, module: str) -> None:
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
        apart = {target for node in nodes if isinstance(node, _Comprehension) for target in _targets(node)}
        outer = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        imported = {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
        bound: dict[str, None] = {}
        used: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.arg):
                bound[node.arg] = None
            elif isinstance(node, ast.FunctionDef | ast.ExceptHandler) and node.name:
                bound[node.name] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in apart:
                bound[node.id] = None
        for name in imported | outer | self.names.fixed:
            bound.pop(name, None)
        for node in nodes:
            key = None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                key = None if node.id in bound else self.names.key_of(self.module, node.id)
            elif isinstance(node, ast.Attribute):
                key = self.names.key_at(self.module, node)
            if key:
                used.add(self.names.short.get(key, key[1]))
        scope = {name: self.names.short["", name] for name in sorted(bound) if ("", name) in self.names.short}
        used.update(scope.values(), (self.names.short.get((self.module, name), name) for name in outer))
        # In the order in which they come, so that functions that begin alike look alike to the compressor.
        rest = [name for name in bound if name not in scope]
        return {**scope, **shared(inside, rest, [name for name in self.names.locals if name not in used])}

    def _comprehension(self, node: _Comprehension) -> _Comprehension:
        """Give what a comprehension binds names of its own: those that nothing in it has."""
        if self.scope is None:
            self.generic_visit(node)
            return node
        outer, first = self.scope, node.generators[0]
        own = list(dict.fromkeys(target.id for target in _targets(node)))
        iterable, first.iter = self.visit(first.iter), ast.Constant(None)
        used = {self._name_now(part) for part in ast.walk(node) if not (isinstance(part, ast.Name) and part.id in own)}
        self.scope = {**outer, **dict(zip(own, (name for name in self.names.locals if name not in used), strict=False))}
        self.generic_visit(node)
        self.scope, first.iter = outer, iterable
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def _name_now(self, node: ast.AST) -> str:
        """Return the short name that a name, a parameter or something of a module has where it stands."""
        scope, key = self.scope or {}, None
        name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
        if isinstance(node, ast.Name):
            key = self.names.key_of(self.module, name)
        elif isinstance(node, ast.Attribute):
            key = self.names.key_at(self.module, node)
        return scope.get(name) or (self.names.short.get(key, key[1]) if key else name)

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


def _targets(node: _Comprehension) -> list[ast.Name]:
    """Return the names that a comprehension binds, in their order."""
    parts = [part for generator in node.generators for part in ast.walk(generator.target)]
    return [part for part in parts if isinstance(part, ast.Name)]
