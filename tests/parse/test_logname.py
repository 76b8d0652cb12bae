"""What the name of a log says about who wrote it."""

from __future__ import annotations

import pytest

from stethoscope.model.logs import Origin
from stethoscope.parse.logname import origin_of_name


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("rank7.log", Origin(rank=7)),
        ("logs/rank_12.err.gz", Origin(rank=12)),
        ("rank-003.log.zst", Origin(rank=3)),
        ("global_rank5.txt", Origin(rank=5)),
        ("rank7/stderr.log", Origin(rank=7)),
        ("node-003/rank_12.err", Origin(rank=12, host="node-003")),
        ("/var/log/job/gpu-007/stderr.log", Origin(host="gpu-007")),
        ("gpu-007.log", Origin(host="gpu-007")),
        ("dmesg-gpu-007.log", Origin(host="gpu-007")),
        ("gpu-007.dmesg", Origin(host="gpu-007")),
        ("dmesg-10.0.0.7.txt", Origin(host="10.0.0.7")),
        ("logs/10.0.0.7/dmesg.txt", Origin(host="10.0.0.7")),
        ("10.0.0.7.log", Origin(host="10.0.0.7")),
        ("dmesg-storm01.log", Origin(host="storm01")),
        ("dmesg.old", Origin()),
        ("kern.log.1", Origin()),
        ("messages-20260301", Origin()),
        ("journal-boot1.txt", Origin()),
        ("nccl-2.19.3.1.log", Origin()),
        ("kernel-5.15.0-25.log", Origin()),
        ("gpu-007-dmesg.txt", Origin(host="gpu-007")),
        ("nid001043.out", Origin(host="nid001043")),
        ("dgx-h100-12_rank96.log", Origin(rank=96, host="dgx-h100-12")),
        ("train-worker-3-stdout.log", Origin(pod="train-worker-3")),
        ("worker-3-stdout", Origin(host="worker-3")),
        ("local_rank3.log", Origin(local_rank=3)),
        ("torchelastic/attempt_0/5/stderr.log", Origin(local_rank=5)),
        ("task12.out", Origin(task=12)),
        ("slurm-4242.out", Origin()),
        ("train.log", Origin()),
        ("rank.log", Origin()),
        ("", Origin()),
        ("stdin", Origin()),
        ("frank7.log", Origin()),
        ("../../..", Origin()),
    ],
)
def test_names(name: str, origin: Origin) -> None:
    assert origin_of_name(name) == origin
