"""The error codes of GPUs (Xid) and NVSwitches (SXid) as data: `xid.yaml` and `sxid.yaml` of the playbooks.

A code that no table has is shown as unknown, never dropped. `specs.codes_file` reads the files; nothing here parses
YAML once they are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from stethoscope.model.finding import Severity
from stethoscope.specs.compiled import cached, playbook_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stethoscope.model.logs import Role

Kind = Literal["xid", "sxid"]
Job = Literal["stops", "may_stop", "goes_on"]
Node = Literal["drain", "watch", "goes_on"]

_READERS = ("stethoscope.specs.codes", "stethoscope.specs.codes_file")
_UNKNOWN_ACTION = "Read the text of the line, look for codes beside it, and compare with the driver's release notes."


@dataclass(frozen=True, slots=True)
class Code:
    """What one Xid or SXid means, and what to do now."""

    kind: Kind
    code: int
    name: str
    """As the driver's source calls it."""
    title: str
    meaning: str
    causes: tuple[str, ...]
    """Likely ones, the likeliest first."""
    action: str
    rma: str
    """When to replace the part; empty where the code is no reason."""
    job: Job
    node: Node
    severity: Severity
    category: str
    role: Role
    root_cause: str | None
    follows: tuple[int, ...] = ()
    """Codes of the same kind that it is a consequence of."""
    with_xids: tuple[int, ...] = ()
    with_sxids: tuple[int, ...] = ()
    vendor: tuple[str, ...] = ()
    """What the vendor says to do first, and as follow-up, in the vendor's words."""
    families: tuple[str, ...] = ()
    recovery_since: str = ""
    """Driver branch from which an Xid 154 comes with it."""
    notes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """Lines as drivers print them."""
    unit: str = ""
    """Part of the switch."""
    printed: Mapping[str, str] | None = None
    """Switch generation -> Fatal, Non-fatal, either, none."""
    texts: tuple[str, ...] = ()
    """What the driver prints behind the code of an SXid."""
    whole_switch: bool = False
    known: bool = True

    @property
    def signature(self) -> str:
        """Return the id of its events: `xid.79`, `sxid.20034`."""
        return f"{self.kind}.{self.code}"

    @property
    def label(self) -> str:
        """Return how it is spoken of: `Xid 79`."""
        return f"{'Xid' if self.kind == 'xid' else 'SXid'} {self.code}"


@dataclass(frozen=True, slots=True)
class State:
    """What an Xid 154 says that the GPU needs, or what the text of another code says in place of its default."""

    label: str
    severity: Severity
    job: Job
    node: Node
    says: str


