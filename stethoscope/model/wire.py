"""The lines that a probe prints (`stethoscope.probe/1`), shared by what reads them and by the simulated fleet that
writes them.

A probe prints a sentinel line (see `sentinel`), then one JSON object a line. `full` carries the inventory and every
value; `delta` carries what changed since the line
before: absent keys and nulls in lists stand for "unchanged". A word instead of a number is the reason why there is none
(`model.metric.WIRE_REASONS`). Counters are raw.
Lists of `gpu` and `port` follow the order of the inventory of the last `full`. `seq` grows by one a line; after a gap
the console asks for a full frame.

What is read rarely comes as `part` lines, one for each group of the manifest's `watch` list (probes/manifest.yaml): the
raw text of files and commands, whole and for itself, read by `parse.parts`. `same` stands for "read again, nothing
changed". The group `gpu` is what the driver says rarely, as numbers; its lists follow the order of the last `full`.

A node without Python says ` no-python sh` behind the sentinel and gets the probe in sh, whose sentinel has ` sh` behind
it, and whose blocks `parse.shstream` makes the same messages of.

The console writes control lines to the probe's standard input, also JSON: {"do":"tick","s":5.0}, {"do":"full"},
{"do":"watch","bytes":6000,"pace":2,"sudo":true}, {"do":"stop"}. So many bytes follow the `watch` line: the second half
of the payload, with the probe's later parts and the groups that they read (collect.payload makes it). `pace` stretches
the interval of every group but those of a minute; without `sudo` nothing is run with it. A line may have `groups` of
its own.
The probe in sh gets {"do":"watch","bytes":15000}, and a script of so many bytes behind it (collect.shell).
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

SCHEMA = "stethoscope.probe/1"

Cell = int | float | str | None
"""A number, the word of a reason, or null for unchanged (only in a delta)."""


def sentinel(nonce: str) -> str:
    """Return the line after which the probe speaks; the nonce is new for each start, so that login noise cannot imitate
    it."""
    return f"{SCHEMA} {nonce}"


class GpuIdentity(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One GPU as the driver lists it; `pci` is `0000:4f:00.0`."""

    index: int
    name: str = ""
    uuid: str = ""
    pci: str = ""


