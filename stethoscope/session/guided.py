"""What a person said in a guided triage, question by question: kept, taken up again, taken back.

The same for the screen and for a plain terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.triage_ask import ACCEPTED, CHOSEN, SKIPPED, Answer
from stethoscope.clock import hms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.triage_ask import Asked, AskStep
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Wanted

REMEMBERED_S = 4 * 3600.0
"""For so long what a person said stands for the same trouble."""
_MOST, _LONGEST = 200, 400
_MOST_PLACES = 50
"""Places of whose triage the answers are kept."""


@dataclass(slots=True)
class Said:
    """What a person said to a step, and when."""

    answer: Answer
    at: float
    """Wall seconds."""


class Answers:
    """What a person said about one focus, in the order in which it was said."""

    def __init__(self, kept: Mapping[str, Any], now: float) -> None:
        """Take up what was kept, as `to_keep` wrote it; `now` is in wall seconds."""
        self._said = read_said(kept, now)
        self._order = sorted(self._said, key=lambda key: self._said[key].at)

    @property
    def given(self) -> dict[tuple[str, str], Answer]:
        """Return the answers by flow and step."""
        return {key: one.answer for key, one in self._said.items()}

    def resumed(self) -> str:
        """Return since when there are answers, in words; nothing when there are none."""
        if not self._said:
            return ""
        first = min(one.at for one in self._said.values())
        return f"resumed with your answers since {hms(first)} UTC; b takes them back one by one"

    def accept(self, asked: Asked, now: float) -> Asked:
        """Take the proposed answer, and return the way as it goes on at once."""
        step = step_of(asked)
        if step is None:
            return asked
        self._say(asked, step, Answer(step.proposed, ACCEPTED), now)
        steps = (*asked.steps[: asked.at], replace(step, how=ACCEPTED), *asked.steps[asked.at + 1 :])
        path = tuple(replace(one, by="you") if one.step == step.id else one for one in asked.found.path)
        return replace(asked, steps=steps, found=replace(asked.found, path=path))

    def choose(self, asked: Asked, answer: str, now: float) -> None:
        """Answer otherwise than was proposed."""
        step = step_of(asked)
        if step is not None:
            self._say(asked, step, Answer(answer, ACCEPTED if answer == step.proposed else CHOSEN), now)

    def skip(self, asked: Asked, now: float) -> None:
        """Leave the step without an answer."""
        step = step_of(asked)
        if step is not None:
            self._say(asked, step, Answer(step.proposed, SKIPPED), now)

    def back(self, asked: Asked | None) -> bool:
        """Take back the last answer on this way; False when there is none."""
        here = {(asked.flow, step.id) for step in asked.steps if step.how} if asked is not None else set()
        last = next((key for key in reversed(self._order) if key in here), None)
        if last is None:
            return False
        self._order.remove(last)
        del self._said[last]
        return True

    def _say(self, asked: Asked, step: AskStep, answer: Answer, now: float) -> None:
        key = (asked.flow, step.id)
        self._said[key] = Said(answer, now)
        self._order = [one for one in self._order if one != key] + [key]

    def to_keep(self) -> dict[str, Any]:
        """Return what a person said, as it is kept."""
        return {
            "said": [
                {"flow": key[0], "step": key[1], "answer": one.answer.answer, "how": one.answer.how, "at": one.at}
                for key, one in self._said.items()
            ]
        }


def step_of(asked: Asked | None) -> AskStep | None:
    """Return the step that is to be answered, None when none is left."""
    return asked.steps[asked.at] if asked is not None and asked.at < len(asked.steps) else None


def read_said(kept: Mapping[str, Any], now: float) -> dict[tuple[str, str], Said]:
    """Return what was kept of a person's answers; what is too old, or not as it should be, is left out."""
    found: dict[tuple[str, str], Said] = {}
    said = kept.get("said")
    for one in said[:_MOST] if isinstance(said, list) else ():
        if not isinstance(one, dict):
            continue
        texts = [one.get(name) for name in ("flow", "step", "answer", "how")]
        at = one.get("at")
        if not isinstance(at, (int, float)) or not 0 <= now - at < REMEMBERED_S:
            continue
        if all(isinstance(text, str) and text.isprintable() and len(text) < _LONGEST for text in texts):
            flow, step, answer, how = (str(text) for text in texts)
            if how in (ACCEPTED, CHOSEN, SKIPPED):
                found[flow, step] = Said(Answer(answer, how), float(at))
    return found


# ---- of all places of a fleet


def said_by_place(kept: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what was said about each place, from what `ViewState.load_triage` gives."""
    said = kept.get("triage")
    known = said if isinstance(said, dict) else {}
    return {place: one for place, one in known.items() if isinstance(one, dict)}


def keep_place(kept: dict[str, dict[str, Any]], focus: str, said: dict[str, Any]) -> dict[str, Any]:
    """Put what was said about a place behind all others, let the oldest go, and return what is to be saved."""
    kept.pop(focus, None)
    kept[focus] = said
    while len(kept) > _MOST_PLACES:
        del kept[next(iter(kept))]
    return {"triage": kept}


def node_for(wanted: Wanted, snapshot: FleetSnapshot) -> str:
    """Return where a measurement that is wanted runs: for a job on the first of its nodes that is known."""
    if not wanted.place.startswith("job/"):
        return wanted.place
    id_ = wanted.place.split("/")[1]
    nodes = next((job.nodes for job in snapshot.jobs if job.id == id_), ())
    return next((name for name in nodes if name in snapshot.by_name), wanted.place)
