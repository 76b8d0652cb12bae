"""What a draft of an incident says in words: its title, the word for what was broken, and evidence as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import hms, iso
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stethoscope.model.finding import Fact
    from stethoscope.model.logs import Event, LogVerdict
    from stethoscope.model.night import Entry
    from stethoscope.model.verdict import Diagnosis

_LONGEST_TITLE, _LONGEST_LINE = 120, 400
_MOST_EVENTS, _MOST_FACTS = 24, 16

_BY_CAUSE = {
    "wrong_interface": "network",
    "firewall_or_port_blocked": "network",
    "ib_link_fault": "optic",
    "ib_link_down": "cable",
    "ib_speed_low": "cable",
    "roce_misconfig": "fabric",
    "gid_or_pkey_misconfig": "fabric",
    "switch_congestion": "fabric",
    "switch_fault": "switch",
    "nic_fault": "nic",
    "nic_pcie_fault": "nic",
    "nvlink_fault": "nvlink",
    "gpu_memory_fault": "gpu_memory",
    "gpu_fallen_off_bus": "gpu",
    "gpu_hw_fault": "gpu",
    "gpu_thermal": "gpu",
    "gpu_power": "power",
    "gpu_clock_config": "gpu",
    "pcie_fault": "pcie",
    "cooling_fault": "cooling",
    "psu_fault": "power",
    "cpu_or_memory_fault": "memory",
    "disk_wear": "disk",
    "straggler_or_slow_rank": "node",
    "fabric_manager_fault": "driver",
    "node_down": "node",
    "driver_hung": "driver",
    "telemetry_lost": "node",
    "host_oom": "memory",
    "cpu_contention": "cpu",
    "cpu_config": "cpu",
    "fs_full_or_readonly": "disk",
    "clock_skew": "node",
    "data_loading": "data",
    "storage_io": "disk",
    "shared_fs_stall": "storage",
    "ckpt_io": "storage",
    "dns_or_hostname": "network",
    "driver_bug": "driver",
    "multi_job_contention": "scheduler",
    "scheduler_preemption": "scheduler",
    "p2p_acs_iommu": "pcie",
}
_SOFTWARE = frozenset(
    {
        "peer_process_died",
        "gpu_oom",
        "collective_mismatch_desync",
        "timeout_too_short",
        "resource_limits",
        "cuda_app_bug",
        "nccl_bug",
        "version_mismatch",
        "config_env_error",
        "shm_too_small",
        "topology_or_affinity",
        "loss_divergence",
    }
)
_BY_DEVICE = {
    "gpu": "gpu",
    "nvlink": "nvlink",
    "pcie": "pcie",
    "ib": "nic",
    "net": "network",
    "disk": "disk",
    "fs": "disk",
    "cpu": "cpu",
}
_BY_KIND = {"leaf": "switch", "switch": "switch", "storage": "storage", "job": "", "rack": "", "pod": ""}
"""A job, a rack or a pod suffers: what of it was broken nobody knows."""


def component_of(root_cause: str, places: Sequence[str]) -> str:
    """Return the word for what was most likely broken, empty where neither cause nor place says it."""
    if root_cause in _SOFTWARE:
        return "software"
    if root_cause in _BY_CAUSE:
        return _BY_CAUSE[root_cause]
    for place in places:
        first, _, device = place.partition("/")
        if first in _BY_KIND:
            if _BY_KIND[first]:
                return _BY_KIND[first]
            continue
        if kind := device.partition("/")[0]:
            return _BY_DEVICE.get(kind, "node")
        return "node"
    return ""


def title_of(summary: str, places: Sequence[str]) -> str:
    """Return a title: what is wrong, with the place before it where the words do not say it."""
    text = clean(summary, 2 * _LONGEST_TITLE).strip().rstrip(".")
    if places and places[0] not in text and places[0].partition("/")[0] not in text:
        text = f"{places[0]}: {text}" if text else places[0]
    return text if len(text) <= _LONGEST_TITLE else text[: _LONGEST_TITLE - 3].rstrip() + "..."


def fact_line(fact: Fact) -> str:
    """Return a fact as one line without units: a screen knows how to say it better."""
    value = f"{fact.value:g}" if isinstance(fact.value, float) else "" if fact.value is None else str(fact.value)
    text = f"{fact.fact}: {value}" if value else fact.fact
    expected = f"expected {fact.expected}" if fact.expected else ""
    return ", ".join(part for part in (text, expected, fact.where) if part)


def verdict_body(found: Diagnosis, say: Callable[[Fact], str] | None = None) -> str:
    """Return what the diagnosis rests on, and the way that led to it."""
    verdict = found.verdict
    lines = ["## Evidence", "", _text(verdict.summary), ""]
    lines += _facts(verdict.supports, say)
    if verdict.contradicts:
        lines += ["", "Against it:", "", *_facts(verdict.contradicts, say)]
    if verdict.rules_out:
        lines += ["", "Ruled out:", ""]
        lines += [f"- {cause}: {_text(because)}" for cause, because in verdict.rules_out]
    if found.alternatives:
        lines += ["", "Second guesses:", ""]
        lines += [f"- {one.confidence:.2f} {one.root_cause}: {_text(one.summary)}" for one in found.alternatives]
    if found.path:
        lines += ["", "## Path", ""]
        by = {"auto": "", "accepted": " (agreed)", "chosen": " (said by a person)", "skipped": " (skipped)"}
        for number, step in enumerate(found.path, 1):
            lines.append(f"{number}. {_text(step.question)} {_text(step.answer)}{by.get(step.by, '')}")
    return "\n".join(lines).rstrip() + "\n"


def entry_body(entry: Entry, say: Callable[[Fact], str] | None = None) -> str:
    """Return what a finding rests on, and what people wrote about it."""
    finding = entry.finding
    lines = ["## Evidence", "", _text(finding.message or finding.summary), ""]
    if len(finding.where) > 1:
        rest = f" and {len(finding.where) - 8} more" if len(finding.where) > 8 else ""
        lines += [f"- at: {', '.join(finding.where[:8])}{rest}"]
    if finding.cause:
        lines += [f"- in common: {_text(finding.cause)}"]
    lines += _facts(finding.evidence, say)
    if entry.times > 1:
        lines += [f"- came {entry.times} times"]
    if entry.logged:
        lines += ["", *_fenced(f"{iso(one.at)} {one.text}" for one in entry.logged)]
    if entry.notes:
        lines += ["", "## Notes", ""]
        lines += [f"- {iso(note.at)} {_text(note.by)}: {_text(note.text)}" for note in entry.notes]
    return "\n".join(lines).rstrip() + "\n"


def log_body(
    verdict: LogVerdict,
    events: Sequence[Event],
    meaning: Callable[[str], str],
    files: Sequence[str] = (),
    say: Callable[[Fact], str] | None = None,
) -> str:
    """Return what a log says: the verdict's facts, the events in their order, and the lines as they were printed."""
    lines = ["## Evidence", "", _text(verdict.summary), ""]
    if files:
        rest = f" and {len(files) - 6} more" if len(files) > 6 else ""
        lines += [f"- read: {', '.join(_text(name) for name in files[:6])}{rest}"]
    lines += _facts(verdict.supports, say)
    if verdict.contradicts:
        lines += ["", "Against it:", "", *_facts(verdict.contradicts, say)]
    told = [event for event in events if event.role in ("cause", "either", "symptom")]
    kept = told[:_MOST_EVENTS]
    if kept:
        lines += ["", "## Events", ""]
        days = {iso(event.at)[:10] for event in kept if event.at is not None}
        for event in kept:
            at = "--:--:--" if event.at is None else hms(event.at) if len(days) == 1 else iso(event.at)
            where = "/".join(part for part in (event.origin.host, event.device or event.pci) if part)
            rank = f"rank {event.origin.rank}" if event.origin.rank is not None else ""
            times = f"({event.count} times)" if event.count > 1 else ""
            head = " ".join(part for part in (at, event.signature, where, rank, times) if part)
            words = _text(meaning(event.signature))
            lines.append(f"- {head}: {words}" if words else f"- {head}")
        if len(told) > len(kept):
            lines.append(f"- and {len(told) - len(kept):,} more")
        texts = dict.fromkeys(event.text for event in kept)
        lines += ["", *_fenced(texts)]
    return "\n".join(lines).rstrip() + "\n"


def _facts(facts: Sequence[Fact], say: Callable[[Fact], str] | None) -> Iterator[str]:
    for fact in facts[:_MOST_FACTS]:
        at = f" ({fact.at})" if fact.at and say is None else ""
        yield f"- {_text((say or fact_line)(fact))}{at}"


def _fenced(texts: Iterable[str]) -> Iterator[str]:
    """Return lines of a log as they are, in a block that none of them can end."""
    yield "```log"
    for text in texts:
        yield clean(text, _LONGEST_LINE).replace("```", "'''")
    yield "```"


def _text(text: str) -> str:
    return clean(text, _LONGEST_LINE).strip()
