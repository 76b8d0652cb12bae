"""What a directory of an operator holds: any part of a playbooks tree, and names in it that mean nothing here."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from stethoscope.errors import DataError, did_you_mean

DIRECTORIES = ("rules", "signatures", "triage", "baselines", "incidents")
FILES = ("metrics.yaml", "metric_names.yaml", "root_causes.yaml", "xid.yaml", "sxid.yaml")
READ = ("rules", "signatures")
"""Directories whose files are read here."""
MOST_ENTRIES = 10_000
_YAML = (".yaml", ".yml")
_MARKDOWN = (".md",)
_LOOKED_AT = 65_536
"""Bytes of a file that are enough to tell what it is."""
_BESIDE = (".md", ".txt", ".json")
"""Files that may stand beside the others."""


@dataclass(slots=True)
class Tree:
    """What was found in one directory."""

    root: Path
    """The directory that the parts stand in: of one that is itself `rules`, the one around it."""
    parts: set[str] = field(default_factory=set)
    """Names of FILES and DIRECTORIES that are there."""
    flat: bool = False
    """Rule files stand in the directory itself."""
    errors: list[DataError] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    """Files that cannot be read at all."""


def look(directory: Path) -> Tree:
    """Return what `directory` holds; what is wrong with names, and files that are none, is in its errors."""
    name = directory.resolve().name
    entries = _entries(directory)
    if isinstance(entries, DataError):
        return Tree(directory, errors=[entries])
    is_part = name in DIRECTORIES and not any(entry.name in (*FILES, *DIRECTORIES) for entry in entries)
    if is_part:
        tree = Tree(directory.resolve().parent if name != "rules" else directory, {name}, flat=name == "rules")
        _files(tree, entries, directory)
        return tree
    tree = Tree(directory)
    tree.flat = bool(entries) and not any(entry.name in (*FILES, *DIRECTORIES) for entry in entries)
    for entry in entries:
        _entry(tree, entry)
    if tree.flat:
        tree.flat = any(entry.name.endswith(_YAML) and entry.path not in tree.broken for entry in entries)
        tree.parts |= {"rules"} if tree.flat else set()
    if not tree.parts and not tree.errors:
        known = ", ".join((*(f"{each}/" for each in DIRECTORIES), *FILES))
        tree.errors.append(
            DataError(f"nothing of a playbooks tree is here: {known}, or rule files", where=str(directory))
        )
    return tree


def _entries(directory: Path) -> list[os.DirEntry[str]] | DataError:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        return DataError(error.strerror or "cannot be read", where=str(directory))
    if len(entries) > MOST_ENTRIES:
        return DataError(f"more than {MOST_ENTRIES:,} files", where=str(directory))
    return [entry for entry in entries if not entry.name.startswith((".", "__"))]


def _entry(tree: Tree, entry: os.DirEntry[str]) -> None:
    name, path = entry.name, Path(entry.path)
    is_directory = entry.is_dir()
    if is_directory and name in DIRECTORIES:
        tree.parts.add(name)
        inner = _entries(path)
        if isinstance(inner, DataError):
            tree.errors.append(inner)
        else:
            _files(tree, inner, path)
    elif is_directory:
        near = _nearest(name, DIRECTORIES)
        if near or not tree.flat:
            tree.errors.append(DataError(f'no part of a playbooks tree is called "{name}"{near}', where=entry.path))
    elif name in FILES:
        tree.parts.add(name)
        _check(tree, path)
    elif name.endswith(_YAML):
        near = _nearest(name, FILES)
        # A file of rules may be called gpu_metrics.yaml.
        if (near and not _has_rules(path)) or not tree.flat:
            known = near or f"; known: {', '.join(FILES)}"
            tree.errors.append(DataError(f'no file of a playbooks tree is called "{name}"{known}', where=entry.path))
            tree.broken.add(entry.path)
        else:
            _check(tree, path)
    elif not name.endswith(_BESIDE) and _nearest(name, (*FILES, *DIRECTORIES)):
        near = _nearest(name, (*FILES, *DIRECTORIES))
        tree.errors.append(DataError(f'no part of a playbooks tree is called "{name}"{near}', where=entry.path))


def _has_rules(path: Path) -> bool:
    """Tell whether a file looks like one of rules, whatever else is wrong with it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return b"rule_id" in file.read(_LOOKED_AT)
    except OSError:
        return False


def _nearest(name: str, known: tuple[str, ...]) -> str:
    stem = name.rsplit(".", 1)[0] if name.endswith(_YAML) else name
    names = {each.rsplit(".", 1)[0]: each for each in known}
    if stem in names and names[stem] != name:
        return f'; did you mean "{names[stem]}"?'
    near = did_you_mean(stem.lower(), names)
    return next((f'; did you mean "{full}"?' for short, full in names.items() if f'"{short}"' in near), "")


def _files(tree: Tree, entries: list[os.DirEntry[str]], directory: Path) -> None:
    for entry in entries:
        if entry.name.endswith(".yml") and directory.name not in ("rules", "incidents"):
            message = f'not read: did you mean "{entry.name[:-4]}.yaml"?'
            tree.errors.append(DataError(message, where=entry.path))
        elif entry.name.endswith(_MARKDOWN if directory.name == "incidents" else _YAML):
            _check(tree, Path(entry.path))
        elif entry.is_dir():
            message = f"a directory inside of {directory.name}/ is not looked into"
            tree.errors.append(DataError(message, where=entry.path))
        elif directory.name == "incidents":
            tree.errors.append(DataError('not read: a file of this directory ends in ".md"', where=entry.path))
        elif not entry.name.endswith(_BESIDE):
            tree.errors.append(DataError('not read: a file of this directory ends in ".yaml"', where=entry.path))


def _check(tree: Tree, path: Path) -> None:
    """Note a file that cannot be read as one."""
    try:
        mode = path.stat().st_mode
        reason = "" if stat.S_ISREG(mode) else "no regular file"
        if not reason:
            with path.open("rb"):
                pass
    except OSError as error:
        reason = error.strerror or "cannot be read"
    if reason:
        tree.broken.add(str(path))
        tree.errors.append(DataError(reason, where=str(path)))
