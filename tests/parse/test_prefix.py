"""Peeling: every form that logs come in, what it says, and that no bytes can break it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.model.logs import Origin
from stethoscope.parse.prefix import LINE_LIMIT, Peeled, PeelState, peel
from stethoscope.parse.prefix_said import Outer
from stethoscope.text import clean

NEWEST = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
MESSAGE = "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus."


def wall(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def one(line: str | bytes, **state: object) -> Peeled:
    return peel(line, PeelState(newest=NEWEST, **state))


@pytest.mark.parametrize(
    ("prefix", "at", "uptime_s", "host"),
    [
        ("", None, None, None),
        ("kernel: ", None, None, None),
        ("[12345.678901] ", None, 12345.678901, None),
        ("[    5.112738] ", None, 5.112738, None),
        ("[  130.456250] [ T1946] ", None, 130.45625, None),
        ("[   60.419325][    C8] ", None, 60.419325, None),
        ("[12345.678901 <    0.000844>] ", None, 12345.678901, None),
        ("[12345.678901] node-a kernel: ", None, 12345.678901, "node-a"),
        ("<4>[12345.678901] ", None, 12345.678901, None),
        ("kern  :warn  : [12345.678901] ", None, 12345.678901, None),
        ("4,1227,437812449932,-;", None, 437812.449932, None),
        ("6,3973,227996636,-,caller=T1946;", None, 227.996636, None),
        ("[Fri Mar  6 04:44:24 2026] ", "2026-03-06T04:44:24Z", None, None),
        ("\x1b[32m[Fri Mar  6 04:44:24 2026] \x1b[0m\x1b[33m", "2026-03-06T04:44:24Z", None, None),
        ("> [Fri Mar  6 04:44:24 2026] ", "2026-03-06T04:44:24Z", None, None),
        ("> + [Fri Mar  6 04:44:24 2026] ", "2026-03-06T04:44:24Z", None, None),
        ("&gt; [Fri Mar  6 04:44:24 2026] ", "2026-03-06T04:44:24Z", None, None),
        ("[Mar14 02:07] ", "2026-03-14T02:07:00Z", None, None),
        ("2026-03-14T02:07:11,285060+00:00 ", "2026-03-14T02:07:11.285060Z", None, None),
        ("kern  :warn  : 2026-03-14T02:07:11,285060+00:00 ", "2026-03-14T02:07:11.285060Z", None, None),
        ("Mar 14 02:07:11 node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("Mar  4 02:07:11.104233 node-a kernel: ", "2026-03-04T02:07:11.104233Z", None, "node-a"),
        ("Mar 14 02:07:11 node-a kernel: [12345.678901] ", "2026-03-14T02:07:11Z", 12345.678901, "node-a"),
        ("kwi 14 02:07:11 node-a kernel: ", None, None, "node-a"),
        ("8月 18 02:07:11 node-a kernel: ", "2025-08-18T02:07:11Z", None, "node-a"),
        ("2026-03-14T02:07:11+0000 node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("2026-03-14T02:07:11-0700 node-a kernel: ", "2026-03-14T09:07:11Z", None, "node-a"),
        (
            "2026-03-14T02:07:11.104233+01:00 node-a kernel: [12345.678901] ",
            "2026-03-14T01:07:11.104233Z",
            12345.678901,
            "node-a",
        ),
        ("1773454031.104233 node-a kernel: ", "2026-03-14T02:07:11.104233Z", None, "node-a"),
        ("1773454031.104233 ", "2026-03-14T02:07:11.104233Z", None, None),
        ("Sat 2026-03-14 02:07:11 UTC node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("<4>1 2026-03-14T02:07:11.104233Z node-a kernel - - - ", "2026-03-14T02:07:11.104233Z", None, "node-a"),
        ('<4>1 2026-03-14T02:07:11Z node-a kernel - - [x y="z"] \ufeff', "2026-03-14T02:07:11Z", None, "node-a"),
        ("2026-03-14T02:07:11.104233412Z stdout F ", "2026-03-14T02:07:11.104233Z", None, None),
        ("2026-03-14T02:07:11.5Z stderr F Mar 14 02:07:11 node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("192.0.2.17: kern: warning: [2026-03-14T02:07:11.45899Z]: ", "2026-03-14T02:07:11.45899Z", None, "192.0.2.17"),
        (
            "192.0.2.17: kern:     err: [2026-03-14T02:07:11.458998481Z]: ",
            "2026-03-14T02:07:11.458998Z",
            None,
            "192.0.2.17",
        ),
        ("Fri Mar  6 04:44:24 2026 ", "2026-03-06T04:44:24Z", None, None),
        ("Fri Mar  6 04:44:24 UTC 2026: ", "2026-03-06T04:44:24Z", None, None),
        ("2026/03/14 02:07:11.5 ", "2026-03-14T02:07:11.5Z", None, None),
        ("INFO 2026-03-14 02:07:11,123 ", "2026-03-14T02:07:11.123Z", None, None),
        ('time="2026-03-14T02:07:11Z" ', "2026-03-14T02:07:11Z", None, None),
        ("ts=2026-03-14T02:07:11.1Z ", "2026-03-14T02:07:11.1Z", None, None),
        ("Mar 14 02:07:11 873641 [4A1F2700] 0x02 -> ", "2026-03-14T02:07:11.873641Z", None, None),
        ("E20260314 02:07:11.123456 2287 health.cc:159] ", "2026-03-14T02:07:11.123456Z", None, None),
        ("[Feb 25 2025 13:59:45] [INFO] [tid 1803] ", "2025-02-25T13:59:45Z", None, None),
        ("[12345.678901 <    0.000844 >] node-a kernel: ", None, 12345.678901, "node-a"),
        ("Mar 14 2026 02:07:11 node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("2026/03/14 02:07:11 node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("Mar 14 02:07:11 node-a kern.err kernel: [12345.678901] ", "2026-03-14T02:07:11Z", 12345.678901, "node-a"),
        ("Sat Mar 14 02:07:11 2026 kern.err kernel: [12345.678901] ", "2026-03-14T02:07:11Z", 12345.678901, None),
        ("/var/log/kern.log.2.gz:Mar 14 02:07:11 node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("kern.log:88:Mar 14 02:07:11 node-a kernel: ", "2026-03-14T02:07:11Z", None, "node-a"),
        ("logs/node-a1/dmesg:[12345.678901] ", None, 12345.678901, "node-a1"),
        ("1234:[12345.678901] ", None, 12345.678901, None),
        ("n7: [Fri Mar  6 04:44:24 2026] ", "2026-03-06T04:44:24Z", None, "n7"),
        ("node-a login: [12345.678901] ", None, 12345.678901, "node-a"),
        (
            "2026-03-14T02:07:11.127Z In(05) vcpu-5 - Guest: <3>[12345.678901] ",
            "2026-03-14T02:07:11.127Z",
            12345.678901,
            None,
        ),
        ('2026-03-14T02:07:11Z {app="syslog", host="node-a"} ', "2026-03-14T02:07:11Z", None, "node-a"),
    ],
)
def test_kernel_forms(prefix: str, at: str | None, uptime_s: float | None, host: str | None) -> None:
    peeled = one(prefix + MESSAGE + "\r")
    assert peeled.text.rstrip() == MESSAGE
    assert peeled.at == (pytest.approx(wall(at), abs=2e-6) if at else None)
    assert not peeled.at_is_near
    assert peeled.uptime_s == pytest.approx(uptime_s) if uptime_s is not None else peeled.uptime_s is None
    assert peeled.origin.host == host


NCCL = "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu-b<4421>"


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("gpu-a03:2210:2301 [2] ", {"host": "gpu-a03", "pid": 2210, "tid": 2301, "cuda_device": 2}),
        ("gpu-a03:2210:2301 ", {"host": "gpu-a03", "pid": 2210, "tid": 2301}),
        ("10.0.0.7:22:23 [0] ", {"host": "10.0.0.7", "pid": 22, "tid": 23, "cuda_device": 0}),
        (
            "[2026-03-14 02:07:11] gpu-a03:2210:2301 [2] ",
            {"host": "gpu-a03", "pid": 2210, "tid": 2301, "cuda_device": 2},
        ),
        ("[rank3]: ", {"rank": 3}),
        ("[rank3]:", {"rank": 3}),
        ("[rank: 3] ", {"rank": 3}),
        ("[0]<stderr>: ", {"rank": 0}),
        ("trainer-1  | ", {"pod": "trainer-1"}),
        ("[default3]:", {"local_rank": 3}),
        ("[trainer12]: ", {"local_rank": 12}),
        (" 12: ", {"task": 12}),
        ("12: gpu-a04:1:2 [1] ", {"task": 12, "host": "gpu-a04", "pid": 1, "tid": 2, "cuda_device": 1}),
        ("[1,12]<stdout>:", {"rank": 12}),
        ("[1,12]<stderr>: gpu-a04:1:2 [1] ", {"rank": 12, "host": "gpu-a04", "pid": 1, "tid": 2, "cuda_device": 1}),
        ("[prterun-gpu-a@1,5]<stdout>: ", {"rank": 5}),
        ("(RayWorkerWrapper pid=2301, ip=10.20.4.17) ", {"host": "10.20.4.17", "pid": 2301}),
        ("\x1b[36m(RayWorkerWrapper rank=3 pid=2301)\x1b[0m ", {"pid": 2301, "rank": 3}),
        ("(EngineCore_DP0 pid=1290) ", {"pid": 1290}),
        ("llm-worker-3: ", {"pod": "llm-worker-3"}),
        ("llm-worker-3 | ", {"pod": "llm-worker-3"}),
        ("llm-master-0 [rank0]: ", {"pod": "llm-master-0", "rank": 0}),
        ("[pod/llm-worker-3/trainer] ", {"pod": "llm-worker-3"}),
        ("gpu-a03: ", {"host": "gpu-a03"}),
        ("10.20.4.17: so-gpu-1:1:2 [1] ", {"host": "so-gpu-1", "pid": 1, "tid": 2, "cuda_device": 1}),
        ("[rank3]:[E1104 03:11:52.123456789 ProcessGroupNCCL.cpp:632] ", {"rank": 3}),
        ("[E ProcessGroupNCCL.cpp:475] ", {}),
        ("[80740] [rank1]:[E321 02:07:08.401118890 ProcessGroupNCCL.cpp:607] ", {"rank": 1}),
        ("E0612 01:14:57.061000 2287 torch/distributed/elastic/multiprocessing/api.py:914] ", {"pid": 2287}),
        ("ERROR 08-15 11:03:12 [worker_base.py:301] ", {}),
        ("Mar 14 02:07:11 gpu-a03 torchrun[811]: [rank3]: ", {"host": "gpu-a03", "pid": 811, "rank": 3}),
        ("2026-03-14 02:07:11,005 - ", {}),
        ("03/14/2026 02:07:11 - ", {}),
        ("[INFO] 2026-03-14 02:07:11,005 ", {}),
    ],
)
def test_job_forms(prefix: str, said: dict[str, object]) -> None:
    peeled = one(prefix + NCCL)
    assert peeled.text == NCCL
    assert peeled.origin == Origin(**said)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "nvme0: I/O 7 QID 3 timeout",
        "eth0: renamed from veth9f21aa0",
        "mlx5_0: port error",
        "nvidia-nvswitch1: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 27 LTSSM Fault Up",
        "IPv6: ADDRCONF(NETDEV_CHANGE): veth1a2b3c4: link becomes ready",
        "INFO: task cache_mgr_event:620917 blocked for more than 120 seconds.",
        "step 10: loss 3.1",
        "epoch-3: done",
        "rank 3: waiting",
        "train.py:12: UserWarning: x",
        "srun: error: gpu-a03: task 12: Killed",
        "[8] is setting up NCCL communicator and retrieving ncclUniqueId from [0]",
        "[Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2",
        "[PG 0 Rank 12] x",
        "# Avg bus bandwidth    : 461.102",
        "{'loss': 1.1412, 'epoch': 0.0}",
        "CUDA error: out of memory",
        "    raise ChildFailedError(",
    ],
)
def test_what_is_no_prefix_stays(line: str) -> None:
    peeled = one(line)
    assert peeled.text == line
    assert peeled.origin == Origin()


def test_kubernetes_stamp_before_an_error_is_no_syslog() -> None:
    assert one("2026-03-14T02:07:11Z CUDA error: out of memory").text == "CUDA error: out of memory"
    assert one('2026-03-14T02:07:11Z   File "x.py", line 3').text == '  File "x.py", line 3'


def test_names_of_daemons_stay_and_those_of_wrappers_go() -> None:
    assert one("Mar 14 02:07:11 n1 slurmd[7]: error: x").text == "slurmd: error: x"
    assert one("Mar 14 02:07:11 n1 nv-fabricmanager[7]: detected x").text == "nv-fabricmanager: detected x"
    assert one("Mar 14 02:07:11 n1 python[7]: x").text == "x"


# --- times -----------------------------------------------------------------------------------------------------------


def test_inner_stamp_is_the_finer_one_of_the_same_moment() -> None:
    line = "2026-02-18T10:48:25.687Z [rank7]:[E218 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 7] x"
    assert one(line).at == pytest.approx(wall("2026-02-18T10:48:25.033625Z"), abs=1e-5)


def test_inner_stamp_in_local_time_is_brought_to_the_outer_zone() -> None:
    line = "2026-02-18T10:48:25.687Z [rank7]:[E218 16:18:25.033625188 ProcessGroupNCCL.cpp:632] [Rank 7] x"
    assert one(line).at == pytest.approx(wall("2026-02-18T10:48:25.033625Z"), abs=1e-5)


def test_an_old_inner_stamp_does_not_count() -> None:
    assert one("2026-02-18T10:48:25Z [2026-02-17 09:01:59] x").at == wall("2026-02-18T10:48:25Z")


def test_zone_of_the_reader() -> None:
    east = timezone(timedelta(hours=2))
    assert one("Mar 14 02:07:11 n kernel: x", zone=east).at == wall("2026-03-14T00:07:11Z")
    assert one("2026-03-14T02:07:11Z n kernel: x", zone=east).at == wall("2026-03-14T02:07:11Z")


def test_year_is_the_last_one_that_is_not_after_the_change_of_the_file() -> None:
    state = PeelState(newest=wall("2027-01-02T00:00:00Z"))
    lines = ["Dec 31 23:59:59 n kernel: a", "Jan  1 00:00:01 n kernel: b", "Feb 29 00:00:00 n kernel: c"]
    assert [peel(line, state).at for line in lines] == [
        wall("2026-12-31T23:59:59Z"), wall("2027-01-01T00:00:01Z"), wall("2024-02-29T00:00:00Z"),
    ]  # fmt: skip


def test_year_is_that_of_a_full_stamp_in_the_file() -> None:
    state = PeelState(newest=NEWEST)
    peel("2021-12-31 23:59:00 started", state)
    assert peel("[W101 00:00:05.5 socket.cpp:1] x", state).at == wall("2022-01-01T00:00:05.5Z")


@pytest.mark.parametrize(
    "stamp", ["2026-02-30T02:07:11Z", "2026-13-01T02:07:11Z", "2026-03-14T25:00:00Z", "0000-00-00T00:00:00Z"]
)
def test_days_that_do_not_exist_give_no_time(stamp: str) -> None:
    peeled = one(f"{stamp} n kernel: {MESSAGE}")
    assert (peeled.text, peeled.at) == (MESSAGE, None)


def test_leap_second() -> None:
    assert one("2016-12-31T23:59:60Z x").at == wall("2017-01-01T00:00:00Z")


def test_relative_stamps_add_up() -> None:
    state = PeelState(newest=NEWEST)
    lines = ["[  +0.1] x", "[Mar14 02:07] a", "[  +0.500000] b", "[  +1.250000] c"]
    assert [peel(line, state).at for line in lines][1:] == [
        wall("2026-03-14T02:07:00Z"), wall("2026-03-14T02:07:00.5Z"), wall("2026-03-14T02:07:01.75Z"),
    ]  # fmt: skip


def test_time_of_the_line_above() -> None:
    state = PeelState(newest=NEWEST)
    assert peel("no time yet", state).at is None
    peel("[2026-03-14 02:07:11,000] step 1", state)
    below = peel("gpu-a:1:2 [0] NCCL INFO x", state)
    assert (below.at, below.at_is_near) == (wall("2026-03-14T02:07:11Z"), True)


def test_time_of_the_same_writer_when_it_is_as_late() -> None:
    state = PeelState(newest=NEWEST)
    peel("[rank1]:[E314 02:07:11.0 a.cpp:1] x", state)
    peel("[rank2]:[E314 02:07:13.0 a.cpp:1] x", state)
    assert peel("[rank1]: y", state).at == wall("2026-03-14T02:07:11Z")
    peel("[rank2]:[E314 03:07:13.0 a.cpp:1] x", state)
    assert peel("[rank1]: y", state).at == wall("2026-03-14T03:07:13Z")


def test_seconds_since_boot_become_times_once_a_line_has_both() -> None:
    state = PeelState(newest=NEWEST)
    peel("Mar 14 02:07:11 n kernel: [  100.000000] a", state)
    assert peel("[  110.000000] n kernel: b", state).at == wall("2026-03-14T02:07:21Z")


def test_boots() -> None:
    state = PeelState(newest=NEWEST)
    lines = [
        "[ 7000.000000] a",
        "[    0.000000] Linux version 6.1",
        "[    5.100000] b",
        "-- Boot 8f --",
        "[    3.2000] c",
    ]
    assert [peel(line, state).origin.boot for line in lines] == [0, 1, 1, 2, 2]


def test_boots_of_two_hosts_are_counted_apart() -> None:
    state = PeelState(newest=NEWEST)
    lines = [
        "[ 7000.000000] n1 kernel: a",
        "[ 10.000000] n2 kernel: a",
        "[ 7001.000000] n1 kernel: a",
        "[ 1.000000] n1 kernel: b",
    ]
    assert [peel(line, state).origin.boot for line in lines] == [0, 0, 0, 1]


# --- who -------------------------------------------------------------------------------------------------------------


def test_what_continues_a_line_is_of_the_same_writer() -> None:
    state = PeelState(newest=NEWEST)
    lines = [
        "[default0]:[rank12]:[E817 17:40:34.2 ProcessGroupNCCL.cpp:1515] Process group watchdog thread terminated",
        "[default0]:Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "[default0]:",
        "[default0]:Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:43",
        "[default0]:frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57",
        "[default0]:  what():  x",
    ]
    assert [peel(line, state).origin.rank for line in lines] == [12] * 6
    assert peel("[default1]:  what():  x", state).origin.rank is None
    assert peel("[default0]:Epoch: [15]", state).origin.rank is None


def test_frames_without_prefix_are_of_the_line_above() -> None:
    state = PeelState(newest=NEWEST)
    peel("[rank5]:[E817 17:40:34.2 ProcessGroupNCCL.cpp:1515] x", state)
    assert peel("Exception raised from checkTimeout at ../x.cpp:1", state).origin.rank == 5
    assert peel("frame #0: c10::Error", state).origin.rank == 5
    assert peel("iter 3: loss 2.1", state).origin.rank is None


def test_traceback_is_of_whom_its_first_line_is() -> None:
    state = PeelState(newest=NEWEST)
    lines = ["3: Traceback (most recent call last):", '3:   File "x.py", line 1', "3:     f()", "3: ValueError: no"]
    assert [peel(line, state).origin.task for line in lines] == [3] * 4
    state = PeelState(newest=NEWEST)
    peel("(W pid=7, ip=10.0.0.2) Traceback (most recent call last):", state)
    assert peel('  File "x.py", line 1', state).origin.pid == 7
    assert peel("ValueError: no", state).origin.pid is None


def test_nvrm_continuation_has_the_host_and_time_of_its_first_line() -> None:
    state = PeelState(newest=NEWEST)
    peel("Mar 14 02:07:11 n1 kernel: [ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0", state)
    more = peel("               NVRM: fallen off the bus and is not responding to commands.", state)
    assert more.text == "NVRM: fallen off the bus and is not responding to commands."
    assert (more.origin.host, more.uptime_s) == ("n1", 1843.308145)
    assert more.at == wall("2026-03-14T02:07:11Z")


def test_a_bare_host_is_believed_the_second_time() -> None:
    state = PeelState(newest=NEWEST)
    assert peel("k101: hello", state).origin.host is None
    assert peel("k101: hello", state).origin.host == "k101"
    peel("lynx:1:2 [0] NCCL INFO x", state)
    assert peel("lynx: hello", state).origin.host == "lynx"


def test_a_bare_host_is_believed_at_once_before_what_begins_a_line() -> None:
    line = one("gpu-1: [2026-03-14 02:07:11] gpu-1:12:13 [0] NCCL WARN boo")
    assert (line.text, line.origin.host, line.at) == ("NCCL WARN boo", "gpu-1", wall("2026-03-14T02:07:11Z"))
    for text in ("gpu-1: hot", "rank3: 2026-03-14 02:07:11 boo", "train.py: [rank3] boo", "layer12: [rank3]: boo"):
        assert one(text).origin.host is None


def test_an_entry_of_the_event_log_keeps_its_columns() -> None:
    text = "1a | 03/14/2026 | 02:07:11 | Temperature #0x30 | Upper Critical going high | Asserted"
    for line in (text, f"  {text}"):
        assert (one(line).text, one(line).at) == (line, wall("2026-03-14T02:07:11Z"))


def test_host_of_a_prompt_holds_for_what_was_pasted_below() -> None:
    state = PeelState(newest=NEWEST)
    assert peel("[  1.000000] x", state).origin.host is None
    for prompt in ("root@gpu-7:~# dmesg", "[ops@gpu-7 ~]$ dmesg", "ops@gpu-7 ~ % dmesg"):
        peel(prompt, state)
        assert peel("[  2.000000] x", state).origin.host == "gpu-7"


@pytest.mark.parametrize(
    "above", [("-" * 15, "gpu7", "-" * 15), ("-" * 16, "gpu7 (1)", "-" * 16), ("gpu7 | CHANGED | rc=0 >>",)]
)
def test_host_of_a_headline_holds_for_what_stands_below(above: tuple[str, ...]) -> None:
    state = PeelState(newest=NEWEST)
    for line in (*above, "[  1.000000] x"):
        peeled = peel(line, state)
    assert peeled.origin.host == "gpu7"


def test_all_that_a_console_prints_is_of_one_machine() -> None:
    state = PeelState(newest=NEWEST)
    for line in ("gpu7 login: [  1.000000] x", "[  2.000000] y"):
        assert peel(line, state).origin.host == "gpu7"


@pytest.mark.parametrize("above", [("-" * 15, "a table of sorts", "-" * 15), ("gpu7",), ("a | b | rc=0",)])
def test_not_every_line_above_is_a_headline(above: tuple[str, ...]) -> None:
    state = PeelState(newest=NEWEST)
    for line in (*above, "[  1.000000] x"):
        peeled = peel(line, state)
    assert peeled.origin.host is None


def test_name_of_the_file_fills_what_lines_leave_open() -> None:
    state = PeelState(newest=NEWEST, origin=Origin(rank=7, host="n3"))
    assert peel("hello", state).origin == Origin(rank=7, host="n3")
    assert peel("[rank8]: hello", state).origin == Origin(rank=8, host="n3")


def test_envelope() -> None:
    state = PeelState(newest=NEWEST)
    peeled = peel("x", state, Outer(at=5e8, host="n1", uptime_s=3.0, boot="a"))
    assert (peeled.at, peeled.origin.host, peeled.uptime_s, peeled.origin.boot) == (5e8, "n1", 3.0, 0)
    assert peel("x", state, Outer(at=6e8, host="n1", boot="b")).origin.boot == 1


# --- anything at all -------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *"[]:()<> 03\t\0\r\u202e\ud800é月",
        *(
            "12",
            "9" * 22,
            "rank",
            "[rank1]:",
            "Mar 14 02:07:11",
            "2026-03-14T02:07:11Z",
            "[1.5]",
            "[  +0.1]",
            "kernel: ",
        ),
        *(
            "n1 kernel: ",
            "NVRM: ",
            "gpu-a:1:2 [0] ",
            "[E1104 ",
            "a.cpp:1] ",
            "3: ",
            "\x1b[31m",
            "pid=3",
            "-- Boot x --",
        ),
        *("Linux version 6", "Traceback (most recent call last):", "stdout F ", "@h ~ % ", "&gt;", "[1,", "]<stdout>:"),
        *("Sat 2026-03-14 02:07:11 UTC ", "4,1,2,-;", "AT 2021-03-15T17:50:23"),
    ]
)
LINES = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=12).map("".join))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(LINES, st.binary(max_size=200)), max_size=6))
def test_peeling_never_raises_and_never_makes_text_up(lines: list[str | bytes]) -> None:
    state = PeelState(newest=NEWEST)
    for line in lines:
        peeled = peel(line, state)
        whole = clean(line, LINE_LIMIT)
        # A daemon's name is put back in front of what it says.
        rest = peeled.text.partition(": ")[2] if not whole.endswith(peeled.text) else peeled.text
        assert whole.endswith(rest)
        assert clean(peeled.text, LINE_LIMIT) == peeled.text


@settings(max_examples=300, deadline=None)
@given(LINES)
def test_peeling_again_never_adds(line: str) -> None:
    text = one(line).text
    assert one(text).text == text or len(one(text).text) < len(text) <= len(clean(line, LINE_LIMIT))


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(codec="ascii", categories=["L", "P", "Zs"]), min_size=1, max_size=60).filter(
        lambda t: one(t).text == t
    )
)
def test_a_message_survives_each_prefix(message: str) -> None:
    for prefix in ("[12345.678901] ", "Mar 14 02:07:11 n1 kernel: ", "2026-03-14T02:07:11.1Z stdout F "):
        assert message.endswith(one(prefix + message).text)


def test_a_line_without_end_is_cut() -> None:
    peeled = one(b"Mar 14 02:07:11 n1 kernel: " + b"x" * 50_000_000)
    assert len(peeled.text) <= LINE_LIMIT
    assert peeled.origin.host == "n1"


@pytest.mark.parametrize(
    "piece",
    ["[", "1", "a-", "a.", "(a pid=", "> ", "[ 1", "a:1:", "0: ", "<4>", "[rank1]:", "  ", "a1.", '{a="b", ', "/", "-"],
)
def test_no_form_takes_long_on_a_long_line(piece: str) -> None:
    import time

    began = time.perf_counter()
    for _ in range(20):
        one(piece * (10_000 // len(piece)))
    assert time.perf_counter() - began < 1.0
