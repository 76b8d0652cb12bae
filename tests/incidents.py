"""Two incidents with everything that is known of them; a test says what of one it is about."""

from __future__ import annotations

from stethoscope.model.finding import Severity
from stethoscope.model.incident import Incident, Link, Status, Times

LOST_GPU = Incident(
    id="INC-2026-03-14-k7qmx",
    title="GPU 掉卡 on gpu-014",
    status=Status.RESOLVED,
    severity=Severity.P0,
    root_cause="gpu_fallen_off_bus",
    component="pcie",
    fleet="prod",
    nodes="gpu-014",
    places=("gpu-014/gpu/3",),
    around=("leaf/leaf-01", "rack/r3"),
    job="4242",
    symptoms=("xid.79", "gpu_lost"),
    resolution="The riser was reseated, then replaced.",
    tags=("replaced",),
    author="Li Wei",
)
SICK_OPTIC = Incident(
    id="INC-2026-03-14-k7qmx",
    title="Sick optic slows job 4242",
    status=Status.RESOLVED,
    root_cause="ib_link_fault",
    component="optic",
    times=Times(1773454258.0, 1773454280.0, 1773454447.0, 1773455000.0, 1773461000.0),
    nodes="gpu-007",
    places=("gpu-007/ib/mlx5_3",),
    symptoms=("ib_symbol_errors", "xid.79"),
    resolution="光模块更换后恢复",
    links=(Link("ticket", "OPS-12"),),
    author="kim",
)
