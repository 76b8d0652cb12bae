"""`stethoscope explain`: what one kind of log line means, or the list of all that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.playbooks import directories, playbooks_option
from stethoscope.errors import EXIT_HEALTHY, UsageError, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from stethoscope.session.explain import Explanation


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from stethoscope.session.explain import listed
    from stethoscope.specs.codes import load_codes
    from stethoscope.specs.signature import load_signatures

    return [
        CompletionItem(one.id, help=one.meaning)
        for one in listed("", load_signatures(), load_codes())
        if one.id.startswith(incomplete)
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, metavar="[SIGNATURE]...", shell_complete=_complete)
@click.option("--list", "as_list", is_flag=True, help="List all signatures and codes, or those with the WORDS in them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.explain/1).")
@playbooks_option
def command(words: tuple[str, ...], as_list: bool, as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Explain kinds of log lines by their ids, such as nccl.ib.completion or xid.79; --list finds them by words."""
    from stethoscope.session.explain import explanation, listed
    from stethoscope.specs.codes import load_codes
    from stethoscope.specs.signature import load_signatures

    own = directories(playbooks)
    signatures, codes = load_signatures(*own), load_codes(*own)
    if as_list or not words:
        found = listed(" ".join(words), signatures, codes)
        if not found:
            raise UsageError(f'no signature and no code has "{" ".join(words)}" in it')
        if as_json:
            _print_json({"signatures": [one._asdict() | {"severity": one.severity.value} for one in found]})
        else:
            from stethoscope.cli.paint import print_rows
            from stethoscope.ui.present.explained import listed_rows

            print_rows(lambda glyphs, cells, is_terminal: listed_rows(found, glyphs, cells, is_cut=is_terminal))
        return EXIT_HEALTHY
    known = [explanation(word, signatures, codes) for word in words]
    for word, one in zip(words, known, strict=True):
        if one is None:
            near = did_you_mean(word, [*signatures.by_id, *(code.signature for code in codes.all("xid"))])
            raise UsageError(f'no signature is called "{word}"{near}; stethoscope explain --list WORDS finds them')
    explained = [one for one in known if one is not None]
    if as_json:
        _print_json({"explained": [_as_json(one) for one in explained]})
        return EXIT_HEALTHY
    from stethoscope.cli.paint import print_rows
    from stethoscope.ui.present.explained import explanation_rows

    print_rows(
        lambda glyphs, cells, _: [
            row
            for number, one in enumerate(explained)
            for row in (*([()] if number else []), *explanation_rows(one, glyphs, cells))
        ]
    )
    return EXIT_HEALTHY


def _as_json(one: Explanation) -> dict[str, Any]:
    return {
        "id": one.id,
        "title": one.title,
        "severity": one.severity.value,
        "role": one.role,
        "parts": [{"label": part.label, "texts": list(part.texts)} for part in one.parts],
    }


def _print_json(document: dict[str, Any]) -> None:
    import msgspec

    click.echo(msgspec.json.encode({"schema": "stethoscope.explain/1", **document}).decode())
