"""Why a rank did not come: what it did last before the others began to wait for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import Note
from stethoscope.analysis.judge_scene import before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.analysis.judge_scene import Clue, Scene

_WORK = {
    "work.saving": ("ckpt_io", 0.75, "began to save and did not finish"),
    "checkpoint.begin": ("ckpt_io", 0.8, "began to save a checkpoint and did not finish"),
    "work.preparation": ("timeout_too_short", 0.8, "was preparing data"),
    "work.compile": ("timeout_too_short", 0.65, "was compiling"),
    "work.evaluation": ("timeout_too_short", 0.7, "was evaluating"),
    "work.data_end": ("data_loading", 0.75, "came to the end of its input"),
    "work.data_wait": ("data_loading", 0.75, "waited for its input"),
    "loader.length_differs": ("data_loading", 0.6, "had another number of samples than the others"),
}
_TEXTS: tuple[tuple[str, str], ...] = (
    (
        r"sav(?:e|ing)\b.*(?:check-?point|ckpt|model|state|optimizer)|(?:check-?point|ckpt).*\bsav"
        r"|writing (?:check-?point|shard)",
        "checkpoint.begin",
    ),
    (
        r"tokeniz|pre-?process|download|building .*(?:index|dataset|cache)|prepar(?:e|ing) (?:data|dataset)"
        r"|loading (?:dataset|data set|data files)",
        "work.preparation",
    ),
    (r"compil|autotun|cuda graph", "work.compile"),
    (r"\beval(?:uat|\b)|validat", "work.evaluation"),
    (r"waiting for (?:next )?(?:batch|data)|fetch\w* .*batch|data ?load", "work.data_wait"),
)
_DONE = re.compile(r"(?i)\b(?:saved|written|done|finished|complete[d]?|took|success\w*)\b")


def reason_of(
    scene: Scene, ranks: Iterable[int], waited: Clue, *, at_start: bool = False
) -> tuple[str | None, float, list[Note]]:
    """Return the class, its weight and the evidence for why these ranks did not come; None when nothing tells.

    `waited` is the first line of those who waited; without ranks all lines that name no rank are looked at.
    """
    wanted = set(ranks)
    before_it = [c for c in scene.clues if c.signature in _WORK and before(c, waited)]
    own = [c for c in before_it if wanted and _rank_of(c) in wanted]
    anyones = [c for c in before_it if _rank_of(c) is None]
    chosen = own or anyones
    steps = [c for c in scene.progress() if before(c, waited)]
    after_steps = [c for c in chosen if not steps or before(steps[-1], c)]
    for clue in reversed(after_steps):
        verdict = _verdict(scene, clue, waited, steps, own=bool(own), at_start=at_start)
        if verdict is not None:
            return verdict
    return _from_last_words(scene, wanted, waited)


def _rank_of(clue: Clue) -> int | None:
    named = clue.number("rank") if clue.signature == "work.data_end" else None
    return clue.rank if named is None else named


def _verdict(
    scene: Scene, clue: Clue, waited: Clue, steps: list[Clue], *, own: bool, at_start: bool
) -> tuple[str | None, float, list[Note]] | None:
    cause, weight, words = _WORK[clue.signature]
    if clue.signature in {"checkpoint.begin", "work.saving"}:
        done = [c for c in scene.find("checkpoint.done", "work.saved") if clue.index < c.index and before(c, waited)]
        if done or (
            _DONE.search(clue.event.text.split("with", 1)[0].replace("trained for", ""))
            and not re.search(r"(?i)\bsaving\b", clue.event.text)
        ):
            return None
    if clue.signature == "work.preparation" and clue.number("percent") == 100:
        return None
    if clue.signature in {"work.preparation", "work.compile"} and steps and not own and not at_start:
        return None
    notes = [Note(f"the rank that did not come {words}", clue)]
    gap = _gap(clue, waited)
    timeout = (waited.number("timeout_ms") or 0) / 1000
    if gap is not None and timeout:
        if abs(gap - timeout) <= max(60.0, 0.1 * timeout):
            notes.append(Note("the wait began when that work began: one time-out before the first error", waited))
            weight = min(0.9, weight + 0.1)
        elif gap > 3 * timeout:
            weight -= 0.2
    return cause, weight if own else weight - 0.05, notes


def _gap(clue: Clue, waited: Clue) -> float | None:
    if clue.event.at is None or waited.event.at is None or clue.event.at_is_near or waited.event.at_is_near:
        return None
    return waited.event.at - clue.event.at


def _from_last_words(scene: Scene, wanted: set[int], waited: Clue) -> tuple[str | None, float, list[Note]]:
    """Look at the last line each silent rank printed, whether a signature knew it or not."""
    for seen in scene.log.seen:
        rank = scene.who.rank(seen.origin)
        if rank not in wanted or not seen.last_text:
            continue
        if waited.event.at is not None and seen.last_at is not None and seen.last_at > waited.event.at:
            continue
        for pattern, signature in _TEXTS:
            if re.search(pattern, seen.last_text, re.IGNORECASE) and not _DONE.search(seen.last_text):
                cause, weight, words = _WORK[signature]
                return (
                    cause,
                    weight - 0.1,
                    [Note(f"the last line of rank {rank} shows that it {words}: {seen.last_text[:120]}")],
                )
    return None, 0.0, []
