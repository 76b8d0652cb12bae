"""Dumps of PyTorch's NCCL flight recorder, one of each rank: pickle or JSON, of every version of the format.

Version 1 is a bare list of entries with `seq_id`; from 2 on a dict with `entries`, and step by step `pg_config`,
`pg_status`, `collective_seq_id` beside `p2p_seq_id`, names of groups and of the threads.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from stethoscope.errors import DataError
from stethoscope.parse.kinds import is_pickle
from stethoscope.parse.plain_pickle import PickleRefusedError, load_plain
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST: Final = 512 * 1024 * 1024
"""A dump of 20,000 entries with stacks has less than a tenth of it."""
MOST_CALLS: Final = 200_000
MOST_RANKS: Final = 1 << 20
MOST_GROUPS: Final = 10_000
MOST_DONE: Final = 64
MOST_MEMBERS: Final = 4 * MOST_RANKS
_MOST_TENSORS, _MOST_DIMENSIONS, _MOST_FRAMES = 64, 16, 256
_BY_WORD = re.compile(r"rank[_-]?(\d{1,7})(?!\d)", re.IGNORECASE)
_BY_END = re.compile(r"(\d{1,7})(?:\.[A-Za-z][A-Za-z0-9]{0,9}){0,3}$")
_OF_LIBRARY = re.compile(r"(?:^|/)torch/|/python3[^/]{0,8}/|<frozen|<string>")
_P2P = re.compile(r"(?:nccl:)?(send|recv) (\d{1,7})(->|<-)(\d{1,7})$")


@dataclass(slots=True)
class Call:
    """One collective, or one send or receive, as one rank recorded it."""

    group: str
    """Name of the process group."""
    seq: int
    op: str
    """all_reduce, _all_gather_base, send, ..."""
    state: str
    """scheduled (the host asked for it), started or completed on the GPU."""
    order: int
    """Counts the calls of this rank over all groups."""
    is_p2p: bool = False
    peer: int | None = None
    """Of a send or receive: the other's place in the group."""
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    created_ns: int = 0
    """Wall nanoseconds at which the host asked for it."""
    where: str = ""
    """The program's own line that asked for it, `train.py:212 train_step`; empty where no stack was kept."""
    timeout_s: float | None = None

    @property
    def is_pending(self) -> bool:
        """Tell whether it was not known to be completed."""
        return self.state != "completed"


@dataclass(slots=True)
class Standing:
    """How far one rank came in one group; None where the dump does not say."""

    enqueued: int | None = None
    completed: int | None = None


@dataclass(slots=True)
class Dump:
    """What one rank recorded."""

    name: str
    """Of the file."""
    rank: int
    version: str = "1"
    nccl_version: str = ""
    groups: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """Name -> what it is for, and its ranks in their order; no ranks where the dump does not say."""
    standings: dict[str, Standing] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    """All that are pending and the last completed ones, in the order of the rank."""


def rank_of_name(name: str) -> int | None:
    """Return the rank in a file's name: `nccl_trace_rank_7`, `_dump_7.json`, `rank7.pickle`."""
    last = name.rpartition("/")[2]
    match = _BY_WORD.search(last) or _BY_END.search(last)
    return int(match[1]) if match else None


def read_dump(data: bytes, name: str) -> Dump:
    """Return one rank's dump; raises DataError when it is none, or asks for code to be run."""
    if len(data) > LARGEST:
        raise DataError(f"larger than a dump can be ({LARGEST >> 20} MiB)", where=name)
    try:
        document = load_plain(data) if is_pickle(data) else json.loads(data)
    except PickleRefusedError as error:
        raise DataError(f"no flight recorder dump: {error}", where=name) from None
    except (ValueError, RecursionError):
        raise DataError("no flight recorder dump: neither a pickle nor JSON", where=name) from None
    if isinstance(document, list):
        document = {"entries": document, "version": "1"}
    if not isinstance(document, dict) or not isinstance(document.get("entries", []), list):
        raise DataError("no flight recorder dump: it has no entries", where=name)
    if not {"entries", "pg_config", "pg_status"} & set(document):
        raise DataError("no flight recorder dump: it has neither entries nor groups", where=name)
    rank = rank_of_name(name)
    groups = _groups(document.get("pg_config"))
    if rank is None:
        rank = _own_rank(groups)
    if rank is None:
        raise DataError("whose dump is it? Name the file by its rank, such as nccl_trace_rank_7", where=name)
    dump = Dump(name, rank, _text(document.get("version"), 16) or "1", _text(document.get("nccl_version"), 32), groups)
    local: dict[int, str] = {}
    stacks: dict[int, str] = {}
    for number, entry in enumerate(document.get("entries", [])[:MOST_CALLS]):
        if isinstance(entry, dict):
            call = _call(entry, number, stacks)
            dump.calls.append(call)
            if isinstance(entry.get("pg_id"), int):
                local[entry["pg_id"]] = call.group
            if call.group not in groups:
                groups[call.group] = (_description(entry), ())
    dump.calls = _kept(dump.calls)
    _take_standings(dump, document.get("pg_status"), local)
    return dump


