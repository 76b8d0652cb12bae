"""When a part or a node is said to keep coming back: `lemons:` of the user's `config.yaml`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import msgspec

from stethoscope.model.incident import LemonLimits
from stethoscope.specs.config import LEMONS, load_config
from stethoscope.specs.load import Spec, convert_part

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.specs.load import Loaded

_XID = re.compile(r"\d{1,6}")

Times = Annotated[int, msgspec.Meta(ge=2, le=1000)]
Days = Annotated[float, msgspec.Meta(gt=0.0, le=10_000.0)]


class OftenSpec(Spec, frozen=True):
    """So many times within so many days."""

    times: Times
    days: Days


class LemonsSpec(Spec, frozen=True):
    """`lemons:`; what is not said stays as it is."""

    signs: list[int | str] | None = None
    """Ids of signatures and rules; of Xids the number does."""
    sign: OftenSpec | None = None
    part: OftenSpec | None = None
    node: OftenSpec | None = None


def load_limits(path: Path | None = None) -> LemonLimits:
    """Return the limits of the user's settings, else the usual ones; raises DataError with the position."""
    loaded = load_config(path)
    return LemonLimits() if loaded is None else limits_of(loaded)


def limits_of(loaded: Loaded) -> LemonLimits:
    """Return the limits that settings hold."""
    usual, part = LemonLimits(), loaded.data.get(LEMONS)
    if part is None:
        return usual
    spec = convert_part(loaded, part, (LEMONS,), LemonsSpec)
    found = {}
    for name in ("sign", "part", "node"):
        often = getattr(spec, name)
        if often is not None:
            found[f"{name}_times"], found[f"{name}_days"] = often.times, often.days
    if spec.signs is not None:
        found["signs"] = tuple(f"xid.{sign}" if _XID.fullmatch(str(sign)) else str(sign) for sign in spec.signs)
    return LemonLimits(**found)
