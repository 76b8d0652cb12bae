"""The JSON of `decode`: `stethoscope.decode/1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.clock import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.logs import Culprit, Event, Log, LogVerdict
    from stethoscope.session.decode import Decoded


def decoded_json(decoded: Decoded) -> dict[str, Any]:
    """Return the whole document."""
    log = decoded.log
    meanings = {name: decoded.meaning(name) for name in {event.signature for event in log.events}}
    return {
        "schema": "stethoscope.decode/1",
        "verdict": verdict_json(decoded.verdict),
        "alternatives": [verdict_json(verdict) for verdict in decoded.alternatives],
        "similar": [match.as_json() for match in decoded.similar],
        "transport": transport_json(log),
        "events": [event_json(event, log, meanings) for event in log.events],
        "files": [
            {
                "name": file.name, "bytes": file.size, "lines": file.lines, "trouble": file.trouble or None,
                "modified_at": moment(file.modified_at),
            }
            for file in log.files
        ],
        "stats": {"lines": log.lines, "bytes": log.bytes, "matched": log.matched, "seconds": round(log.seconds, 3)},
    }  # fmt: skip


def transport_json(log: Log) -> dict[str, Any] | None:
    """Return which transport NCCL chose, or None when no line of the log is about it."""
    from stethoscope.analysis.transport import transport_of

    transport = transport_of(log)
    if transport is None:
        return None
    return {
        "lines": list(transport.lines),
        "warnings": list(transport.warnings),
        "channels": list(transport.channels),
        "nvls": transport.nvls,
        "ranks": [
            {
                "rank": rank.rank, "host": rank.host, "network": rank.network or None, "adapters": list(rank.adapters),
                "sends_with": sorted(rank.nics), "sockets": list(rank.sockets),
                "first_contact": rank.rendezvous or None, "connections": dict(rank.hops),
            }
            for rank in transport.ranks
        ],
    }  # fmt: skip


def verdict_json(verdict: LogVerdict) -> dict[str, Any]:
    """Return V of the contract."""
    return {
        "root_cause": verdict.root_cause,
        "signature": verdict.signature,
        "confidence": round(verdict.confidence, 3),
        "severity": verdict.severity.value,
        "culprits": [_culprit(culprit) for culprit in verdict.culprits],
        "summary": verdict.summary,
        "supports": [fact.as_json() for fact in verdict.supports],
        "contradicts": [fact.as_json() for fact in verdict.contradicts],
        "next_checks": list(verdict.next_checks),
        "missing": list(verdict.missing),
    }


def event_json(event: Event, log: Log, meanings: Mapping[str, str]) -> dict[str, Any]:
    """Return E of the contract; `fields.pci` is the slot that the line is about."""
    origin = event.origin
    fields = dict(event.fields)
    if event.pci:
        fields["pci"] = event.pci
    return {
        "file": log.files[event.file].name if event.file < len(log.files) else "",
        "line": event.line,
        "at": moment(event.at),
        "at_is_near": event.at_is_near,
        "uptime_s": event.uptime_s,
        "signature": event.signature,
        "role": event.role,
        "severity": event.severity.value,
        "rank": origin.rank,
        "host": origin.host or origin.pod,
        "device": event.device,
        "meaning": meanings.get(event.signature, ""),
        "text": event.text,
        "fields": fields,
        "count": event.count,
        "last_at": moment(event.last_at),
    }


def moment(at: float | None) -> str | None:
    """Return a time as the contract writes it."""
    return None if at is None else iso(at)


def _culprit(culprit: Culprit) -> dict[str, Any]:
    return {"place": culprit.place, "rank": culprit.rank, "host": culprit.host, "device": culprit.device}
