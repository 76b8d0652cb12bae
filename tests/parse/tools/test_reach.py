"""What reach.sh prints, and what that means."""

from __future__ import annotations

from stethoscope.parse.tools.reach import read


def test_a_filter_that_refuses_looks_like_a_closed_port_and_that_is_said() -> None:
    report = read(
        "peer gpu-002 address 10.2.0.2 over bond0\npeer gpu-002 ping answers\npeer gpu-002 tcp/22 connects\n"
        "peer gpu-002 tcp/29500 refused\npeer gpu-002 tcp/41233 refused\n"
        "peer gpu-003 address 10.2.0.3 over bond0\npeer gpu-003 ping answers\npeer gpu-003 tcp/29500 no answer\n"
    )
    assert report.remarks == (
        "gpu-002: tcp/41233 is being tried and refused: nobody listens, or a filter refuses it; ss on gpu-002 tells "
        "which",
        "gpu-003: tcp/29500 is not answered, ping is: a filter between",
    )
