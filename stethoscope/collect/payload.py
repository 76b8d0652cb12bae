"""What is sent to a node: the command line that finds a Python there, and the probe, in two stages.

The first has what a frame needs, and what the NVML child runs; the second, which follows the first frame, what is read
rarely, and which groups of it. They are one stream of raw deflate, cut in two, each behind a line that says how long it
is. Packing and unpacking are in `packed` and `model.wire.unpack`; the node unpacks in the command line.

`python -m stethoscope.collect.payload` makes the payload once, so that the first console need not, and prints sizes.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope import paths
from stethoscope.collect import shrink, watchlist
from stethoscope.collect.bundle import bundle
from stethoscope.collect.packed import pack
from stethoscope.model import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_BOOTSTRAP = (
    "import functools,os,sys,zlib;"
    'f=open(0,"rb",0,closefd=False);'
    "n=int(f.readline()or os._exit(0));"
    "b=bytearray();"
    "[b.extend(f.read(n-len(b))or os._exit(0))for _ in iter(lambda:len(b)<n,False)];"
    "z=zlib.decompressobj(-15);"
    "w,p,c,r=z.decompress(b).split(bytes(1),3);"
    "w=[*enumerate(w.split(bytes([1])),128)][::-1];"
    "e=lambda t:functools.reduce(lambda t,x:t.replace(bytes([x[0]]),x[1]),w,t);"
    'exec(compile(e(p),"probe","exec"),{"__name__":"probe","child":e(c),"inflate":lambda b:e(r+z.decompress(b))})'
)
"""Reads the payload unbuffered, so that the control lines behind it stay in the pipe, and runs the probe with what is
for its NVML child and with what unpacks the second stage."""

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

_PROBE = ("stream", "watch")
_CHILD = ("nvml_child", "nvml_rare")
"""The entry of each process, and what it runs when something is read rarely."""
_ENTRIES = ("main(child, inflate)", "main()")
"""What starts each; `child` and `inflate` come from the command line."""

_VERSION = b"5"
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
    return f"exec sh -c '{_FINDER}' sh '{_BOOTSTRAP}' {nonce} {tick_s:g} '{wire.sentinel(nonce)}'"


def payload() -> bytes:
    """Return what is written to the probe's standard input before any control line: a line with the length, then the
    first stage."""
    return _with_length(stages()[0])


def watch_line(sudo: bool, pace: float = 1.0) -> bytes:
    """Return the control line that follows the first full frame, and the second stage, for a node on which `sudo -n`
    may be used or not; `pace` is of its fleet (`watchlist.pace_of`).

    Raises DataError for a manifest that is broken.
    """
    more = {key: value for key, value in (("sudo", sudo), ("pace", pace)) if value not in (0, 1) or value is True}
    return _control(more)


def line_of(groups: list[dict[str, Any]]) -> bytes:
    """Return the same with groups instead of those of the manifest, as `watchlist.watch_groups` has them."""
    return _control({"sudo": True, "groups": wire.dense(groups)})


def _control(more: dict[str, Any]) -> bytes:
    later = stages()[1]
    return msgspec.json.encode({"do": "watch", "bytes": len(later), **more}) + b"\n" + later


def stages() -> tuple[bytes, bytes]:
    """Return both stages as they are sent."""
    length, _, both = kept(sources(), lambda: b"".join(map(_with_length, build(parts())))).partition(b"\n")
    return both[: int(length)], both[int(length) :].partition(b"\n")[2]


def _with_length(blob: bytes) -> bytes:
    return b"%d\n%s" % (len(blob), blob)


def sources() -> list[bytes]:
    """Return what the stages are made of."""
    return [_manifest(), *(text.encode() for part in parts().items() for text in part)]


def _manifest() -> bytes:
    return (paths.bundled("probes") / "manifest.yaml").read_bytes()


def build(parts: dict[str, str]) -> tuple[bytes, bytes]:
    """Return what `stages` returns, of the parts of the probe by name."""
    return pack(*texts(parts))


def texts(parts: dict[str, str]) -> tuple[list[bytes], list[bytes]]:
    """Return what is in each stage: the source for the probe and that for its NVML child, and in the second the groups
    as well."""
    probe, child = (
        bundle(_stages_of(names, parts), parts, [entry])
        for names, entry in zip((_PROBE, _CHILD), _ENTRIES, strict=True)
    )
    first, later = ([shrink.compact(text).encode() for text in both] for both in zip(probe, child, strict=True))
    return first, [*later, msgspec.json.encode(wire.dense(watchlist.watch_groups(sudo=True)))]


def _stages_of(names: tuple[str, str], parts: dict[str, str]) -> list[list[str]]:
    first, both = (list(shrink.reached(name, parts)) for name in names)
    return [first, [name for name in both if name not in first]]


def parts() -> dict[str, str]:
    return {file.stem: file.read_text("utf-8") for file in sorted(paths.bundled("probes").glob("*.py"))}


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


def _read(place: Path) -> bytes | None:
    try:
        content = place.read_bytes()
    except OSError:
        return None
    digest, blob = content[:32], content[32:]
    return blob if hashlib.sha256(blob).digest() == digest else None


if __name__ == "__main__":
    start, later = len(payload()), len(watch_line(True, watchlist.MANY_PACE))
    sys.stdout.write(
        f"payload {start} bytes before the first frame, {later} after it, {start + later} in all; "
        f"command line {len(command('0' * 16, 2.0))} bytes\n"
    )
