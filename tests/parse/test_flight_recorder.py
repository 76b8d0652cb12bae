"""Flight recorder dumps of all versions: pickle and JSON, groups, how far a rank came, whose program asked."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.errors import DataError
from stethoscope.parse.flight_recorder import rank_of_name, read_dump
from tests.flight_dumps import START_NS, call, dump

WORLD = {"0": ("default_pg", [0, 1])}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/tmp/nccl_trace_rank_7", 7), ("x/_dump_12", 12), ("_dump_12.json", 12), ("rank7.pickle", 7),
        ("rank-3.pkl.gz", 3),
        ("job8/trace", None), ("trace", None), ("nccl_trace_rank_511_copy2", 511),
    ],
)  # fmt: skip
def test_the_rank_is_in_the_name(name: str, rank: int | None) -> None:
    assert rank_of_name(name) == rank


@pytest.mark.parametrize("form", ["json", 2, 4])
def test_pickle_and_json_say_the_same(form: Any) -> None:
    document = dump([call(5, 9, where="train.py:212:step")], WORLD, {"0": (9, 8)})
    data = json.dumps(document).encode() if form == "json" else pickle.dumps(document, form)
    found = read_dump(data, "nccl_trace_rank_1")
    assert (found.rank, found.version, found.nccl_version) == (1, "2.9", "2.27.3")
    assert found.groups == {"0": ("default_pg", (0, 1))}
    assert (found.standings["0"].enqueued, found.standings["0"].completed) == (9, 8)
    (only,) = found.calls
    assert (only.group, only.seq, only.op, only.state, only.order) == ("0", 9, "all_reduce", "scheduled", 5)
    assert (only.inputs, only.dtypes, only.timeout_s) == (((1024,),), ("BFloat16",), 600.0)
    assert (only.created_ns, only.where) == (START_NS + 5_000_000_000, "train.py:212 step")


def test_the_first_version_is_a_bare_list() -> None:
    entry = {
        "id": 3,
        "pg_id": 0,
        "seq_id": 4,
        "profiling_name": "nccl:broadcast",
        "state": "started",
        "input_sizes": [[]],
    }
    found = read_dump(pickle.dumps([entry], 2), "nccl_trace_rank_0")
    assert (found.version, found.groups) == ("1", {"0": ("", ())})
    assert [(c.seq, c.op, c.state, c.order, c.inputs) for c in found.calls] == [(4, "broadcast", "started", 3, ((),))]


def test_sends_name_their_peer_by_its_place_in_the_group() -> None:
    entries = [call(1, 5, "send 0->3"), call(2, 5, "recv 0<-3", is_p2p=True)]
    found = read_dump(json.dumps(dump(entries, WORLD)).encode(), "rank0")
    assert [(c.op, c.peer, c.is_p2p) for c in found.calls] == [("send", 3, True), ("recv", 3, True)]


def test_the_numbers_of_the_status_are_those_of_the_process() -> None:
    groups = {"0": ("default_pg", [0, 1]), "35": ("TP", [0, 1]), "112": ("DP", [0])}
    status = {"0": (3, 3), "5": (9, 8), "17": (1, 1)}
    entry = call(1, 9, group=("35", "TP"), pg_id=5)
    found = read_dump(json.dumps(dump([entry], groups, status)).encode(), "rank0")
    assert {name: s.enqueued for name, s in found.standings.items()} == {"0": 3, "35": 9, "112": 1}


def test_a_name_without_a_rank_is_found_in_the_groups_or_asked_for() -> None:
    groups = {"0": ("default_pg", [0, 1, 2]), "1": ("TP", [0, 2]), "2": ("PP", [1, 2])}
    assert read_dump(json.dumps(dump([], groups)).encode(), "trace").rank == 2
    with pytest.raises(DataError, match="whose dump is it"):
        read_dump(json.dumps(dump([], WORLD)).encode(), "trace")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"a log line\n", "neither a pickle nor JSON"),
        (b"[" * 100_000, "neither a pickle nor JSON"),
        (b"{}", "neither entries nor groups"),
        (b'{"entries": 7}', "it has no entries"),
        (b"7", "it has no entries"),
        (b"\x80\x02cos\nsystem\n.", "it asks for code to be run (GLOBAL os.system)"),
        (b"\x80\x02}", "cut short"),
        (b'{"entries": ' + b"9" * 5000 + b"}", "neither a pickle nor JSON"),
    ],
)
def test_what_is_no_dump_is_said_to_be_none(data: bytes, why: str) -> None:
    with pytest.raises(DataError) as error:
        read_dump(data, "rank0")
    assert why in str(error.value)
    assert str(error.value).startswith("rank0: ")


def test_text_of_a_dump_is_cleaned() -> None:
    entry = call(1, 1, "all\x1b[31m_reduce", group=("0", "TP\x07"))
    found = read_dump(json.dumps(dump([entry], {})).encode(), "rank0")
    assert found.calls[0].op == "all_reduce"
    assert found.groups["0"][0] == "TP"


ODD = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2) | st.booleans()


@given(
    st.dictionaries(st.sampled_from(list(call(1, 1))), ODD), st.dictionaries(st.sampled_from(list(dump([], {}))), ODD)
)
def test_fields_of_any_kind_are_taken(entry: dict[str, Any], document: dict[str, Any]) -> None:
    whole = dump([call(1, 1) | entry, entry], WORLD) | document
    try:
        read_dump(json.dumps(whole).encode(), "rank0")
    except DataError:
        assert not isinstance(whole["entries"], list)


@given(st.dictionaries(st.text(max_size=4), ODD | st.dictionaries(st.text(max_size=4), ODD), max_size=4))
def test_tables_with_any_keys_are_taken(table: dict[str, Any]) -> None:
    for name in ("pg_config", "pg_status"):
        read_dump(json.dumps(dump([call(1, 1)], WORLD) | {name: table}).encode(), "rank0")
    read_dump(json.dumps(dump([], WORLD) | {"pg_status": {"1\x16": {}}}).encode(), "rank0")
