"""Slurm's text: both forms of records, states, signed reasons, GPUs, output paths, squeue, topology, and junk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.errors import DataError
from stethoscope.parse.slurm import (
    gpu_count,
    job_id,
    node_list,
    output_path,
    read_scontrol,
    read_squeue,
    signed_reason,
    states,
    utc,
)
from stethoscope.parse.slurm_topology import read_topology

NODES = """\
NodeName=gpu001 Arch=x86_64 CoresPerSocket=48
   CPUAlloc=0 CPUEfctv=192 CPUTot=192 CPULoad=8.62
   AvailableFeatures=h100,ib
   ActiveFeatures=h100,ib
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=10.0.0.1 NodeHostName=node-a Port=17001 Version=22.05.8
   OS=Linux 5.15.0 #1 SMP PREEMPT_DYNAMIC @0
   State=IDLE+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=train,all
   NewField=what nobody knows
   CfgTRES=cpu=192,mem=2063000M,billing=192
   Reason=NHC: check_hw_ib:  No IB port is ACTIVE (State=DOWN). [root@2026-03-14T02:14:07]
   Comment=case 4711

NodeName=gpu002 CoresPerSocket=48
   Gres=(null)
   NodeAddr=gpu002 NodeHostName=gpu002
   State=DOWN*+DRAIN ThreadsPerCore=2
   CfgTRES=cpu=192,gres/gpu=8,gres/gpu:h100=8
   Reason=line one [bob@2026-03-14T02:00:00]
       State=IDLE

NodeName=bad;name State=IDLE

NodeName=cpu001 State=ALLOCATED Gres=(null)
"""
ONE_LINE = (
    "NodeName=c1 Arch=x86_64 CoresPerSocket=1  Gres=gpu:a:2,gpu:b:2 NodeAddr=172.23.0.7 NodeHostName=c1 Version=25.11.2"
    " OS=Linux 6.18 #1 SMP  State=MIXED+DRAIN+MAINTENANCE+RESERVED Partitions=cpu,high"
    "  Reason=planned maintenance, see Ticket=5 [root@2026-07-22T23:31:17] ReservationName=maintenance-2026\n"
    "NodeName=c2 State=IDLE Partitions=cpu\n"
)
JOBS = """\
JobId=4242 JobName=llm 70b NodeList=evil[1-9]
   UserId=alice(1001) GroupId=research(1001) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   StartTime=2026-03-14T01:00:00 EndTime=Unknown Deadline=N/A
   Partition=train AllocNode:Sid=login:2681
   NodeList=gpu[001-003,007]
   BatchHost=gpu001
   Features=h100 DelayBoot=00:00:00
   Command=/home/alice/run.sh --key NodeList=evil
   Comment=note
   StdErr=/shared/%x-%j.err
   StdOut=/shared/%u/%x-%5j-%N-%t.out

JobId=77 ArrayJobId=70 ArrayTaskId=7 JobName=array
   UserId=bob(2) JobState=RUNNING Partition=train
   NodeList=gpu009
   StdOut=/shared/slurm-%A_%a.out

