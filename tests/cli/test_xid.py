"""`stethoscope xid` and `sxid`: codes, lines, lists, what is neither, and the JSON of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from stethoscope.cli import sxid, xid
from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

LINE = "NVRM: Xid (PCI:0000:4f:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 04 (0x0214a5c6 0x00000000 0x00000000)"


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "80")


def said(*arguments: str, verb: Any = xid, stdin: str = "") -> str:
    result = CliRunner().invoke(verb.command, list(arguments), input=stdin, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result.stdout


def document(*arguments: str, verb: Any = xid) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("--json", *arguments, verb=verb))
    return found


def test_a_code_is_explained_within_80_columns() -> None:
    lines = said("79").splitlines()
    assert lines[0] == "P0        Xid 79  GPU has fallen off the bus"
    assert max(map(len, lines)) <= 80
    heads = [line[:10].rstrip() for line in lines if line[:1] != " "]
    assert heads == ["P0", "now", "job", "node", "causes", "beside", "replace", "note", "vendor", "driver"]


def test_several_codes_are_one_story() -> None:
    assert said("63", "94", "48").splitlines()[:3] == [
        "Together: P0",
        "first     Xid 48, uncorrectable (double-bit) memory error",
        "beside it Xid 63, Xid 94",
    ]
    assert document("48 63,94")["together"]["first"] == "xid.48"


def test_a_line_is_decoded_also_when_the_shell_tore_it() -> None:
    whole = document(LINE)
    assert document(*LINE.split()) == whole
    code = whole["codes"][0]
    assert (code["signature"], code["severity"], code["pci"]) == ("xid.149", "P0", "0000:4f:00")
    assert code["says"][:2] == [
        "unit NETIR_LINK_EVT, fatal, link 4",
        "link-down reason: Peer side down to disable state (33)",
    ]
    assert code["fields"]["words"] == "0x0214a5c6 0x00000000 0x00000000"


def test_lines_come_on_stdin_too() -> None:
    text = f"noise\n[1.000001] {LINE}\nNVRM: Xid (PCI:0000:4f:00): 45, pid=1, name=p, Ch 00000001\n"
    assert said(stdin=text).splitlines()[1].startswith("first     Xid 149")


def test_codes_that_no_table_has_are_shown_and_not_judged() -> None:
    code = document("999")["codes"][0]
    assert (code["known"], code["severity"], code["root_cause"]) == (False, "P2", None)
    assert said("999").splitlines()[0] == "P2        Xid 999  unknown to this version"


def test_switch_codes_are_told_by_their_size() -> None:
    assert document("20034")["codes"][0]["signature"] == "sxid.20034"
    assert document("20034", verb=sxid)["codes"][0]["signature"] == "sxid.20034"
    assert document("sxid.20034")["codes"][0]["signature"] == "sxid.20034"
    assert document("79", verb=sxid)["codes"][0]["signature"] == "xid.79"


def test_lists_are_searched_by_all_words() -> None:
    everything, some = said("--list").splitlines(), said("--list", "contained").splitlines()
    assert any(line.startswith(" 79  P0") for line in everything)
    assert [line[:3] for line in some if line[:4].strip() in ("94", "95")] == [" 94", " 95"]
    assert len(everything) > len(some) > 1
    assert said("--list", "no such words") == ""
    listed = document("--list", "LTSSM", verb=sxid)["codes"]
    assert 20034 in [code["code"] for code in listed]


@pytest.mark.parametrize(
    "words", [("abc",), ("",), ("1e3",), ("9999999",), ("٧٩",), ("r8169 0000:03:00.0 eth0: RTL8125B, XID 641",)]
)
def test_what_is_neither_code_nor_line_is_said_to_be_so(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="is neither a code nor a line with one"):
        said(*words)


def test_nothing_asked_is_an_error() -> None:
    with pytest.raises(UsageError, match="name a code"):
        said()


def test_control_characters_of_a_line_never_reach_the_terminal() -> None:
    assert "\x1b" not in said("NVRM: Xid (PCI:0000:4f:00): 13, name=\x1b[31mred, Graphics SM \x1b]0;x\x07 Exception")
