"""What the index holds of an incident: its words, column by column, and the values that fields are asked for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import apsw

from stethoscope.errors import UsageError
from stethoscope.model.incident import NO_NODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.incident import Incident

VERSION = 3
"""Grows with every change of what the index holds: one of another version is not looked at."""

# In words a rank says how much a word counts in each of the columns.
TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES('generation', 0);
CREATE TABLE file(root INTEGER, path TEXT, mtime_ns INTEGER, size INTEGER, inode INTEGER, read_ns INTEGER, digest TEXT,
                  row INTEGER, PRIMARY KEY(root, path)) WITHOUT ROWID;
CREATE TABLE trouble(root INTEGER, path TEXT, line INTEGER, message TEXT);
CREATE INDEX trouble_path ON trouble(root, path);
CREATE TABLE incident(row INTEGER PRIMARY KEY, root INTEGER, path TEXT, id TEXT, began REAL, reference INTEGER,
                      hidden INTEGER DEFAULT 0);
CREATE INDEX incident_id ON incident(id);
CREATE TABLE said(row INTEGER PRIMARY KEY, incident BLOB);
CREATE TABLE term(field TEXT, value TEXT, row INTEGER, PRIMARY KEY(field, value, row)) WITHOUT ROWID;
CREATE INDEX term_row ON term(row);
CREATE VIRTUAL TABLE words USING fts5(id, title, fix, signs, place, body,
    tokenize = 'stethoscope');
INSERT INTO words(words, rank) VALUES('rank', 'bm25(10.0, 8.0, 5.0, 6.0, 6.0, 1.0)');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
"""

_NODES_AS_WORDS = 256
"""Nodes of one incident that are found as words; all of them are found by `node:`."""
_NODES_AS_PLACES = 64
"""An incident of that many nodes at most, which names no culprit, is part of their history."""


def packed(incident: Incident) -> bytes:
    """Return an incident in the form in which the index keeps it."""
    import msgspec

    return msgspec.msgpack.encode(incident)


def unpacked(said: bytes) -> Incident:
    """Return the incident that `packed` made; apsw.CorruptError for what it did not make."""
    import msgspec

    try:
        incident: Incident = _decoder().decode(said)
    except msgspec.MsgspecError as error:
        raise apsw.CorruptError(str(error)) from error
    return incident


@cache
def _decoder() -> Any:
    import msgspec

    from stethoscope.model.incident import Incident

    return msgspec.msgpack.Decoder(Incident)


def columns_of(incident: Incident) -> tuple[str, ...]:
    """Return the text of each column of `words`."""
    signs = (*incident.symptoms, incident.root_cause, incident.component, *incident.tags, incident.severity.value)
    places = (*incident.places, *incident.around, incident.nodes, incident.job, incident.fleet)
    nodes = nodes_of(incident) if "[" in incident.nodes else []
    if len(nodes) <= _NODES_AS_WORDS:
        places = (*places, *nodes)
    return (
        # A ticket is what people have in the morning. What another incident is called leads to that one.
        " \n".join(filter(None, (incident.id, incident.author, *outside_of(incident)))),
        incident.title,
        incident.resolution,
        " \n".join(filter(None, signs)),
        " \n".join(filter(None, places)),
        incident.body,
    )


def outside_of(incident: Incident) -> tuple[str, ...]:
    """Return the tickets, commits and addresses that an incident names."""
    return tuple(link.to for link in incident.links if link.how in ("ticket", "commit", "url"))


def nodes_of(incident: Incident) -> list[str]:
    """Return the nodes of an incident; what cannot be read as a set is one name."""
    if not incident.nodes:
        return []
    if "[" not in incident.nodes:
        return [part for part in (one.strip() for one in incident.nodes.split(",")) if part]
    from stethoscope.model.ids import expand

    try:
        return expand(incident.nodes)
    except UsageError:
        return [incident.nodes]


def terms_of(incident: Incident) -> set[tuple[str, str]]:
    """Return field and value of all that a query can ask this incident for, in lower case."""
    return {(field, value.casefold()) for field, value in _terms(incident) if value}


def _terms(incident: Incident) -> Iterator[tuple[str, str]]:
    yield "id", incident.id
    yield "id", incident.id.rsplit("-", 1)[-1]
    yield "cause", incident.root_cause
    yield "component", incident.component
    yield "severity", incident.severity.value
    yield "status", incident.status.value
    yield "fleet", incident.fleet
    yield "author", incident.author
    yield "job", incident.job.removeprefix("job/")
    for tag in incident.tags:
        yield "tag", tag
    for link in incident.links:
        yield "link", link.to
    for symptom in incident.symptoms:
        yield "sign", symptom
    on_nodes = False
    for place in (*incident.places, *incident.around):
        parts = place.split("/")
        yield from (("place", "/".join(parts[:count])) for count in range(1, len(parts) + 1))
        if parts[0] == "job" and len(parts) > 1:
            yield "job", parts[1]
        elif parts[0] not in NO_NODES:
            on_nodes = True
            yield "node", parts[0]
            yield from _devices(parts)
    nodes = nodes_of(incident)
    yield from (("node", node) for node in nodes)
    if not on_nodes and len(nodes) <= _NODES_AS_PLACES:
        yield from (("place", node) for node in nodes)


def _devices(parts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the ways in which a GPU or a port is asked for: `3`, `gpu-014/3`, `gpu-014/gpu/3`, `gpu-014`."""
    if len(parts) < 3 or parts[1] not in ("gpu", "nvlink", "ib", "net"):
        return
    field, kind = ("gpu", "gpu") if parts[1] in ("gpu", "nvlink") else ("port", parts[1])
    node, name = parts[0], parts[2]
    yield from ((field, value) for value in (name, node, f"{node}/{name}", f"{node}/{kind}/{name}"))


def asked(field: str, value: str) -> tuple[tuple[str, ...], str]:
    """Return the fields of `term`, and the value there, that a query means by `field:value`."""
    match field:
        case "xid" | "sxid":
            return ("sign",), value if value.startswith(f"{field}.") else f"{field}.{value}"
        case "sig" | "rule":
            return ("sign",), value
        case "leaf" | "rack" | "pod":
            return ("place",), value if value.startswith(f"{field}/") else f"{field}/{value}"
        case "place":
            return ("place", "node"), value
        case "culprit":
            return ("place",), value
        case "ticket":
            return ("link",), value
        case "job":
            return ("job",), value.removeprefix("job/")
    return (field,), value
