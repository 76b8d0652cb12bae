"""Shapes of lines: what is read by shape alone is what is read line by line."""

from __future__ import annotations

import random
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis import decode_file, decode_lines
from stethoscope.analysis.decode import Scanner
from stethoscope.analysis.decode_shapes import Shapes
from stethoscope.parse import prefix_forms
from stethoscope.parse.prefix_shape import any_digit
from stethoscope.specs.any_digit import takes_any_digit
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from stethoscope.model.logs import Log

NOW = datetime.fromisoformat("2026-06-01T00:00:00Z").timestamp()
LOGS = load_signatures()
# Every # is any digit.
KINDS = (
    "2026-03-14T02:0#:##.######Z gpu-00##:40#:50# [#] NCCL WARN NET/IB: Got completion from peer 10.1.2.#<4000#> with "
    "status=# opcode=0 len=## vendor err 129 (Recv) hca mlx5_#",
    "2026-03-14T02:0#:##.######Z gpu-00##:40#:50# [#] NCCL WARN NET/IB: Got completion from peer 10.1.2.#<4000#> with "
    "status=1# opcode=0 len=## vendor err 129 (Recv) hca mlx5_#",
    "[rank#]:[E314 02:0#:##.###### ProcessGroupNCCL.cpp:632] [Rank #] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=8#, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600### milliseconds "
    "before timing out.",
    "2026-03-14T02:0#:##.###+0#:00 gpu-00## kernel: pcieport 0000:0#:01.#: AER: Corrected error received: 0000:0#:00.#",
    "2026-03-1# 02:##:## gpu-00## kernel: NVRM: Xid (PCI:0000:1#:00): #9, pid=##, GPU has fallen off the bus.",
    "[2026-0#-31 02:##:##,###] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate #.00 GiB. GPU # has # GiB",
    "gpu-00##:40#:50# [#] NCCL WARN socketProgress: Connection closed by remote peer gpu-00##<#421>",
    "[E314 #2:0#:##.###### ProcessGroupNCCL.cpp:632] [Rank #] Watchdog caught collective operation timeout: WorkNCCL(",
    "#######123.### host-# kernel: NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.",
    "Traceback (most recent call last):",
    "2026-03-14T02:0#:##Z Traceback (most recent call last):",
    '  File "train.py", line ##, in step',
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "root@gpu-00##:~# dmesg",
    "[ ###.######] EDAC MC#: 1 CE memory read error on CPU_SrcID##",
    "2026-03-14T02:0#:##.######Z gpu-00##:40#:50# [#] NCCL INFO Channel 0#/0 : #[#] -> #[#] via P2P/CUMEM/read",
)


def filled(kind: str, rng: random.Random) -> str:
    return "".join(str(rng.choice((0, 1, 1, 2, 9))) if c == "#" else c for c in kind)


def scan(lines: list[str], cut: int = 1 << 20) -> Log:
    scanner = Scanner(LOGS, now=NOW)
    file = scanner.file("host-7.log", size=decode_file.LOOK_AT_ALL + 1)
    data = "\n".join(lines).encode() + b"\n"
    for at in range(0, len(data), cut):
        file.feed(data[at : at + cut])
    file.end()
    return scanner.finish()


@settings(max_examples=30, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
    count=st.integers(2, 80),
    cut=st.sampled_from((700, 1 << 20)),
)
def test_a_line_read_by_its_shape_gives_what_it_gives_alone(kinds: list[str], seed: int, count: int, cut: int) -> None:
    rng = random.Random(seed)
    lines = [filled(rng.choice(kinds), rng) for _ in range(count)]
    by_shape = scan(lines, cut)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shapes, "plan", lambda self, raw, anchors: None)
        alone = scan(lines, cut)
    assert by_shape == alone


def test_a_flood_is_read_by_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    take = Shapes.take

    def counted(self: Shapes, plan: object, raw: bytes, number: int) -> bool:
        taken.append(take(self, plan, raw, number))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(Shapes, "take", counted)
    rng = random.Random(1)
    line = filled(KINDS[0].replace("02:0#:##", "02:07:11"), rng)
    log = scan([line.replace("len=", f"len={rng.randrange(10)}") for _ in range(100)])
    assert [event.count for event in log.events] == [100]
    # The first is met, the second makes the plan and says who prints it.
    assert taken == [False] + [True] * 98


def test_what_means_no_harm_is_counted_by_shape_too() -> None:
    rng = random.Random(2)
    log = scan([filled(KINDS[-1], rng) for _ in range(5000)], cut=4096)
    assert 1000 <= sum(event.count for event in log.events) < 1100


@pytest.mark.parametrize("start", ["[", "(", "<", "0", ""])
def test_the_forms_of_shapes_take_any_digit_for_any_other(start: str) -> None:
    assert takes_any_digit(any_digit(start).pattern)


@pytest.mark.parametrize("form", [prefix_forms.IDENT, prefix_forms.EMBEDDED, prefix_forms.PROMPT, decode_lines.TYPED])
def test_what_else_decides_over_a_shape_does_too(form: object) -> None:
    assert takes_any_digit(form.pattern)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"rank (?P<rank1>\d{1,7}) at [0-9a-f]{4}", True),
        (r"pci \w+\.[0-7]", False),
        (r"error 12\b", False),
        (r"(?P<a>\d) is (?P=a)", False),
        (r"\[1-9\]", False),
        (r"[^0-9]+\\{2}", True),
        (r"\x41", False),
    ],
)
def test_patterns_that_care_for_a_digit_are_known(pattern: str, expected: bool) -> None:
    assert takes_any_digit(pattern) is expected
