"""Reads conditions that compare no number: why a value is `missing`, the `link` of a node, an `xid` of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.model.frame import LinkState
from stethoscope.model.metric import REASON_WORDS, Reason
from stethoscope.specs.condition import MAX_WINDOW_S, Absent, Condition, Held, LinkIs, XidSeen

if TYPE_CHECKING:
    from stethoscope.specs.condition_read import ConditionReader, Path


def read_absent(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the condition `{metric: gpu_temp, missing: [lost, hung]}`."""
    reader.only(data, ("metric", "missing", "window", "for"), path)
    metric = reader.metric(data, path)
    known = {word: reason for reason, word in REASON_WORDS.items() if reason is not Reason.PRESENT}
    words = reader.listed(data["missing"])
    reasons = tuple(known[reader.word(word, known, "reason", (*path, "missing"))] for word in words)
    window_s = reader.window(data, metric, path)
    absent = Absent(metric.id, reasons)
    return Held(absent, window_s) if window_s else absent


def read_link(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the condition `{link: [silent, closed]}`."""
    reader.only(data, ("link", "for"), path)
    known = [state.value for state in LinkState]
    here = (*path, "link")
    return LinkIs(
        tuple(LinkState(reader.word(word, known, "link state", here)) for word in reader.listed(data["link"]))
    )


XID_NAME = "dcgm_fi_dev_xid_errors"
"""What DCGM calls the last Xid of a GPU: here the kernel log is asked."""


def as_xid(reader: ConditionReader, data: dict[Any, Any], path: Path) -> dict[Any, Any]:
    """Return a comparison with the last Xid as a question to the kernel log: above 0 is any, 79 that one."""
    reader.only(data, ("metric", "operator", "threshold", "window", "for", "aggregate"), path)
    asked = (data.get("operator"), str(data.get("threshold")).strip())
    kept = {key: data[key] for key in ("window", "for") if key in data}
    if asked in ((">", "0"), ("!=", "0"), (">=", "1")):
        return {"xid": "any", **kept}
    if asked[0] == "==" and asked[1].isdecimal() and asked[1] != "0":
        return {"xid": int(asked[1]), **kept}
    if asked in (("==", "0"), ("<=", "0"), ("<", "1")):
        return {"not": {"xid": "any", **kept}}
    raise reader.error("an Xid is a kind, not an amount: above 0 for any, == 79 for one, or {xid: [48, 63]}", path)


def read_xid(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the condition `{xid: [48, 63], window: 10m}`, or `xid: any`."""
    reader.only(data, ("xid", "window", "for"), path)
    codes: list[Any] = [] if data["xid"] == "any" else reader.listed(data["xid"])
    if any(not isinstance(code, int) or isinstance(code, bool) for code in codes):
        raise reader.error("xid is a number, a list of numbers, or any", (*path, "xid"))
    window_s = reader.duration(data["window"], (*path, "window")) if "window" in data else MAX_WINDOW_S
    return XidSeen(tuple(codes), window_s)
