"""What several answers of one tool show together that none shows alone: settings that differ between the ranks of a
job, a port that lacks the address entry of its sisters, processors of which none is as fast as it can be."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from stethoscope.analysis.triage_case import SLOWER
from stethoscope.analysis.triage_claims import Claim
from stethoscope.clock import iso
from stethoscope.model.finding import Fact
from stethoscope.model.ids import job_place, node_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.analysis.triage_case import Case
    from stethoscope.model.verdict import Measured

_MATTER = ("NCCL_", "TORCH_NCCL_", "UCX_", "FI_", "GLOO_", "CUDA_LAUNCH")
_LEAST_NODES, _FEW = 3, 0.5
_DIFFERS, _LACKS, _CAPPED = 0.85, 0.85, 0.8
_CLOCKS = re.compile(r"(?m)^scaling_(?P<which>cur|max)_freq +\d+ +(?P<khz>\d+)$")
_HELD = 0.6
"""Share of what they can do below which all processors of a node that trains are held back."""


def compared(measured: Sequence[Measured], cases: Sequence[Case]) -> Iterator[Claim]:
    """Yield what differs between the answers of one tool."""
    for case in cases:
        own = [one for one in measured if node_of(one.place) in case.nodes]
        yield from _settings(case, [one for one in own if one.probe == "env_diff"])
    for one in measured:
        if one.probe == "show_gids":
            yield from _addresses(one)
        if one.probe == "top" and any(node_of(one.place) in case.nodes and case.trouble == SLOWER for case in cases):
            yield from _clocks(one)


def _settings(case: Case, answers: Sequence[Measured]) -> Iterator[Claim]:
    """Yield the nodes whose ranks were started with a variable that the others have otherwise."""
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for answer in answers:
        node = node_of(answer.place)
        for line in answer.text.splitlines():
            words = line.split(maxsplit=2)
            if len(words) == 3 and words[0] == "rank" and "=" in words[2]:
                name, _, value = words[2].partition("=")
                if name.startswith(_MATTER):
                    said[name][node] = value
    nodes = {node for values in said.values() for node in values}
    if len(nodes) < _LEAST_NODES or case.job is None:
        return
    for name in sorted(said):
        values = said[name]
        counts = Counter(values.get(node, "not set") for node in sorted(nodes))
        usual, often = counts.most_common(1)[0]
        if often <= _FEW * len(nodes) or often == len(nodes):
            continue
        odd = tuple(node for node in sorted(nodes) if values.get(node, "not set") != usual)
        shown = values.get(odd[0], "not set")
        says = f"{name} is {shown} here and {usual} on the others"
        at = max(answer.at for answer in answers)
        fact = Fact(f"{name} of the ranks", shown, usual, ", ".join(odd[:4]), iso(at), "env_diff")
        yield Claim("config_env_error", odd, _DIFFERS, "measured", None, None, (fact,), rule="env", says=says,
                    job=job_place(case.job.id))  # fmt: skip


def _addresses(answer: Measured) -> Iterator[Claim]:
    """Yield the ports that lack the RoCE v2 entry with an IPv4 address that their sisters have."""
    entries: Counter[str] = Counter()
    devices: dict[str, None] = {}
    for line in answer.text.splitlines():
        words = line.split()
        if len(words) < 5 or not words[1].isdigit() or not words[2].isdigit():
            continue
        devices[words[0]] = None
        is_v4 = any(word.count(".") == 3 and word.replace(".", "").isdigit() for word in words)
        entries[words[0]] += is_v4 and "v2" in words
    if not any(entries.values()):
        return
    lacking = tuple(f"{node_of(answer.place)}/ib/{device}" for device in devices if not entries[device])
    if lacking and len(lacking) <= _FEW * len(devices):
        says = "has no RoCE v2 entry with an IPv4 address; its sisters have one"
        fact = Fact(says, 0, "1", lacking[0], iso(answer.at), "show_gids")
        yield Claim("gid_or_pkey_misconfig", lacking, _LACKS, "measured", None, None, (fact,), rule="gids", says=says)


def _clocks(answer: Measured) -> Iterator[Claim]:
    """Yield a node whose fastest processor runs far below what it can do, although its ranks keep some busy."""
    clocks: dict[str, int] = {}
    for found in _CLOCKS.finditer(answer.text):
        clocks[found["which"]] = max(clocks.get(found["which"], 0), int(found["khz"]))
    if not clocks.get("cur") or clocks["cur"] >= _HELD * clocks.get("max", 0):
        return
    node = node_of(answer.place)
    mhz, most = clocks["cur"] // 1000, clocks["max"] // 1000
    says = f"the fastest of its processors runs at {mhz} MHz, of {most}"
    fact = Fact("clock of the fastest processor, MHz", mhz, str(most), node, iso(answer.at), "top")
    yield Claim("cpu_config", (node,), _CAPPED, "measured", None, None, (fact,), rule="clocks", says=says)