JobId=x JobName=broken
"""


def test_records_of_many_lines() -> None:
    read = read_scontrol(NODES)
    assert read.lost == 1
    first, second, third = read.nodes
    assert (first.name, first.address, first.hostname, first.gpus, first.gpu_model) == (
        "gpu001", "10.0.0.1", "node-a", 8, "h100",
    )  # fmt: skip
    assert first.states == ("idle", "drain")
    assert first.reason == "NHC: check_hw_ib:  No IB port is ACTIVE (State=DOWN)."
    assert (first.owner, first.since, first.comment) == ("root", 1_773_454_447.0, "case 4711")
    assert (first.partitions, first.features, first.version) == (("train", "all"), "h100,ib", "22.05.8")
    # What stands in a reason of several lines is no state.
    assert second.states == ("down", "not_responding", "drain")
    assert (second.gpus, second.gpu_model, second.owner) == (8, "h100", "bob")
    assert (third.name, third.gpus, third.states) == ("cpu001", 0, ("allocated",))


def test_records_of_one_line() -> None:
    first, second = read_scontrol(ONE_LINE).nodes
    assert first.states == ("mixed", "drain", "maintenance", "reserved")
    assert (first.reason, first.owner) == ("planned maintenance, see Ticket=5", "root")
    assert (first.reservation, first.gpus, first.gpu_model) == ("maintenance-2026", 4, "a,b")
    assert second.states == ("idle",)


def test_jobs() -> None:
    read = read_scontrol(JOBS)
    assert read.lost == 1
    job, task = read.jobs
    assert (job.id, job.name, job.state, job.user) == ("4242", "llm 70b NodeList=evil[1-9]", "running", "alice")
    assert job.nodes == ("gpu001", "gpu002", "gpu003", "gpu007")
    assert job.stdout == "/shared/alice/llm 70b NodeList=evil[1-9]-04242-gpu001-%t.out"
    assert (job.features, job.comment, job.started) == ("h100", "note", 1_773_450_000.0)
    assert (task.id, task.stdout) == ("70_7", "/shared/slurm-70_7.out")


def test_partitions() -> None:
    read = read_scontrol(
        "PartitionName=p1 AllowGroups=ALL Nodes=n[1-3],m[07-08] State=UP TotalNodes=5\nPartitionName=p2\n"
    )
    assert [(p.name, len(p.nodes), p.state) for p in read.partitions] == [("p1", 5, "up"), ("p2", 0, "")]


def test_squeue_with_a_name_of_its_own_making() -> None:
    read = read_squeue(
        "4242|RUNNING|train|alice|2026-03-14T01:00:00|gpu001|gpu[001-002]|a|b name\n"
        "70_7|COMPLETING|train|bob|N/A|gpu009|gpu009|x\n"
        "nonsense\n1;id|RUNNING|p|u|N/A|n|n|x\n"
    )
    assert read.lost == 2
    assert [(job.id, job.state, job.nodes, job.name) for job in read.jobs] == [
        ("4242", "running", ("gpu001", "gpu002"), "a|b name"),
        ("70_7", "completing", ("gpu009",), "x"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IDLE+DRAIN", ("idle", "drain")),
        ("DOWN*+DRAIN", ("down", "not_responding", "drain")),
        ("drained*", ("idle", "drain", "not_responding")),
        ("drng", ("allocated", "drain")),
        ("ALLOCATED+MAINTENANCE", ("allocated", "maintenance")),
        ("IDLE+PLANNED", ("idle", "planned")),
        ("idle~", ("idle", "powered_down")),
        ("IDLE+POWERED_DOWN", ("idle", "powered_down")),
        ("mix$", ("mixed", "maintenance")),
        ("UNKNOWN+DRAIN+INVALID_REG", ("unknown", "drain", "invalid_reg")),
        ("WHAT_NEXT", ("what_next",)),
        ("", ()),
    ],
)
def test_states(text: str, expected: tuple[str, ...]) -> None:
    assert states(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:h100:8(S:0-1)", (8, "h100")),
        ("gpu:8", (8, "")),
        ("gpu:nvidia_gb200:4(S:0-3)", (4, "nvidia_gb200")),
        ("gpu:h100:2,gpu:h200:4", (6, "h100,h200")),
        ("cpu=192,gres/gpu=8,gres/gpu:h100=8", (8, "h100")),
        ("nic:2,shard:16", (0, "")),
        ("(null)", (0, "")),
    ],
)
def test_gpus(text: str, expected: tuple[int, str]) -> None:
    assert gpu_count(text) == expected


def test_the_last_signature_of_a_reason_is_slurms() -> None:
    text = "was [eve@2020-01-01T00:00:00] then broken [root@2026-03-14T02:14:07]"
    assert signed_reason(text) == ("was [eve@2020-01-01T00:00:00] then broken", "root", 1_773_454_447.0)
    assert signed_reason("no signature") == ("no signature", "", None)
    assert utc("Unknown") is None


def test_escape_codes_do_not_come_through() -> None:
    read = read_scontrol("NodeName=n1 State=DOWN Reason=\x1b[31mred\x1b]0;title\x07\u202e [root@2026-03-14T02:14:07]\n")
    assert read.nodes[0].reason == "red"


def test_output_paths() -> None:
    assert output_path("/l/%x-%j-%N.out", job="7", name="a/b", node="n1") == "/l/a_b-7-n1.out"
    assert output_path("/l/%4j_%%_%Q.out", job="7") == "/l/0007_%_%Q.out"
    assert output_path("(null)", job="7") == ""


@pytest.mark.parametrize("text", ["1", "4242_7", "4242+1", "3_[1-4%2]"])
def test_job_ids(text: str) -> None:
    assert job_id(f" {text} ") == text


@pytest.mark.parametrize("text", ["", "1;id", "$(id)", "-1", "1 2", "٣"])
def test_what_is_no_job_id(text: str) -> None:
    with pytest.raises(ValueError, match="is not a job"):
        job_id(text)


def test_node_lists() -> None:
    assert node_list("(null)") == ()
    assert len(node_list("node[0201-0272,0281-0932,1069-2468,4000-4455]")) == 2580
    with pytest.raises(ValueError, match="not a node"):
        node_list("a;b")


@given(st.text(alphabet=st.sampled_from(list("NodeNameJobId=State+* []@(),\n\x1b|0123:-_aReason")), max_size=400))
def test_junk_costs_itself(text: str) -> None:
    for read in (read_scontrol(text), read_scontrol(f"NodeName=n1 {text}"), read_squeue(text)):
        for node in read.nodes:
            assert (node.reason + node.comment + "".join(node.states)).isprintable()


@given(st.text(max_size=200))
def test_any_reason_is_read_back_clean(reason: str) -> None:
    read = read_scontrol(
        f"NodeName=n1 State=IDLE+DRAIN\n   Reason={reason.splitlines()[0] if reason.splitlines() else ''}\n"
    )
    assert read.nodes[0].states == ("idle", "drain")
    assert read.nodes[0].reason.isprintable()


TREE = """\
# made by hand
SwitchName=s1 Nodes=gpu[001-004] LinkSpeed=1
SwitchName=s2 Level=0 \\
    Nodes=gpu[005-008]
SwitchName=top Switches=s[1-2]
"""


def test_a_tree() -> None:
    read = read_topology(TREE)
    assert (read.kind, read.leaf["gpu001"], read.leaf["gpu008"]) == ("tree", "s1", "s2")
    assert read.above == {"s1": "top", "s2": "top"}


def test_blocks() -> None:
    read = read_topology("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n")
    assert (read.kind, read.leaf) == ("block", {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2"})


@pytest.mark.parametrize("text", ["Nodes=n1", "\n\nSwitchName=a Nodes=n[1-"])
def test_a_broken_topology_names_its_line(text: str) -> None:
    with pytest.raises(DataError, match=r"topology.conf:\d"):
        read_topology(text)
