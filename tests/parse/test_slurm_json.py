"""Slurm's JSON in the shapes of its versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.parse.slurm_json import read_json

OLD: dict[str, Any] = {
    "name": "gpu1", "address": "10.0.0.1", "hostname": "gpu1", "state": "idle", "state_flags": ["DRAIN"],
    "gres": "gpu:h100:7", "partitions": ["train"], "reason": "Kill task failed", "reason_set_by_user": "root",
    "reason_changed_at": 1_795_963_247, "features": "h100", "active_features": "h100", "slurmd_version": "22.05.9",
}  # fmt: skip
NEW: dict[str, Any] = {
    "name": "gpu2", "address": "gpu2", "hostname": "gpu2", "state": ["MIXED", "DRAIN"], "gres": "gpu:a:2,gpu:b:4",
    "partitions": ["train"], "reason": "ECC", "reason_set_by_user": "bob", "features": [], "active_features": ["x"],
    "reason_changed_at": {"set": True, "infinite": False, "number": 1_762_858_462}, "version": "24.11.5",
    "comment": "c", "reservation": "",
}  # fmt: skip


def test_nodes_of_two_generations() -> None:
    read = read_json(json.dumps({"nodes": [OLD, NEW, {"name": "a b"}, 7], "errors": []}))
    assert read.lost == 2
    old, new = read.nodes
    assert (old.states, old.gpus, old.reason, old.owner, old.since) == (
        ("idle", "drain"), 7, "Kill task failed", "root", 1_795_963_247,
    )  # fmt: skip
    assert (new.states, new.gpus, new.gpu_model, new.since, new.version) == (
        ("mixed", "drain"), 6, "a,b", 1_762_858_462, "24.11.5",
    )  # fmt: skip


def test_a_reason_that_is_not_there_has_no_owner_and_no_time() -> None:
    node = {**NEW, "reason": "", "reason_changed_at": {"set": True, "infinite": False, "number": 0}}
    read = read_json(json.dumps({"nodes": [node]})).nodes[0]
    assert (read.owner, read.since) == ("", None)


def test_jobs_and_partitions() -> None:
    job = {
        "job_id": 4777, "name": "wrap", "job_state": ["RUNNING"], "user_name": "alice", "nodes": "gpu[1-2]",
        "batch_host": "gpu1", "partition": "gpu", "array_job_id": {"set": True, "number": 4000},
        "array_task_id": {"set": True, "infinite": False, "number": 0}, "standard_output": "/l/%A_%a-%j.out",
        "start_time": {"set": True, "infinite": False, "number": 1_762_789_997}, "comment": {"job": "hello"},
    }  # fmt: skip
    partition = {"name": "gpu", "nodes": {"configured": "gpu[1-2]"}, "partition": {"state": ["UP"]}}
    read = read_json(json.dumps({"jobs": [job], "partitions": [partition]}))
    assert (read.jobs[0].id, read.jobs[0].state, read.jobs[0].nodes) == ("4000_0", "running", ("gpu1", "gpu2"))
    assert (read.jobs[0].stdout, read.jobs[0].comment) == ("/l/4000_0-4777.out", "hello")
    assert (read.partitions[0].nodes, read.partitions[0].state) == (("gpu1", "gpu2"), "up")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"errors": [{"description": "Failure to query node\\u001b[31m n1"}]}', "Failure to query node n1"),
        ("{}", "names no nodes"),
        ("[]", "not a document"),
        ("scontrol: unrecognized option", "not JSON"),
    ],
)
def test_what_is_no_answer_says_why(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_json(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(NEW)), VALUES))
def test_a_field_of_any_shape_costs_its_record_at_most(changes: dict[str, Any]) -> None:
    read = read_json(json.dumps({"nodes": [{**NEW, **changes}, OLD]}))
    assert len(read.nodes) + read.lost == 2
    assert read.nodes[-1].name == "gpu1"
