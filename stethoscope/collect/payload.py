"""What is sent to a node: the command line that finds a Python there, the parts of the probe, and what its NVML child
reaches of pynvml.

`python -m stethoscope.collect.payload` makes the payload once, so that the first console need not, and prints sizes.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import re
import sys
import zlib
from pathlib import Path

from stethoscope import paths
from stethoscope.model.wire import sentinel

_BOOTSTRAP = (
    "import os,sys,zlib;"
    'f=open(0,"rb",0,closefd=False);'
    "n=int(f.readline()or os._exit(0));"
    "b=bytearray();"
    "[b.extend(f.read(n-len(b))or os._exit(0))for _ in iter(lambda:len(b)<n,False)];"
    "d=zlib.decompress(b).partition(bytes([1]));"
    "p=d[0].decode().split(chr(0));"
    '[exec(compile(s,m+".py","exec"),vars(sys.modules.setdefault(m,type(sys)(m))))for m,s in zip(p[::2],p[1::2])];'
    "sys.modules[p[-2]].main(d[2])"
)
"""Reads the payload unbuffered, so that the control lines behind it stay in the pipe; makes a module of each part of
the probe, one after the other, and runs the last with what is for the NVML child."""

_PLACES = (
    "python3 /usr/bin/python3 /usr/local/bin/python3 /usr/libexec/platform-python "
    + " ".join(f"python3.{minor} /usr/bin/python3.{minor} /usr/local/bin/python3.{minor}" for minor in range(13, 5, -1))
    + " /opt/python3/bin/python3 /opt/*/bin/python3 /opt/*/*/bin/python3"
)

# For any POSIX sh, inside single quotes: no single quote, backslash, newline or exclamation mark. $1 is the bootstrap,
# $2 the nonce, $3 the tick.
_FINDER = (
    f"for p in {_PLACES}; do "
    'command -v "$p" >/dev/null 2>&1 || continue; '
    '"$p" -I -S -c "import sys,zlib;sys.exit(sys.version_info<(3,6))" </dev/null >/dev/null 2>&1 || continue; '
    'exec "$p" -I -S -c "$1" stethoscope-probe "$2" "$3"; '
    "done; "
    # Without Python, sh takes over: it skips what was sent for Python, says so, and reads a script. dd takes no byte
    # too many from the pipe, which head may do.
    "for p in dd grep date sleep tail; do "
    'command -v "$p" >/dev/null 2>&1 || { echo "$4 no-python"; exit 127; }; '
    "done; "
    'IFS= read -r n && dd bs=1 count="$n" >/dev/null 2>&1; '
    'echo "$4 no-python sh"; '
    "IFS= read -r n || exit 0; "
    's=$(dd bs=1 count="$n" 2>/dev/null); '
    'set -- "$2" "$3"; eval "$s"'
)

_VERSION = b"2"
"""Grows when the form of the payload changes, so that an older cache is not taken for a newer one."""


def command(nonce: str, tick_s: float) -> str:
    """Return the command line that starts the probe from any login shell (sh, bash, dash, tcsh, fish).

    Without a Python of at least 3.6 it prints the sentinel followed by ` no-python sh` and takes what `shell.payload`
    makes, or, where that cannot run, by ` no-python`, and exits 127. Raises ValueError
    for a nonce that is not 1 to 64 letters and digits, or a tick outside 0.2 s to an hour.
    """
    if not re.fullmatch(r"[A-Za-z0-9]{1,64}", nonce):
        raise ValueError("a nonce consists of 1 to 64 letters and digits")
    if not 0.2 <= tick_s <= 3600:
        raise ValueError("a tick lasts from 0.2 s to an hour")
    return f"exec sh -c '{_FINDER}' sh '{_BOOTSTRAP}' {nonce} {tick_s:g} '{sentinel(nonce)}'"


def payload() -> bytes:
    """Return what is written to the probe's standard input before any control line: a line with the length, then what
    `build` makes.

    It is made once and kept in the cache; a cache that is broken or cannot be written costs nothing but time.
    """
    parts = {file.stem: file.read_bytes() for file in sorted(paths.bundled("probes").glob("*.py"))}
    pynvml = _pynvml_source()
    named = [content for name, source in parts.items() for content in (name.encode(), source)]
    digest = hashlib.sha256(b"\0".join((_VERSION, sys.version.encode(), *named, pynvml))).hexdigest()
    kept = paths.cache_dir() / "payload" / f"{digest}.bin"
    blob = _read_kept(kept)
    if blob is None:
        blob = build({name: source.decode() for name, source in parts.items()}, pynvml.decode())
        with contextlib.suppress(OSError):  # then it is made again at the next start
            paths.write_private(kept, hashlib.sha256(blob).digest() + blob)
    return b"%d\n%s" % (len(blob), blob)


def build(parts: dict[str, str], pynvml: str) -> bytes:
    """Return the payload of the probe's parts, their sources by name, and of pynvml's source.

    Compressed are, with a byte of 1 between: what the probe runs, name and source of each part that `stream` reaches,
    those that others import before them, so that it comes last, with NULs between; and what the probe hands on to its
    NVML child, the source of `nvml_child`, a NUL, and what that reaches of pynvml, or nothing without pynvml.
    """
    probe = [text for name, tree in _reached("stream", parts).items() for text in (name, _compact(tree))]
    child = []
    if pynvml:
        tree = ast.parse(parts["nvml_child"])
        child = [_compact(tree), prune(pynvml, attributes_of(tree, "nvml"))]
    return zlib.compress("\1".join(map("\0".join, (probe, child))).encode(), 9)


def _reached(name: str, parts: dict[str, str]) -> dict[str, ast.Module]:
    """Return the trees of a part and of those that it imports, however far, each after all that it imports."""
    tree = ast.parse(parts[name])
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        else:
            imported = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for other in imported:
            if other in parts:
                found.update(_reached(other, parts))
    return {**found, name: tree}


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


def prune(source: str, wanted: set[str]) -> str:
    """Return the module with nothing but what `wanted` reaches: imports and calls at the top level stay, definitions
    only if something that stays mentions them."""
    tree = ast.parse(source)
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
    return _compact(tree)


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


def _compact(tree: ast.Module) -> str:
    """Return the source without comments and docstrings, indented by one blank a level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            body = [statement for statement in node.body if not _is_text(statement)]
            node.body = body or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    # No line begins inside a string: texts of several lines are written with escapes.
    return re.sub("^(?:    )+", lambda match: " " * (len(match.group()) // 4), ast.unparse(tree), flags=re.MULTILINE)


def _pynvml_source() -> bytes:
    """Return the source of the installed pynvml, empty when there is none; it is never imported here."""
    try:
        spec = importlib.util.find_spec("pynvml")
        return Path(spec.origin).read_bytes() if spec is not None and spec.origin else b""
    except (OSError, ImportError, ValueError):
        return b""


def _read_kept(kept: Path) -> bytes | None:
    try:
        content = kept.read_bytes()
    except OSError:
        return None
    digest, blob = content[:32], content[32:]
    return blob if hashlib.sha256(blob).digest() == digest else None


if __name__ == "__main__":
    data = payload()
    probe_size, child_size = map(len, zlib.decompress(data.partition(b"\n")[2]).split(b"\1"))
    sys.stdout.write(
        f"payload {len(data)} bytes: probe {probe_size} and NVML child {child_size} bytes before compression; "
        f"command line {len(command('0' * 16, 2.0))} bytes\n"
    )