class Codes:
    """All codes and their sub-tables; a table is read at its first use."""

    def __init__(self, directories: tuple[Path, ...] = ()) -> None:
        """Look for the files in `directories`, the nearest first, then where playbooks stand."""
        self._directories = directories
        self._known: dict[tuple[Kind, int], Code] = {}
        """Codes that were asked for: a log asks for the same few again and again."""

    @cached_property
    def xid_table(self) -> Mapping[str, Any]:
        """Return the compiled form of xid.yaml."""
        return _table("xid", self._directories)

    @cached_property
    def sxid_table(self) -> Mapping[str, Any]:
        """Return the compiled form of sxid.yaml."""
        return _table("sxid", self._directories)

    def xid(self, code: int) -> Code:
        """Return what Xid `code` means."""
        known = self._known.get(("xid", code))
        if known is None:
            fields = self.xid_table["codes"].get(str(code))
            known = self._known["xid", code] = _code("xid", code, fields) if fields else _unknown("xid", code)
        return known

    def sxid(self, code: int) -> Code:
        """Return what SXid `code` means."""
        known = self._known.get(("sxid", code))
        if known is None:
            known = self._known["sxid", code] = self._sxid(code)
        return known

    def _sxid(self, code: int) -> Code:
        fields = self.sxid_table["codes"].get(str(code))
        if fields:
            return _code("sxid", code, fields)
        table = self.sxid_table
        unit = table["ranges"].get(str(code)[:2], "")
        return _unknown("sxid", code, table["unreported"].get(str(code), ""), unit)

    def find(self, kind: Kind, code: int) -> Code:
        """Return what `code` of `kind` means."""
        return self.xid(code) if kind == "xid" else self.sxid(code)

    def explain(self, signature: str) -> Code | None:
        """Return the code that stands behind the id of an event, `xid.79`, or None."""
        kind, _, number = signature.partition(".")
        if kind not in ("xid", "sxid") or not number.isdecimal() or len(number) > 6:
            return None
        return self.xid(int(number)) if kind == "xid" else self.sxid(int(number))

    def all(self, kind: Kind) -> list[Code]:
        """Return every known code of `kind` in ascending order."""
        table = self.xid_table if kind == "xid" else self.sxid_table
        return [_code(kind, int(code), fields) for code, fields in table["codes"].items()]

    def unit_words(self, unit: str) -> str:
        """Return the plain words for a unit of the switch."""
        return str(self.sxid_table["units"].get(unit, unit))

    def vendor_words(self, word: str) -> str:
        """Return what a word of the vendor asks for, in plain words."""
        return str(self.xid_table["vendor_words"].get(word, word))

    def recovery(self, label: str) -> State | None:
        """Return what a label of Xid 154 asks for; the words count, not the number."""
        wanted = " ".join(label.split()).casefold()
        for entry in self.xid_table["recovery"]:
            if entry["label"].casefold() == wanted:
                return _state(entry["label"], entry, entry["action"])
        return None

    def body(self, code: int, body: str) -> State | None:
        """Return what the text of a line says in place of the default of its code."""
        folded = body.casefold()
        for entry in self.xid_table["bodies"]:
            if entry["code"] == code and entry["text"].casefold() in folded:
                return _state(entry["text"], entry, entry["says"])
        return None


def load_codes(*directories: Path) -> Codes:
    """Return the codes of `directories`, the user's configuration and the bundled playbooks; DataError when used."""
    return Codes(directories)


def code_files(kind: Kind, *directories: Path) -> list[Path]:
    """Return the files that define codes of `kind`, the nearest first."""
    return playbook_files(f"{kind}.yaml", *directories)


def _table(kind: Kind, directories: tuple[Path, ...]) -> Mapping[str, Any]:
    files = code_files(kind, *directories)

    def build() -> dict[str, Any]:
        from stethoscope.specs.codes_file import read_codes

        return read_codes(kind, files)

    table: Mapping[str, Any] = cached(f"{kind}-codes", files, _READERS, build)
    return table


def _state(label: str, entry: Mapping[str, Any], says: str) -> State:
    return State(label, Severity(entry["severity"]), entry["job"], entry["node"], says)


def _code(kind: Kind, code: int, fields: Mapping[str, Any]) -> Code:
    get = fields.get
    return Code(
        kind, code, get("name", ""), fields["title"], get("meaning", ""), tuple(get("causes", ())), fields["action"],
        get("rma", ""), fields["job"], fields["node"], Severity(fields["severity"]), fields["category"],
        get("role", "cause"), get("root_cause"), tuple(get("follows", ())),
        tuple(get("with" if kind == "xid" else "with_xid", ())), tuple(get("with", ())) if kind == "sxid" else (),
        tuple(get("vendor", ())), tuple(get("families", ())), get("recovery_since", ""), tuple(get("notes", ())),
        tuple(get("lines", ())), get("unit", ""), get("printed"), tuple(get("text", ())),
        bool(get("whole_switch", False)),
    )  # fmt: skip


def _unknown(kind: Kind, code: int, name: str = "", unit: str = "") -> Code:
    title = "unknown to this version" if not name else f"{name}: no driver is known to print it"
    return Code(
        kind, code, name, title, "", (), _UNKNOWN_ACTION, "", "may_stop", "watch", Severity.P2,
        "unknown", "either", None, unit=unit, known=False,
    )  # fmt: skip
