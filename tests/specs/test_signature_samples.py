"""Every sample of the bundled signatures is found behind every kind of prefix, and by nothing else."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.parse.prefix import PeelState, peel
from stethoscope.specs.compiled import playbook_files
from stethoscope.specs.signature import Signatures, load_signatures
from stethoscope.specs.signature_file import Written, read_written

KERNEL = re.compile(
    r"aer|pcie|nvrm|os|mlx5|nic|roce|bond|nvme|blk|md|ext4|xfs|fs|vfs|mce|edac|memory_failure|ghes|cpu|iommu|nfs|lustre"
    r"|lnet|cephfs|log|boot"
)
"""Families whose lines the kernel prints."""

JOB_PREFIXES = [
    "{}",
    "2026-02-03T04:05:06.123456Z {}",
    "2026-02-03T04:05:06.123456789Z stderr F {}",
    "[2026-02-03 04:05:06] {}",
    "[rank5]: {}",
    "[default3]:{}",
    " 12: {}",
    "[1,12]<stderr>:{}",
    "llm-worker-3: {}",
    "(RayWorkerWrapper pid=2301, ip=198.51.100.41) {}",
    "Feb  3 04:05:06 node-c02 python3[7788]: {}",
    "2026-02-03T04:05:06Z [rank5]: {}",
    "\x1b[31m{}\x1b[0m\r",
]
KERNEL_PREFIXES = [
    "{}",
    "[12345.678901] {}",
    "[Tue Feb  3 04:05:06 2026] {}",
    "Feb  3 04:05:06 node-c02 kernel: [12345.678901] {}",
    "Feb 03 04:05:06 node-c02 kernel: {}",
    "2026-02-03T04:05:06+00:00 node-c02 kernel: {}",
    "6,1234,12345678901,-;{}",
]
DAEMON_PREFIXES = ["{}", "Feb  3 04:05:06 node-c02 {}", "2026-02-03T04:05:06.1+00:00 node-c02 {}"]
NCCL = re.compile(r"(?:NCCL INFO|[\w./-]+:\d+ (?:\(\w+\) )?(?:NCCL )?WARN) ")
DAEMON = re.compile(r"(?!python)[A-Za-z][\w-]*\[\d+\]: ")


@cache
def signatures() -> Signatures:
    return load_signatures()


@cache
def samples() -> list[tuple[Written, str]]:
    written = read_written(playbook_files("signatures/*.yaml"))
    return [
        (each, sample if isinstance(sample, str) else sample.text)
        for each in written
        for sample in each.spec.samples.match
    ]


def prefixes(written: Written, sample: str) -> list[str]:
    if DAEMON.match(sample):
        return DAEMON_PREFIXES
    if KERNEL.fullmatch(written.signature.family):
        return KERNEL_PREFIXES
    if NCCL.match(sample):
        return [prefix.replace("{}", "node-c02:7788:7799 [5] {}") for prefix in JOB_PREFIXES]
    return JOB_PREFIXES


def found(line: str) -> set[str]:
    text = peel(line, PeelState(newest=1_780_000_000.0)).text
    return {one.id for one, _ in signatures().find(text)}


@pytest.mark.parametrize("family", sorted({each.signature.family for each, _ in samples()}))
def test_samples_are_found_behind_all_prefixes(family: str) -> None:
    missed = []
    for written, sample in samples():
        if written.signature.family != family:
            continue
        plain = {one.id for one, _ in signatures().find(sample)}
        assert plain, sample
        if written.signature.id not in plain:
            assert any(written.signature.yields(signatures().by_id[other]) for other in plain), sample
        missed += [(plain, prefix.format(sample)) for prefix in prefixes(written, sample)
                   if found(prefix.format(sample)) != plain]  # fmt: skip
    assert not missed


WORDS = st.text(alphabet="bcdfghjklmnpqrstvwxyz0123456789-./ ", max_size=60).filter(lambda text: not text.isspace())


@given(data=st.data(), before=WORDS)
def test_what_stands_before_it_changes_nothing(data: st.DataObject, before: str) -> None:
    written, sample = data.draw(st.sampled_from(samples()))
    if any("^" in pattern.replace("[^", "") for pattern in written.signature.patterns):
        return
    assert written.signature.search(f"{before} {sample}") is not None


@given(data=st.data(), cut=st.integers(min_value=1, max_value=400))
def test_half_of_a_line_is_no_error(data: st.DataObject, cut: int) -> None:
    written, sample = data.draw(st.sampled_from(samples()))
    for signature, match in signatures().find(sample[:-cut]):
        signature.variant(signature.fields(match))
    match = written.signature.search(sample + " " + "\x01" * 50)
    assert match is None or written.signature.fields(match) is not None


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    for signature, match in signatures().find(text):
        signature.fields(match)


@pytest.mark.parametrize(
    "line",
    [
        "r8169 0000:03:00.0 eth0: RTL8168h/8111h, 00:11:22:33:44:55, XID 541, IRQ 130",
        "nvidia 0000:8f:00.0: enabling device (0140 -> 0142)",
        "loading /data/errors/nan_filter/part-0001.parquet",
        "INFO trainer: 0 errors, 0 warnings, no failures so far",
        "$ grep -c 'CUDA out of memor' train.log",
        "retrying download of tokenizer.json (1/5)",
        "NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "rank 3: gradient clipped from 3.2 to 1.0",
        "lr 1.0e-4 time 0.41 grad 0.9 fail_rate 0.0",
        "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
        "nvme nvme0: 64/0/0 default/read/poll queues",
        "mlx5_core 0000:5c:00.0: firmware version: 28.39.1002",
        "pcieport 0000:00:01.1: AER: enabled with IRQ 34",
        "slurmstepd: task 3 started",
        "Epoch 3 finished, validation error 0.031",
    ],
)
def test_healthy_lines_raise_nothing(line: str) -> None:
    assert [one for one in found(line) if signatures().by_id[one].alarms] == []


HEALTHY = """\
node-c02:7788:7799 [5] NCCL INFO Channel 05/0 : 12[4] -> 20[4] [send] via NET/IB/4/GDRDMA
node-c02:7788:7799 [5] NCCL INFO Channel 03/0 : 4[4] -> 5[5] via P2P/CUMEM/read
node-c02:7788:7799 [5] NCCL INFO Trees [0] 5/12/-1->4->-1 [1] 5/-1/-1->4->12
node-c02:7788:7799 [5] NCCL INFO Connected all rings, use ring PXN 1 GDR 1
node-c02:7788:7799 [5] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.
node-c02:7788:7799 [5] NCCL INFO comm 0x7f40aa10 rank 20 nRanks 64 nNodes 8 localRanks 8 localRank 4 MNNVL 0
node-c02:7788:7799 [5] NCCL INFO ncclCommInitRank comm 0x7f40aa10 rank 20 nranks 64 cudaDev 4 nvmlDev 4 busId 8f000 \
commId 0x51c0 - Init COMPLETE
node-c02:7788:7799 [5] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB bond0:198.51.100.7<0>
[rank5]: step 4410 loss 2.3412 time 0.412 s lr 0.0001 queue 8 loader ok
 iteration     4410/   90000 | consumed samples:      4515840 | elapsed time per iteration (ms): 2911.0 | \
lm loss: 2.201E+00 | grad norm: 0.733 | number of skipped iterations:   0 | number of nan iterations:   0 |
2026-02-03T04:05:06.123456Z INFO data: host node-c02 rank 5 read 512 samples of shard-00041.tar in 0.20 s
{'loss': 1.1412, 'grad_norm': 3.871, 'learning_rate': 1.44e-06, 'epoch': 0.1}
"""


def test_what_can_alarm_is_not_looked_for_in_every_healthy_line() -> None:
    text = HEALTHY.encode()
    hit = {
        anchor: [one.id for one in group if one.alarms]
        for anchor, group in signatures().anchors.items()
        if anchor in text and any(one.alarms for one in group)
    }
    assert hit == {}
