"""The bell rings for a new P0 and for nothing else; the title says what is found, once, and goes back."""

from __future__ import annotations

from dataclasses import replace

from stethoscope.session.night import NightKeeper
from stethoscope.ui.heard import Heard
from tests.builders import WALL
from tests.ui.scenes import healthy, troubled


def test_the_bell() -> None:
    written: list[str] = []
    heard = Heard(written.append, bell=True, title=False)
    findings = troubled().findings
    urgent = [finding for finding in findings if finding.severity.value == "P0"]
    others = [finding for finding in findings if finding.severity.value != "P0"]
    assert urgent
    heard.found(others)
    assert written == []
    heard.found(urgent)
    assert written == ["\x07"]
    Heard(written.append, bell=False, title=False).found(urgent)
    assert written == ["\x07"]


def test_the_title() -> None:
    written: list[str] = []
    heard = Heard(written.append, bell=False, title=True)
    calm = healthy(2)
    heard.show(calm)
    heard.show(calm)
    heard.show(replace(calm, fleet="\x1b]0;evil\x07prod"))
    heard.end()
    assert written == [
        "\x1b[22;2t",
        f"\x1b]2;quiet {calm.fleet} - stethoscope\x07",
        "\x1b]2;quiet prod - stethoscope\x07",
        "\x1b[23;2t",
    ]
    heard = Heard(written.append, bell=False, title=True)
    heard.show(troubled())
    assert written[-1].startswith("\x1b]2;P0:2 P1:3 P2:1 ")
    night = NightKeeper()
    night.take(troubled().findings, WALL)
    for finding in troubled().findings:
        if finding.severity.value != "P2":
            night.acknowledge(finding.id, WALL)
    heard.show(replace(troubled(), night=night.entries))
    assert written[-1].startswith("\x1b]2;P2:1 (5 seen) ")
