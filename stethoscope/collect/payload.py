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
from typing import TYPE_CHECKING

from stethoscope import paths
from stethoscope.collect import shrink
from stethoscope.model.wire import sentinel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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

CHILD_LATER = ("nvml_rare",)
"""Parts of the NVML child that it gets when something is read rarely."""

_VERSION = b"3"
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
    `build` makes."""
    pynvml = _pynvml_source()
    blob = kept((*_named(_parts()), pynvml), lambda: build(_parts(), pynvml.decode()))
    return b"%d\n%s" % (len(blob), blob)


def watch_parts() -> bytes:
    """Return the parts of the probe that read what is read rarely, which it gets with its first `watch` line: name and
    source of each, with NULs between."""
    return kept(watch_sources(), lambda: build_watch(_parts()))


def watch_sources() -> list[bytes]:
    """Return what `watch_parts` are made of."""
    return [b"watch", *_named(_parts())]


def build(parts: dict[str, str], pynvml: str) -> bytes:
    """Return the payload of the probe's parts, their sources by name, and of pynvml's source.

    Compressed are, with a byte of 1 between: what the probe runs, name and source of each part that `stream` reaches,
    those that others import before them, so that it comes last, with NULs between; and what the probe hands on to its
    NVML child, likewise the parts that `nvml_child` reaches, and what they reach of pynvml, or nothing without pynvml.
    """
    probe = _shrunk(shrink.reached("stream", parts))
    child = []
    if pynvml:
        own = shrink.reached("nvml_child", parts)
        users = {**own, **{name: parts[name] for name in CHILD_LATER if name in parts}}
        wanted = {name for source in users.values() for name in shrink.attributes_of(ast.parse(source), "nvml")}
        child = [*_shrunk(own), shrink.compact(shrink.prune(pynvml, wanted, shrink.PYNVML_UNUSED))]
    return zlib.compress("\1".join(map("\0".join, (probe, child))).encode(), 9)


def build_watch(parts: dict[str, str]) -> bytes:
    """Return what `watch_parts` keeps, of the parts that `watch` reaches and `stream` does not."""
    there = shrink.reached("stream", parts).keys() | shrink.reached("nvml_child", parts).keys()
    later = {**shrink.reached("watch", parts), **{name: parts[name] for name in CHILD_LATER if name in parts}}
    return "\0".join(_shrunk({name: source for name, source in later.items() if name not in there})).encode()


def _shrunk(parts: dict[str, str]) -> list[str]:
    return [text for name, source in parts.items() for text in (name, shrink.compact(source))]


def _parts() -> dict[str, str]:
    return {file.stem: file.read_text("utf-8") for file in sorted(paths.bundled("probes").glob("*.py"))}


def _named(parts: dict[str, str]) -> list[bytes]:
    return [text.encode() for part in parts.items() for text in part]


def kept(sources: Iterable[bytes], make: Callable[[], bytes]) -> bytes:
    """Return what is made of `sources`, from the cache if it is there; a cache that is broken, or that cannot be
    written, costs nothing but time."""
    digest = hashlib.sha256(b"\0".join((_VERSION, sys.version.encode(), *sources))).hexdigest()
    place = paths.cache_dir() / "payload" / f"{digest}.bin"
    blob = _read(place)
    if blob is None:
        blob = make()
        with contextlib.suppress(OSError):  # then it is made again at the next start
            paths.write_private(place, hashlib.sha256(blob).digest() + blob)
    return blob


def _pynvml_source() -> bytes:
    """Return the source of the installed pynvml, empty when there is none; it is never imported here."""
    try:
        spec = importlib.util.find_spec("pynvml")
        return Path(spec.origin).read_bytes() if spec is not None and spec.origin else b""
    except (OSError, ImportError, ValueError):
        return b""


def _read(place: Path) -> bytes | None:
    try:
        content = place.read_bytes()
    except OSError:
        return None
    digest, blob = content[:32], content[32:]
    return blob if hashlib.sha256(blob).digest() == digest else None


if __name__ == "__main__":
    from stethoscope.collect.watchlist import watch_line

    data = payload()
    probe_size, child_size = map(len, zlib.decompress(data.partition(b"\n")[2]).split(b"\1"))
    sys.stdout.write(
        f"payload {len(data)} bytes: probe {probe_size} and NVML child {child_size} bytes before compression; "
        f"command line {len(command('0' * 16, 2.0))} bytes; after the first frame {len(watch_line(True))} bytes\n"
    )
