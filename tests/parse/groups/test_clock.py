"""The sign of the offset is one: above 0 the node is ahead of its source, whoever says it."""

from __future__ import annotations

import pytest

from stethoscope.model import wire
from tests.parse.groups.parts import facts

SLOW = "0A000001,10.0.0.1,3,1709727533.139866748,0.250000000,-0.000003372,0.0002,1.274,-0.005,0.161,0.01,0.02,64.2,"
NTPQ = """     remote           refid      st t when poll reach   delay   offset  jitter
==============================================================================
+10.0.0.2        .GPS.            1 u   33   64  377    0.210    9.000   0.020
*10.0.0.1        .GPS.            1 u   33   64  377    0.110   {offset}   0.010
"""


def test_chrony_says_slow_above_0() -> None:
    said = facts("clock", ran={"chrony": wire.Ran(out=SLOW + "Normal\n")})
    assert said.node == {"clock_offset": -0.25, "clock_synchronised": 1}
    assert said.words == {"time_source": "chrony"}


def test_chrony_without_a_source_has_no_offset() -> None:
    text = "00000000,,0,0.000000000,0.000000000,0.000000000,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n"
    said = facts("clock", ran={"chrony": wire.Ran(out=text)})
    assert said.node == {"clock_offset": "unsupported", "clock_synchronised": 0}


def test_a_daemon_that_follows_itself_is_not_synchronised() -> None:
    chrony = SLOW.replace("0A000001,10.0.0.1", "7F7F0101,") + "Normal\n"
    ntpd = NTPQ.format(offset="0.000").replace(".GPS.", ".LOCL.")
    for ran in ({"chrony": wire.Ran(out=chrony)}, {"ntpq": wire.Ran(out=ntpd)}):
        assert facts("clock", ran=ran).node == {"clock_offset": "unsupported", "clock_synchronised": 0}


@pytest.mark.parametrize(("offset", "expected"), [("+2.500", -0.0025), ("-12.000", 0.012), ("x", "error")])
def test_ntpd_says_milliseconds_that_the_peer_is_ahead(offset: str, expected: float | str) -> None:
    said = facts("clock", ran={"ntpq": wire.Ran(out=NTPQ.format(offset=offset))})
    assert said.node == {"clock_offset": expected, "clock_synchronised": 1}
    assert said.words == {"time_source": "ntpd"}


def test_ntpd_that_follows_no_peer() -> None:
    said = facts("clock", ran={"ntpq": wire.Ran(out=NTPQ.format(offset="1.0").replace("*", " "))})
    assert said.node == {"clock_offset": "unsupported", "clock_synchronised": 0}


def test_systemd_knows_whether_and_not_how_well() -> None:
    silent = wire.Ran(exit=1, out="506 Cannot talk to daemon\n")
    systemd = wire.Ran(out="Timezone=Etc/UTC\nNTP=yes\nNTPSynchronized=yes\nTimeUSec=Sun 2026-03-01\n")
    said = facts("clock", ran={"chrony": silent, "timedate": systemd, "ntpq": wire.Ran(status="absent")})
    assert said.node == {"clock_offset": "unsupported", "clock_synchronised": 1}
    assert said.words == {"time_source": "systemd-timesyncd"}


def test_nobody_knows() -> None:
    refused = wire.Ran(exit=1, err="System has not been booted with systemd as init system (PID 1).\n")
    ran = {"chrony": wire.Ran(status="absent"), "timedate": refused, "ntpq": wire.Ran(status="absent")}
    assert facts("clock", ran=ran).node == {"clock_offset": "unsupported", "clock_synchronised": "unsupported"}
    ran["chrony"] = wire.Ran(status="timeout")
    assert facts("clock", ran=ran).node == {"clock_offset": "hung", "clock_synchronised": "hung"}
