"""The judge answers whatever the events are: random signatures, fields, times and origins."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.judge import judge
from stethoscope.analysis.judge_scene import KERNEL_FAMILIES
from stethoscope.model.finding import Severity
from stethoscope.model.logs import Event, Log, LogFile, Origin, Seen
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.signature import load_signatures

SIGNATURES = load_signatures()
CAUSES = load_root_causes()
IDS = sorted(SIGNATURES.by_id)
OF_JOBS = [name for name in IDS if name.partition(".")[0] not in KERNEL_FAMILIES]
TEXTS = ["", "rank 3: loss nan", "[PG ID 1 PG GUID 7 Rank 2] x", "Connect to 10.0.0.1<5> failed", "x" * 300]
VALUES = st.one_of(
    st.integers(-2, 600),
    st.sampled_from(["", "10.0.0.1", "n1", "n2.example", "12", "Socket", "[0]mlx5_0:1/RoCE", "nan"]),
)
NAMES = [
    "rank",
    "local_rank",
    "nranks",
    "world",
    "dev",
    "seq",
    "op",
    "numel_in",
    "enq",
    "done",
    "timeout_ms",
    "ranks",
    "next",
    "host",
    "node",
    "peer",
    "ip",
    "pid",
    "status",
    "hca",
    "list",
    "net",
    "ver",
    "var",
    "val",
    "code",
    "what",
    "text",
    "type",
    "busbw",
    "size",
    "n",
    "percent",
    "path",
    "reason",
    "why",
    "task",
    "more",
    "field",
    "value",
    "score",
    "joined",
    "err",
    "errno",
    "local_gid",
    "remote_gid",
    "ifname",
    "it",
    "total",
    "ms",
    "count",
    "root",
    "gpu",
    "node_host",
    "from_rank",
]
ORIGINS = st.builds(
    Origin,
    host=st.sampled_from([None, "n1", "n2", "10.0.0.1"]),
    rank=st.one_of(st.none(), st.integers(0, 20)),
    local_rank=st.one_of(st.none(), st.integers(0, 7)),
    task=st.one_of(st.none(), st.integers(0, 20)),
    cuda_device=st.one_of(st.none(), st.integers(0, 7)),
    pid=st.one_of(st.none(), st.integers(1, 50)),
)
EVENTS = st.builds(
    Event,
    signature=st.one_of(st.sampled_from(OF_JOBS), st.sampled_from(IDS)),
    role=st.sampled_from(["cause", "symptom", "either", "context", "benign"]),
    severity=st.sampled_from([Severity.P0, Severity.P1, Severity.P2, Severity.INFO]),
    text=st.sampled_from(TEXTS),
    file=st.integers(0, 1),
    line=st.integers(1, 200),
    at=st.one_of(st.none(), st.integers(1_773_000_000, 1_773_009_000).map(float)),
    at_is_near=st.booleans(),
    origin=ORIGINS,
    fields=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8),
    count=st.integers(1, 40),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(EVENTS, max_size=40),
    st.lists(st.builds(Seen, origin=ORIGINS, last_text=st.sampled_from(TEXTS)), max_size=4),
)
def test_any_events_have_a_verdict(events: list[Event], seen: list[Seen]) -> None:
    log = Log([LogFile("a", lines=200), LogFile("b", lines=200)], events, seen, lines=400)
    verdict, others = judge(log, SIGNATURES)
    assert len(others) <= 2
    for one in (verdict, *others):
        assert one.root_cause in CAUSES
        assert 0.0 <= one.confidence <= 1.0
        assert len(one.culprits) <= 6
        assert one.summary
    if verdict.root_cause == "healthy":
        assert not others
