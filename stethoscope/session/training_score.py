"""How somebody who is trained did: each answer against what was broken in the simulated fleet. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from stethoscope.clock import hms
from stethoscope.model.verdict import HEALTHY, UNKNOWN
from stethoscope.session.drill_score import HALF, is_related

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = "stethoscope.training/1"
WIDE = 78
_WORDS = {1.0: "right", HALF: "partly", 0.0: "wrong"}
_FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class Truth:
    """One fault that came."""

    kind: str
    title: str
    where: str
    at_s: float
    """Scenario seconds, as all times here."""
    root_cause: str
    layer: str
    names: tuple[str, ...] = ()
    """What its place is called besides."""
    found_s: float | None = None
    """From its start to the first finding that names it; None when there was none."""

    @property
    def is_harmless(self) -> bool:
        """Tell whether nothing has to be done about it."""
        return self.root_cause == HEALTHY


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of who is trained: an id of a root cause, and a place, empty where none is blamed."""

    at_s: float
    cause: str
    place: str = ""
    layer: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {"root_cause": self.cause, "place": self.place}


@dataclass(frozen=True, slots=True)
class Said:
    """What the unattended diagnosis began to say."""

    at_s: float
    cause: str
    places: tuple[str, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class Mark:
    """How one fault was answered."""

    truth: Truth
    reply: Reply | None = None
    cause: float = 0.0
    place: float = 0.0
    said: Said | None = None
    """The first diagnosis that was right about it, else the last one behind its start."""
    said_is_right: bool = False

    @property
    def points(self) -> float:
        """Return what the answer is worth, 0 to 1."""
        return (self.cause + self.place) / 2

    @property
    def answer_s(self) -> float | None:
        """Return the time from the start of the fault to the answer."""
        return None if self.reply is None else self.reply.at_s - self.truth.at_s


@dataclass(frozen=True, slots=True)
class Report:
    """One round of training, scored."""

    marks: tuple[Mark, ...]
    """Of what was harmful."""
    harmless: tuple[Truth, ...]
    false: tuple[Reply, ...]
    """Answers that blame a place at which nothing was wrong, or anything where nothing was."""
    replies: tuple[Reply, ...]
    lasted_s: float
    base_wall: float = 0.0
    """Wall seconds of scenario second 0."""
    speed: float = 1.0
    seed: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def is_right(self) -> bool:
        """Tell whether everything was answered rightly, and nobody was blamed for nothing."""
        if not self.marks:
            return not self.false and any(one.cause == HEALTHY for one in self.replies)
        return not self.false and all(mark.points == 1.0 for mark in self.marks)

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {
            "faults": [
                {
                    "kind": mark.truth.kind, "where": mark.truth.where, "root_cause": mark.truth.root_cause,
                    "began": hms(self._wall(mark.truth.at_s)), "first_finding_s": _rounded(mark.truth.found_s),
                    "answer": None if mark.reply is None else mark.reply.as_json(),
                    "answer_s": _rounded(mark.answer_s), "cause": mark.cause, "place": mark.place,
                    "diagnosis": None if mark.said is None else {
                        "root_cause": mark.said.cause, "places": list(mark.said.places), "right": mark.said_is_right,
                        "after_s": _rounded(mark.said.at_s - mark.truth.at_s),
                    },
                }
                for mark in self.marks
            ],
            "harmless": [{"kind": one.kind, "where": one.where} for one in self.harmless],
            "answers": len(self.replies),
            "false_accusations": [one.as_json() for one in self.false],
            "points": sum(mark.points for mark in self.marks),
            "of": len(self.marks),
            "right": self.is_right,
            "seed": self.seed,
        }  # fmt: skip

    def _wall(self, at_s: float) -> float:
        return self.base_wall + at_s / self.speed

    def lines(self) -> list[str]:
        """Return it for people, no line longer than WIDE characters."""
        found = [f"The drill lasted {span(self.lasted_s)}."]
        for mark in self.marks:
            found += ["", *self._mark_lines(mark)]
        if not self.marks:
            said = "you said so" if self.is_right else "you did not say so" if not self.false else "you blamed somebody"
            found += ["", f"Nothing was wrong, and {said}."]
        for one in self.harmless:
            found += ["", *wrap(f"Harmless: {one.title} ({one.kind} {one.where}).", WIDE, subsequent_indent="  ")]
        found += ["", f"False accusations   {len(self.false) or 'none'}"]
        for reply in self.false:
            at = f"at {hms(self._wall(reply.at_s))} UTC"
            found += wrap(f"{reply.cause}, {reply.place or 'no place'}, {at}", WIDE, **_under(2))
        if self.marks:
            found.append(f"Score               {sum(mark.points for mark in self.marks):g} of {len(self.marks)}")
        if self.seed is not None:
            found.append(f"Seed                {self.seed}")
        return [*found, *(line for note in self.notes for line in wrap(note, WIDE))]

    def _mark_lines(self, mark: Mark) -> list[str]:
        truth, reply, said = mark.truth, mark.reply, mark.said
        head = f"{truth.title}: {truth.kind} {truth.where}, began {hms(self._wall(truth.at_s))} UTC"
        found = wrap(head, WIDE, subsequent_indent="  ")
        cause = f", you said {reply.cause}: {_WORDS[mark.cause]}" if reply else ""
        place = f", you said {reply.place or 'no place'}: {_WORDS[mark.place]}" if reply else ""
        found += _row("root cause", f"{truth.root_cause}{cause}")
        found += _row("place", f"{truth.where}{place}")
        found += _row("first finding", "none" if truth.found_s is None else f"{span(truth.found_s)} after it began")
        found += _row("your answer", "none" if mark.answer_s is None else f"{span(mark.answer_s)} after it began")
        if said is None:
            return found + _row("the diagnosis", "said nothing")
        where = f" at {', '.join(said.places[:2])}" if said.places else ""
        when = f"{span(max(0.0, said.at_s - truth.at_s))} after it began"
        verdict = "right" if mark.said_is_right else "wrong"
        return found + _row("the diagnosis", f"{said.cause}{where}, {when}: {verdict}")


def span(seconds: float) -> str:
    """Return a length of time in words."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _under(cells: int) -> dict[str, Any]:
    return {"initial_indent": " " * cells, "subsequent_indent": " " * (cells + 2)}


def _row(name: str, words: str) -> list[str]:
    return wrap(words, WIDE, initial_indent=f"  {name:18}", subsequent_indent=" " * 20)


def place_points(truth: Truth, place: str) -> float:
    """Return 1 for the place itself, by any of its names, a half for a part of it or what it is a part of."""
    names = (truth.where, *truth.names)
    if place in names:
        return 1.0
    return HALF if place and (truth.where == _FLEET or any(is_related(place, name) for name in names)) else 0.0


def cause_points(truth: Truth, cause: str, layer: str) -> float:
    """Return 1 for the root cause itself, a half for another one of its layer."""
    if cause == truth.root_cause:
        return 1.0
    return HALF if layer and layer == truth.layer and cause not in (HEALTHY, UNKNOWN) else 0.0


def marks(truths: Sequence[Truth], replies: Sequence[Reply], said: Sequence[Said]) -> tuple[Mark, ...]:
    """Return how each harmful fault was answered: by the best of the answers behind its start, of two that are equal
    the earlier one."""
    found = []
    for truth in truths:
        if truth.is_harmless:
            continue
        best = Mark(truth)
        for reply in replies:
            if reply.at_s < truth.at_s or reply.cause == UNKNOWN:
                continue
            cause, place = cause_points(truth, reply.cause, reply.layer), place_points(truth, reply.place)
            # Another cause of the same layer somewhere else is no answer to this fault.
            if (place or cause == 1.0) and (cause + place) / 2 > best.points:
                best = Mark(truth, reply, cause, place)
        later = [one for one in said if one.at_s >= truth.at_s]
        right = [one for one in later if _is_right(truth, one)]
        spoken = right[0] if right else later[-1] if later else None
        found.append(Mark(truth, best.reply, best.cause, best.place, spoken, bool(right)))
    return tuple(found)


def false_accusations(truths: Sequence[Truth], replies: Sequence[Reply]) -> tuple[Reply, ...]:
    """Return the answers that blame what no harmful fault of that time is at, nor is part of."""
    found = []
    for reply in replies:
        if reply.cause in (HEALTHY, UNKNOWN):
            continue
        true = [one for one in truths if not one.is_harmless and one.at_s <= reply.at_s]
        is_known = any(place_points(one, reply.place) if reply.place else one.root_cause == reply.cause for one in true)
        if not is_known:
            found.append(reply)
    return tuple(found)


def _is_right(truth: Truth, said: Said) -> bool:
    return said.cause == truth.root_cause and any(place_points(truth, place) for place in said.places)
