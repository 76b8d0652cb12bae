"""Whatever nodes send, in whatever order: the fold holds, a number is there exactly where the reason says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stethoscope.analysis.fold import FleetState
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import Reason, Scope
from stethoscope.parse.stream import parse
from tests.builders import catalogue

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Table


@dataclass
class Spec:
    name: str
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    tick_s: float = 2.0
    expected_gpus: int | None = 3


words = st.sampled_from(["hung", "lost", "unsupported", "permission", "nonsense"])
cells = st.none() | words | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e18, 1e18)
METRICS = {
    Scope.GPU: ["gpu_temp", "gpu_sm_clock", "nvlink_rx", "nvlink_tx", "gpu_xid_events", "unknown"],
    Scope.PORT: ["ib_port_rate", "ib_symbol_error", "ib_link_downed", "ib_hw_out_of_buffer"],
    Scope.NODE: ["load1", "cpu_util", "node_reachable", "node_data_age"],
}


@st.composite
def lists(draw: st.DrawFn, scope: Scope, length: int) -> dict[str, list[Any]]:
    wrong = draw(st.integers(0, 20)) == 0
    row = st.lists(cells, min_size=0 if wrong else length, max_size=length + 2 if wrong else length)
    return draw(st.dictionaries(st.sampled_from(METRICS[scope]), row, max_size=4))


@st.composite
def steps(draw: st.DrawFn) -> list[Any]:
    """Messages of one node, links in between; sequence numbers mostly right."""
    made: list[Any] = []
    seq, mono, gpus, ports = 0, 100.0, 2, 2
    for _ in range(draw(st.integers(1, 10))):
        what = draw(st.sampled_from(["hello", "full", "delta", "delta", "delta", "event", "link", "look"]))
        mono += draw(st.sampled_from([2.0, 2.0, 0.0, 0.01, -1.0]))
        seq = 0 if what == "hello" else max(0, seq + draw(st.sampled_from([1, 1, 1, 1, 2, 0])))
        head: dict[str, Any] = {"seq": seq, "mono": max(0.0, mono), "wall": 1e9 + mono}
        node = draw(st.dictionaries(st.sampled_from(METRICS[Scope.NODE]), cells, max_size=3))
        notes = draw(st.sampled_from([{}, {"nvml": "hung"}, {"kernel_log": "permission"}]))
        if what == "look":
            made.append(None)
        elif what == "link":
            made.append(draw(st.sampled_from(LinkState)))
        elif what == "hello":
            made.append(wire.Hello(**head, boot_id=draw(st.sampled_from(["a", "b"]))))
        elif what == "event":
            made.append(wire.Event(**head, source="kernel", text="NVRM: Xid (PCI:0000:10:00): 79, lost", at=1e9))
        elif what == "full":
            names = draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4))
            devices = draw(st.lists(st.sampled_from(["mlx5_0", "mlx5_1", "mlx5_2"]), unique=True, max_size=3))
            gpus, ports = len(names), len(devices)
            identities = [
                wire.GpuIdentity(index, "", f"GPU-{name}", f"0000:{index + 16:02x}:00.0")
                for index, name in enumerate(names)
            ]
            made.append(
                wire.Full(
                    **head,
                    gpus=identities,
                    ports=[wire.PortIdentity(device) for device in devices],
                    node=node,
                    gpu=draw(lists(Scope.GPU, gpus)),
                    port=draw(lists(Scope.PORT, ports)),
                    notes=notes,
                )
            )
        else:
            part = {"gpu": draw(lists(Scope.GPU, gpus)), "port": draw(lists(Scope.PORT, ports)), "node": node}
            made.append(wire.Delta(**head, **part, notes=draw(st.none() | st.just(notes))))
    return made


def check_table(table: Table) -> None:
    present = table.reasons == Reason.PRESENT
    assert (np.isnan(table.values) == ~present).all()
    rates = table.values[: len(table.counters)]
    assert table.metrics[: len(table.counters)] == table.counters
    assert not (rates[present[: len(table.counters)]] < 0).any()
    assert set(np.unique(table.reasons)) <= {int(reason) for reason in Reason}
    counting = {Reason.PRESENT, Reason.ONE_READING, Reason.RESET, Reason.SATURATED}
    has_rate = np.isin(table.reasons[: len(table.counters)], [int(reason) for reason in counting])
    assert (has_rate == (table.total_reasons == Reason.PRESENT)).all()


def check(snapshot: FleetSnapshot) -> None:
    for table in snapshot.tables.values():
        check_table(table)
    for scope in (Scope.GPU, Scope.PORT):
        rows = [row for node in snapshot.nodes for row in snapshot.rows(node, scope)]
        assert len(rows) == len(set(rows))
        assert not rows or max(rows) < snapshot.tables[scope].values.shape[1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(st.sampled_from(["n1", "n2"]), steps()), max_size=3))
def test_the_fold_holds(runs: list[tuple[str, list[Any]]]) -> None:
    state = FleetState(catalogue(), [Spec("n1"), Spec("n2")], "test")
    mono = 0.0
    for node, made in runs:
        for one in made:
            mono += 1
            if one is None:
                check(state.snapshot(mono, mono))
            elif isinstance(one, LinkState):
                state.set_link(node, Link(one, mono))
            else:
                raw = wire.encode(one)
                state.apply(Frame(node, mono, mono, raw), parse(raw))
    check(state.snapshot(mono, mono))
    assert set(state.take_full_requests()) <= {"n1", "n2"}
