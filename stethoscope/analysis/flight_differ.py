"""Compares what the ranks of one group did at the same place of its order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stethoscope.parse.flight_recorder import Call

What = Literal["op", "sizes", "dtype"]
UNEVEN: Final = (
    "all_to_all", "alltoall", "all_to_allv", "send", "recv", "gather", "scatter", "broadcast", "coalesced",
)  # fmt: skip
"""Operations whose ranks may differ in the sizes they bring."""
_DTYPES_DIFFER: Final = ("send", "recv", "coalesced", "gather", "scatter")


class Key(NamedTuple):
    """A group as all of its ranks know it: names alone are used again by others."""

    name: str
    ranks: tuple[int, ...]


class Difference(NamedTuple):
    """Ranks of one group that issued different calls at the same place of its order."""

    key: Key
    seq: int
    what: What
    usual: str
    usual_ranks: tuple[int, ...]
    odd: str
    odd_ranks: tuple[int, ...]
    where: str
    """The program's own line of the odd ones."""
    created_ns: int
    is_clear: bool
    """More ranks, or other groups of the same program, did the usual."""


def compare(
    key: Key, seq: int, calls: Sequence[tuple[int, Call]], others: Callable[[], Iterable[Call]]
) -> Difference | None:
    """Return how the calls of ranks differ at one place, or None; `others` are asked for when it is one against one."""
    if len({(call.op, call.inputs, call.dtypes) for _, call in calls}) == 1:
        return None
    for what in ("op", "sizes", "dtype"):
        said = [(rank, _text(call, what), call) for rank, call in calls if _counts(call, what)]
        texts = {call.op if what == "op" else text for _, text, call in said}
        if len(texts) > 1:
            return _odd(key, seq, what, said, others)
    return None


def _counts(call: Call, what: What) -> bool:
    if what == "sizes":
        return not call.op.startswith(UNEVEN)
    return what == "op" or (bool(call.dtypes) and not call.op.startswith(_DTYPES_DIFFER))


def _text(call: Call, what: What) -> str:
    if what == "dtype":
        return f"{call.op} of {', '.join(dict.fromkeys(call.dtypes))}"
    return f"{call.op} {sizes_text(call.inputs)}".strip()


def _odd(
    key: Key,
    seq: int,
    what: What,
    said: Iterable[tuple[int, str, Call]],
    others: Callable[[], Iterable[Call]],
) -> Difference:
    by_text: dict[str, list[tuple[int, Call]]] = {}
    for rank, text, call in said:
        by_text.setdefault(text, []).append((rank, call))
    sizes = sorted((len(entries) for entries in by_text.values()), reverse=True)
    votes = Counter(_text(call, what) for call in others()) if sizes[0] == sizes[1] else Counter[str]()
    ordered = sorted(by_text.items(), key=lambda item: (-len(item[1]), -votes[item[0]], item[1][0][0]))
    (usual, usual_calls), rest = ordered[0], ordered[1:]
    odd = [entry for _, entries in rest for entry in entries]
    return Difference(
        key, seq, what, usual, tuple(rank for rank, _ in usual_calls), rest[0][0],
        tuple(sorted(rank for rank, _ in odd)), next((call.where for _, call in odd if call.where), ""),
        min(call.created_ns for _, call in [*usual_calls, *odd]),
        sizes[0] > sizes[1] or votes[usual] > votes[rest[0][0]],
    )  # fmt: skip


def sizes_text(sizes: Sequence[Sequence[int]]) -> str:
    """Return sizes of tensors in words: 4096x5120, and how many more there are."""
    if not sizes:
        return ""
    first = "x".join(str(number) for number in sizes[0]) or "scalar"
    return first if len(sizes) == 1 else f"{first} and {len(sizes) - 1} more"
