"""`stethoscope xid`: what an error code of a GPU means and what to do now. `sxid` is the same for NVSwitches."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.playbooks import directories, playbooks_option
from stethoscope.errors import UsageError
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.analysis.xid import Reading
    from stethoscope.analysis.xid_together import Together
    from stethoscope.specs.codes import Code, Codes, Kind

SCHEMAS = {"xid": "stethoscope.xid/1", "sxid": "stethoscope.sxid/1"}
_LEAST_SXID = 10_000
_LINE = 4096
_MOST_INPUT = 1 << 20


def options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a verb the arguments and options of a look-up of codes."""
    for option in (
        playbooks_option,
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        click.option("--list", "listed", is_flag=True, help="List the codes, or those that all WORDS are about."),
        click.argument("words", nargs=-1, metavar="CODE|LINE..."),
    ):
        function = option(function)
    return function


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options
def command(words: tuple[str, ...], listed: bool, as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Say what Xids mean: codes, or whole log lines (quoted, or on stdin). Several are read as one story."""
    return answer("xid", words, listed=listed, as_json=as_json, playbooks=playbooks)


def answer(kind: Kind, words: tuple[str, ...], *, listed: bool, as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Print what was asked for; UsageError for what is neither code nor line."""
    from stethoscope.specs.codes import load_codes

    codes = load_codes(*directories(playbooks))
    if listed:
        _print_list(kind, [word.casefold() for word in words], codes, as_json=as_json)
        return 0
    words = _asked(words)
    if not words:
        raise UsageError(f"name a code (`stethoscope {kind} {'79' if kind == 'xid' else '20034'}`), a line, or --list")
    readings = [reading for word in words for reading in _read(kind, word, codes)]
    story = None
    if len({reading.code.signature for reading in readings}) > 1:
        from stethoscope.analysis.xid_together import together

        story = together(readings, codes)
    if as_json:
        document: dict[str, Any] = {
            "schema": SCHEMAS[kind],
            "codes": [reading_json(reading, codes) for reading in readings],
            "together": _together_json(story) if story is not None else None,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return 0
    from stethoscope.cli.xid_text import is_coloured, page

    click.echo(page(readings, story, codes, colour=is_coloured()))
    return 0


def _asked(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what to read: a line whose quotes the shell took away is one again, and without words it is stdin."""
    if not words and not sys.stdin.isatty():
        lines = sys.stdin.buffer.read(_MOST_INPUT).decode(errors="replace").splitlines()
        return tuple(line for line in lines if "Xid (" in line)
    joined = " ".join(words)
    is_torn = "Xid (" in joined and not any("Xid (" in word and "): " in word for word in words)
    return (joined,) if is_torn else words


def _read(kind: Kind, word: str, codes: Codes) -> list[Reading]:
    from stethoscope.analysis.xid import read_line, reading_of

    if "Xid" in word and "(" in word:
        lines = [clean(line, _LINE) for line in word.splitlines()]
        found = [reading for line in lines if (reading := read_line(line, codes, quoted=True)) is not None]
        found = [reading for reading in found if not reading.follow_up] or found[:1]
        if not found:
            raise UsageError(f'no Xid or SXid is in the line "{clean(word, 60)}"')
        return found
    numbers = word.replace(",", " ").split()
    bare = [number.removeprefix("sxid.").removeprefix("xid.") for number in numbers]
    if not bare or any(not number.isascii() or not number.isdecimal() or len(number) > 6 for number in bare):
        hint = f"; `stethoscope {kind} --list {clean(word, 40)}` looks for words"
        raise UsageError(f'"{clean(word, 60)}" is neither a code nor a line with one{hint}')
    return [reading_of(codes.find(_kind_of(kind, int(number)), int(number))) for number in bare]


def _kind_of(asked: Kind, code: int) -> Kind:
    """The two do not overlap: 20034 is always an SXid, 79 always an Xid."""
    return "sxid" if code >= _LEAST_SXID else "xid" if asked == "xid" or code < 1000 else asked


def _print_list(kind: Kind, words: Sequence[str], codes: Codes, *, as_json: bool) -> None:
    found = [code for code in codes.all(kind) if all(word in _haystack(code) for word in words)]
    if as_json:
        listing = [_code_json(code, codes) for code in found]
        click.echo(json.dumps({"schema": SCHEMAS[kind], "codes": listing, "together": None}, ensure_ascii=False))
        return
    from stethoscope.cli.xid_text import is_coloured, table

    if found:
        click.echo(table(found, colour=is_coloured()))
    else:
        click.echo(f"no {'Xid' if kind == 'xid' else 'SXid'} is about {clean(' '.join(words), 60)}", err=True)


def _haystack(code: Code) -> str:
    words = [str(code.code), code.name, code.title, code.meaning, code.category, code.unit, code.severity.value]
    return " ".join([*words, *code.causes, *code.texts, code.root_cause or ""]).casefold()


def reading_json(reading: Reading, codes: Codes) -> dict[str, Any]:
    """Return one code, or one line, as docs/xid.md describes it."""
    return {
        **_code_json(reading.code, codes),
        "severity": reading.severity.value,
        "job": reading.job,
        "node": reading.node,
        "action": reading.action or reading.code.action,
        "pci": reading.pci or None,
        "says": list(reading.says),
        "fields": {name: value for name, value in (reading.fields or {}).items() if name not in ("xid", "sxid", "pci")},
    }


def _code_json(code: Code, codes: Codes) -> dict[str, Any]:
    return {
        "signature": code.signature,
        "kind": code.kind,
        "code": code.code,
        "known": code.known,
        "name": code.name,
        "title": code.title,
        "meaning": code.meaning,
        "severity": code.severity.value,
        "category": code.category,
        "role": code.role,
        "root_cause": code.root_cause,
        "job": code.job,
        "node": code.node,
        "action": code.action,
        "causes": list(code.causes),
        "replace_when": code.rma or None,
        "follows": list(code.follows),
        "with_xids": list(code.with_xids),
        "with_sxids": list(code.with_sxids),
        "vendor": [{"word": word, "means": codes.vendor_words(word)} for word in code.vendor],
        "families": list(code.families),
        "recovery_since": code.recovery_since or None,
        "notes": list(code.notes),
        "unit": code.unit or None,
        "printed": dict(code.printed) if code.printed else None,
    }


def _together_json(story: Together) -> dict[str, Any]:
    return {
        "first": story.first.signature if story.first is not None else None,
        "is_named": story.is_named,
        "others": [code.signature for code in story.others],
        "severity": story.severity.value,
        "says": list(story.says),
    }