class PortIdentity(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One port of an InfiniBand or RoCE adapter; `layer` is `InfiniBand` or `Ethernet`."""

    device: str
    port: int = 1
    layer: str = ""
    pci: str = ""
    netdev: str = ""


class Line(msgspec.Struct, gc=False):
    """What every line has: a sequence number, and the node's monotonic and wall clock in seconds."""

    seq: int
    mono: float
    wall: float


class Hello(Line, tag_field="t", tag="hello", omit_defaults=True, gc=False, kw_only=True):
    """The first line; sent before anything that may block."""

    schema: str = SCHEMA
    host: str = ""
    kernel: str = ""
    python: str = ""
    pid: int = 0
    boot_id: str = ""
    tick_s: float = 0.0


class Full(Line, tag_field="t", tag="full", omit_defaults=True, gc=False, kw_only=True):
    """Every value. `notes` says what cannot be seen and why: {"nvml": "hung", "kernel_log": "permission"}."""

    gpus: list[GpuIdentity] = []
    ports: list[PortIdentity] = []
    node: dict[str, Cell] = {}
    gpu: dict[str, list[Cell]] = {}
    port: dict[str, list[Cell]] = {}
    notes: dict[str, str] = {}


class Delta(Line, tag_field="t", tag="delta", omit_defaults=True, gc=False, kw_only=True):
    """What changed since the line before; `notes`, when given, replaces all notes."""

    node: dict[str, Cell] = {}
    gpu: dict[str, list[Cell]] = {}
    port: dict[str, list[Cell]] = {}
    notes: dict[str, str] | None = None


class Ran(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a command of a group gave. `status` is ok when it ended by itself, else absent (not installed), timeout, or
    hung: it could not be ended, and is not started again while it is there."""

    status: str = "ok"
    exit: int = 0
    out: str = ""
    err: str = ""


class Part(Line, tag_field="t", tag="part", omit_defaults=True, gc=False, kw_only=True):
    """One group of what is read rarely, whole; with `same` nothing but that it was read and has not changed.

    `s` is how often it is read. `failed` says in a word why a file has no text (a file that a pattern does not find is
    in neither). `gpu` has a list for each metric, `links` a list for each metric of a list for each GPU. `apps` are the
    processes on GPUs: [gpu index, pid, MiB or null, "C", "G" or "C+G"].
    """

    name: str
    s: float = 0.0
    same: bool = False
    gpu: dict[str, list[Cell]] = {}
    links: dict[str, list[list[Cell]]] = {}
    apps: list[list[Cell]] = []
    words: dict[str, str | list[str]] = {}
    """What is text and not a number: a version for the node, or a list of one for each GPU."""
    files: dict[str, str] = {}
    failed: dict[str, str] = {}
    ran: dict[str, Ran] = {}


class Event(Line, tag_field="t", tag="event", omit_defaults=True, gc=False, kw_only=True):
    """One log line of the node; `at` is its own wall time in seconds, when it has one."""

    source: str
    text: str
    at: float | None = None
    level: int | None = None


class Bye(Line, tag_field="t", tag="bye", omit_defaults=True, gc=False, kw_only=True):
    """The last line of an orderly end."""

    why: str = ""


class Other(Line, gc=False):
    """A line of a kind that is not known here, from another version of the probe: it has its place in the sequence, and
    says nothing."""


Known = Hello | Full | Delta | Part | Event | Bye
Message = Known | Other


class _Kind(Line, gc=False):
    t: str


KINDS = frozenset({"hello", "full", "delta", "part", "event", "bye"})

_decoder = msgspec.json.Decoder(Known)
_kind = msgspec.json.Decoder(_Kind)
_encoder = msgspec.json.Encoder()


LIMIT_S = 10
"""So long a command of a group may take, unless the group says something else."""
SLOW_S = 60.0
"""What is read so often keeps its interval at every pace: rules look at it over few readings, or at the last one."""
_RAW = -zlib.MAX_WBITS
_LONGEST_TEXT = 1024 * 1024


def unpack(packed: bytes) -> list[bytes]:
    """Return what is in a payload, or in the beginning of one, of which the last text may be cut off.

    Raw deflate holds texts with NULs between: phrases, and texts in which the bytes from 128 on stand for these, of
    which the later ones may hold earlier ones. ValueError for what is none.
    """
    try:
        phrases, *texts = zlib.decompressobj(_RAW).decompress(packed, _LONGEST_TEXT).split(b"\0")
    except zlib.error as error:
        raise ValueError(str(error)) from None
    for code, phrase in reversed(list(enumerate(phrases.split(b"\1"), 128))):
        texts = [text.replace(bytes([code]), phrase) for text in texts]
    return texts


def dense(groups: list[dict[str, Any]]) -> list[list[Any]]:
    """Return groups as a probe takes them: name, seconds, paths by what is kept of them, and commands."""
    found = []
    for group in groups:
        paths: dict[str, list[str]] = {}
        for path, keep in group.get("read", ()):
            paths.setdefault(keep, []).append(path)
        runs = [
            [run["id"], " ".join(run["argv"]), run.get("limit", LIMIT_S), run.get("sudo", 0), run.get("each", "")]
            for run in group.get("run", ())
        ]
        found.append([group["name"], group["s"], {keep: " ".join(paths[keep]) for keep in paths}, *runs])
    return found


def paced(every_s: float, pace: float) -> float:
    """Return the seconds between two readings of a group at `pace`."""
    return every_s if every_s == SLOW_S else every_s * pace


def loose(groups: Any, pace: float = 1.0) -> list[dict[str, Any]]:
    """Return the groups of a `watch` line with names for what is in them; ValueError for what is none."""
    try:
        return [
            {
                "name": name,
                "s": paced(every_s, pace),
                "read": [[path, keep] for keep in reads for path in reads[keep].split()],
                "run": [
                    {"id": run, "argv": words.split(" "), "limit": limit_s, "sudo": root, "each": each}
                    for run, words, limit_s, root, each in runs
                ],
            }
            for name, every_s, reads, *runs in groups
        ]
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(str(error)) from None


def expand(pattern: str) -> list[str]:
    """Return the patterns that a pattern with braces stands for, as a shell writes them out, none inside others. What a
    group has, and what runs for each file that is found, may have them."""
    before, found, rest = pattern.partition("{")
    if not found:
        return [pattern]
    words, _, after = rest.partition("}")
    return [other for word in words.split(",") for other in expand(f"{before}{word}{after}")]


def watch_groups(packed: bytes, first: bytes) -> Any:
    """Return the groups in what follows a `watch` line, `first` being the first half of the payload; ValueError for
    what is none."""
    try:
        return msgspec.json.decode(unpack(first + packed)[-1])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


def decode(raw: bytes) -> Message:
    """Return the message on one line; raises msgspec.DecodeError (or its ValidationError) when it is not one."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        line = _kind.decode(raw)
        if line.t in KINDS:
            raise
        return Other(line.seq, line.mono, line.wall)


def encode(message: Message) -> bytes:
    """Return the line, without its newline."""
    return _encoder.encode(message)
