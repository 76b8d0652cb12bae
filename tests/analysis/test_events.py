"""The log lines that are kept: how many, of whom, and in which order."""

from __future__ import annotations

from stethoscope.analysis.events import KEPT, KEPT_OF_NODE, KEPT_XIDS, EventLog
from stethoscope.model.event import LogEvent


def line(node: str, text: str, *, xid: int | None = None, pci: str | None = None) -> LogEvent:
    return LogEvent(node, "kernel", text, 0.0, None, xid, pci)


def test_the_newest_of_all_nodes_in_the_order_in_which_they_came() -> None:
    log = EventLog()
    nodes = KEPT // 100
    for number in range(101):
        for node in range(nodes):
            log.add(line(f"n{node}", str(number)))
    events = log.newest()
    assert len(events) == KEPT
    assert [(event.node, event.text) for event in (events[0], events[-1])] == [("n0", "1"), (f"n{nodes - 1}", "100")]
    log.add(line("n0", "last"))
    assert [event.node for event in log.newest()[:2]] == ["n1", "n2"]


def test_a_node_displaces_only_its_own_lines() -> None:
    log = EventLog()
    log.add(line("quiet", "only"))
    for number in range(10 * KEPT):
        log.add(line("loud", str(number)))
    texts = [event.text for event in log.newest()]
    assert texts == ["only", *(str(number) for number in range(10 * KEPT - KEPT_OF_NODE, 10 * KEPT))]


def test_an_xid_stays_whatever_comes_after_it_from_elsewhere() -> None:
    log = EventLog()
    log.add(line("n1", "first", xid=79, pci="0000:1b:00"))
    for number in range(1_000):
        log.add(line("n1", f"xid {number}", xid=31, pci="0000:1c:00"))
        log.add(line("n1", f"line {number}"))
    events = log.newest()
    assert events[0].text == "first"
    assert [event.text for event in events if event.xid == 31] == [f"xid {n}" for n in range(1_000 - KEPT_XIDS, 1_000)]
    assert [event.text for event in events[-2:]] == ["xid 999", "line 999"]