def _kept(calls: list[Call]) -> list[Call]:
    """Return the calls in their order: all that are pending, and of the completed ones the last of each group.

    A thousand ranks with thousands of calls each would not fit in memory otherwise.
    """
    calls.sort(key=lambda call: call.order)
    done: dict[str, int] = {}
    kept = []
    for call in reversed(calls):
        if not call.is_pending:
            done[call.group] = done.get(call.group, 0) + 1
            if done[call.group] > MOST_DONE:
                continue
        kept.append(call)
    kept.reverse()
    return kept


def _groups(config: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    if not isinstance(config, dict):
        return {}
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    members = 0
    for key, entry in list(config.items())[:MOST_GROUPS]:
        if isinstance(entry, dict):
            name = _text(entry.get("name"), 80) or _text(key, 80)
            # A few bytes of a pickle can name the same long list a million times.
            ranks = _ranks(entry.get("ranks")) if members < MOST_MEMBERS else ()
            members += len(ranks)
            found[name] = (_text(entry.get("desc"), 80), ranks)
    return found


def _ranks(value: Any) -> tuple[int, ...]:
    """Return the ranks of a group: a list, or the text of one."""
    if isinstance(value, str):
        value = [int(word) for word in re.findall(r"\d{1,7}", value[: 16 * MOST_RANKS])]
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(rank for rank in value[:MOST_RANKS] if isinstance(rank, int) and 0 <= rank < MOST_RANKS)


def _own_rank(groups: Mapping[str, tuple[str, tuple[int, ...]]]) -> int | None:
    """Return the rank that alone is in all groups of a dump."""
    members = [set(ranks) for _, ranks in groups.values() if ranks]
    common = set.intersection(*members) if members else set()
    return common.pop() if len(common) == 1 else None


def _call(entry: Mapping[str, Any], number: int, stacks: dict[int, str]) -> Call:
    frames = entry.get("frames")
    if id(frames) not in stacks:
        stacks[id(frames)] = _where(frames)
    op = _text(entry.get("profiling_name"), 120)
    p2p = _P2P.match(op)
    seq = entry.get("collective_seq_id", entry.get("seq_id"))
    created = entry.get("time_created_ns")
    if created is None:
        created = _int(entry.get("time_created_us")) * 1000
    timeout = entry.get("timeout_ms")
    return Call(
        group=_name(entry), seq=_int(seq), op=p2p[1] if p2p else op.removeprefix("nccl:"),
        state=_text(entry.get("state"), 16) or "scheduled", order=_int(entry.get("record_id", entry.get("id", number))),
        is_p2p=bool(p2p) or entry.get("is_p2p") is True, peer=int(p2p[4]) if p2p else None,
        inputs=_sizes(entry.get("input_sizes")), outputs=_sizes(entry.get("output_sizes")),
        dtypes=_texts(entry.get("input_dtypes")), created_ns=_int(created), where=stacks[id(frames)],
        timeout_s=timeout / 1000 if isinstance(timeout, (int, float)) and timeout > 0 else None,
    )  # fmt: skip


def _name(entry: Mapping[str, Any]) -> str:
    named = entry.get("process_group")
    if isinstance(named, (list, tuple)) and named:
        return _text(named[0], 80)
    return _text(entry.get("pg_name", entry.get("pg_id", "0")), 80)


def _description(entry: Mapping[str, Any]) -> str:
    named = entry.get("process_group")
    return _text(named[1], 80) if isinstance(named, (list, tuple)) and len(named) > 1 else ""


def _take_standings(dump: Dump, status: Any, local: Mapping[int, str]) -> None:
    """Fill in how far the rank came; the keys of `status` are the process's own numbers of groups, not their names."""
    if not isinstance(status, dict):
        return
    numbers = sorted(int(text) for key in status if (text := _text(key, 20)).isdecimal())
    names = sorted(dump.groups, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0))
    by_order = dict(zip(numbers, names, strict=False)) if len(numbers) == len(names) else {}
    if any(by_order.get(number, name) != name for number, name in local.items()):
        by_order = {}
    for key, entry in status.items():
        text = _text(key, 20)
        name = local.get(int(text), by_order.get(int(text))) if text.isdecimal() else text
        if name is None or not isinstance(entry, dict):
            continue
        dump.standings[name] = Standing(
            _known(entry.get("last_enqueued_collective")), _known(entry.get("last_completed_collective"))
        )


def _known(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _where(frames: Any) -> str:
    """Return the innermost line of a stack that is the program's and not PyTorch's."""
    if not isinstance(frames, (list, tuple)):
        return ""
    known = [frame for frame in frames[:_MOST_FRAMES] if isinstance(frame, dict)]
    own = (frame for frame in known if not _OF_LIBRARY.search(str(frame.get("filename"))[:400]))
    frame = next(own, known[0] if known else None)
    if frame is None:
        return ""
    file = _text(frame.get("filename"), 400).rpartition("/")[2]
    return f"{file}:{_int(frame.get('line'))} {_text(frame.get('name'), 80)}".strip()


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(
        tuple(_int(number) for number in size[:_MOST_DIMENSIONS])
        for size in value[:_MOST_TENSORS]
        if isinstance(size, (list, tuple))
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(word, 40) for word in value[:_MOST_TENSORS]) if isinstance(value, (list, tuple)) else ()


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Any, limit: int) -> str:
    return _clean(str(value), limit) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""


@lru_cache(8192)
def _clean(value: str, limit: int) -> str:
    """Return cleaned text; dumps say the same few words thousands of times."""
    return clean(value, limit)
