"""What tools say that look into training processes and into the file system that all share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stethoscope.model.report import ToolError
from stethoscope.parse.tools import env_diff, nccl_ras, nfsiostat, py_spy

PROBES = Path(__file__).resolve().parents[3] / "probes" / "ondemand"

DEAD = """\
NCCL version 2.24.3 compiled with CUDA 12.4

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 4

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  5 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210
"""


def test_ras_names_who_is_missing_and_who_is_behind() -> None:
    report = nccl_ras.read(DEAD)
    assert report.get("", "nodes") == 4
    assert report.get("", "ranks") == 32
    assert report.get("group/0", "errors") == "incomplete"
    assert report.get("rank/21", "missing") is True
    assert report.get("172.16.64.213/gpu/4", "dead") == 3487984
    assert report.get("rank/0", "behind") == 1
    assert report.get("rank/2", "behind") == 1
    assert report.get("", "operation") == 6650
    assert any("MISMATCH" in remark for remark in report.remarks)


def test_ras_of_a_job_that_stands_alike_finds_nothing_wrong() -> None:
    text = DEAD[: DEAD.index("Errors\n======")].replace("7-8", "  8").replace("INCOMPLETE", "OK")
    report = nccl_ras.read(text)
    assert report.get("group/0", "status") == "running"
    assert report.get("group/0", "errors") == "ok"
    assert not report.remarks
    with pytest.raises(ToolError):
        nccl_ras.read("Connecting to localhost:28028: Connection refused\n", exit=1)


def test_stacks_are_those_of_ranks() -> None:
    report = py_spy.read(
        "rank 13\nProcess 4711: python3 -u train.py\nPython v3.10.12 (/usr/bin/python3.10)\n\n"
        'Thread 4711 (idle): "MainThread"\n    get (multiprocessing/queues.py:113)\n'
        "    __next__ (torch/utils/data/dataloader.py:701)\n    main (train.py:560)\n"
        'Thread 4720 (idle): "Thread-1"\n    wait (threading.py:320)\n\n'
    )
    assert report.get("rank/13", "frame") == "get (multiprocessing/queues.py:113)"
    assert report.get("rank/13", "stack") == (
        "get (multiprocessing/queues.py:113) < __next__ (torch/utils/data/dataloader.py:701) < main (train.py:560)"
    )
    assert report.get("rank/13", "pid") == 4711
    with pytest.raises(ToolError):
        py_spy.read("")


def test_what_all_ranks_of_a_node_share_is_told_once() -> None:
    report = env_diff.read(
        "host driver 550.90.07\nhost nccl 2.21.5\nfile NCCL_DEBUG = WARN\nrank 8 NCCL_IB_HCA=mlx5_0,mlx5_1\n"
        "rank 9 NCCL_IB_HCA=mlx5_0,mlx5_1\nrank 8 NCCL_ALGO=RING\nrank 9 NCCL_ALGO=TREE\n"
    )
    assert report.get("", "driver_version") == "550.90.07"
    assert report.get("", "NCCL_IB_HCA") == "mlx5_0,mlx5_1"
    assert report.get("rank/8", "NCCL_ALGO") == "RING"
    assert report.get("rank/9", "NCCL_ALGO") == "TREE"
    assert report.get("/etc/nccl.conf", "NCCL_DEBUG") == "WARN"
    assert report.get("", "ranks") == 2


def _mountstats(requests: int, waited: int, reads: int, again: int, queue_ms: int, rtt_ms: int, age_s: int) -> str:
    return (
        "device /dev/sda1 mounted on / with fstype ext4\n"
        "device filer:/home mounted on /home with fstype nfs4 statvers=1.1\n"
        f"\tage:\t{age_s}\n\txprt:\ttcp 0 0 2 0 0 {requests} {requests} 0 9 {waited} 64 9 9\n"
        f"\t        READ: {reads} {reads + again} 0 {reads * 200} {reads * 262240} {queue_ms} {rtt_ms} "
        f"{queue_ms + rtt_ms} 0\n\t       WRITE: 100 100 0 104882000 16800 0 400 410 0\n"
    )


@pytest.mark.skipif(shutil.which("awk") is None, reason="awk is not installed")
def test_the_script_tells_queue_and_server_apart(tmp_path: Path) -> None:
    first, later = tmp_path / "first", tmp_path / "later"
    first.write_text(_mountstats(1000, 500, 1000, 0, 100, 1700, 1000))
    later.write_text(_mountstats(1100, 40_500, 1090, 1, 72_100, 10_700, 1003))
    script = (PROBES / "nfsiostat.sh").read_text()
    script = script.replace("/proc/self/mountstats", str(first)).replace("sleep 3;", f"counts={later};")
    assert str(first) in script
    assert str(later) in script
    shell = 'begin() { :; }; end() { :; }; run() { "$@"; }\n' + script.split("if command -v lctl", maxsplit=1)[0]
    said = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True, timeout=20)
    report = nfsiostat.read(said.stdout)
    assert report.get("/home", "server") == "filer:/home"
    assert report.get("/home", "backlog") == pytest.approx(400)
    assert report.get("/home", "read_per_s") == pytest.approx(30)
    assert report.get("/home", "read_queue") == pytest.approx(800)
    assert report.get("/home", "read_rtt") == pytest.approx(100)
    assert report.get("/home", "read_again") == 1
    assert report.get("/home", "write_per_s") == 0
    assert report.get("/", "server") is None


def test_lustre_tells_how_long_its_servers_take() -> None:
    report = nfsiostat.read(
        "osc.fast-OST0003-osc-ffff9a3c8d2e1000.import=\nimport:\n    name: fast-OST0003-osc\n    state: DISCONN\n"
        "    rpcs:\n       inflight: 17\n       avg_waittime: 903000 usec\n"
    )
    assert report.get("fast-OST0003", "lustre_state") == "disconn"
    assert report.get("fast-OST0003", "wait") == pytest.approx(903)
    assert report.get("fast-OST0003", "under_way") == 17
