"""Signatures: which definition counts, what an event gets from them, what is said of wrong ones."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.specs.signature import Signatures


@pytest.fixture(autouse=True)
def _own_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


ONE = """\
schema: stethoscope.signatures/1
signatures:
- id: made.up
  anchors: [made up]
  patterns: ['made up by (?P<who>\\w+) (?P<n>[\\w.-]+)']
  role: either
  root_cause: nccl_bug
  severity: P1
  versions: "1"
  meaning: Somebody made this up.
  variants:
  - {when: {who: [eve, 7]}, role: symptom, root_cause: null, blame: named}
  - {when: {n: 3}, severity: P0, next_checks: [count them]}
  fold_by: [who]
  culprit: {blame: nobody, host: who}
  samples: {match: [made up by eve 1]}
"""


def write(directory: Path, text: str, name: str = "own.yaml") -> Path:
    (directory / "signatures").mkdir(parents=True, exist_ok=True)
    (directory / "signatures" / name).write_text(textwrap.dedent(text))
    return directory


def test_the_bundled_ones_say_what_to_do() -> None:
    known = load_signatures().by_id
    assert len(known) >= 380
    for one in known.values():
        assert one.meaning.endswith("."), one.id
        if one.role in ("cause", "either"):
            assert one.next_checks or all("next_checks" in variant.changes for variant in one.variants), one.id


def test_the_nearest_definition_of_an_id_counts(tmp_path: Path) -> None:
    bundled = load_signatures()
    near = write(tmp_path / "near", ONE.replace("made.up", "nccl.hint").replace("Somebody", "Nobody"))
    user = write(tmp_path / "config" / "stethoscope" / "playbooks", ONE.replace("made.up", "nccl.hint"))
    assert load_signatures().by_id["nccl.hint"].meaning == "Somebody made this up."
    assert load_signatures().by_id["nccl.hint"].source == f"{user}/signatures/own.yaml"
    both = load_signatures(near)
    assert both.by_id["nccl.hint"].meaning == "Nobody made this up."
    assert both.by_id.keys() == bundled.by_id.keys()
    # What was overridden is not looked for any more.
    assert b"NCCL INFO HINT: " in bundled.anchors
    assert b"NCCL INFO HINT: " not in both.anchors


def test_equal_files_elsewhere_keep_their_own_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        found = load_signatures(write(tmp_path / name, ONE)).by_id["made.up"]
        assert found.source == f"{tmp_path}/{name}/signatures/own.yaml"
    assert len(list((tmp_path / "cache").rglob("signatures-*.json"))) == 1


@pytest.fixture
def made(tmp_path: Path) -> Signatures:
    return load_signatures(write(tmp_path / "own", ONE))


def test_variants_change_what_the_fields_decide(made: Signatures) -> None:
    one = made.by_id["made.up"]
    match = one.search("it was made up by eve 3")
    assert match is not None
    fields = one.fields(match)
    assert fields == {"who": "eve", "n": 3}
    first = one.variant(fields)
    assert (first.role, first.root_cause, first.severity) == ("symptom", None, Severity.P1)
    assert (first.culprit.blame, first.culprit.host) == ("named", "who")
    second = one.variant({"who": "bob", "n": 3})
    assert (second.role, second.severity, second.next_checks) == ("either", Severity.P0, ("count them",))
    assert one.variant({"who": "bob", "n": 4}) is one
    assert one.variant({}) is one


@pytest.mark.parametrize(
    ("said", "value"), [("7", 7), ("-7", -7), ("007", "007"), ("0", 0), ("1.5", "1.5"), ("9" * 19, "9" * 19)]
)
def test_whole_numbers_become_numbers(said: str, value: str | int, made: Signatures) -> None:
    one = made.by_id["made.up"]
    match = one.search(f"made up by eve {said}")
    assert match is not None
    assert one.fields(match)["n"] == value


def test_ranks_with_zeros_before_them_are_numbers_and_addresses_are_none() -> None:
    known = load_signatures().by_id
    traceback, start = known["python.traceback"], known["nccl.init.start"]
    match = traceback.search("[Rank 02] Traceback (most recent call last):")
    assert match is not None
    assert traceback.fields(match) == {"rank": 2}
    match = start.search("comm 0x7f40 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 81000 commId 0x1 - Init START")
    assert match is not None
    assert start.fields(match)["busid"] == "81000"


def test_what_yields_is_left_out(tmp_path: Path) -> None:
    text = ONE + ONE[ONE.index("- id") :].replace("made.up", "made.general").replace("P1", "P2")
    general = text.replace("  fold_by: [who]\n", '  fold_by: [who]\n  yields_to: ["*"]\n')
    # Both say it of themselves: neither counts instead of the other.
    both = load_signatures(write(tmp_path / "both", general))
    assert [one.id for one, _ in both.find("made up by eve 1")] == ["made.up", "made.general"]
    first, _, second = text.partition("- id: made.general")
    for own, ids in (
        ('["*"]', ["made.up"]),
        ("[made.up]", ["made.up"]),
        ("[nccl.hint]", ["made.up", "made.general"]),
    ):
        name = str(abs(hash(own)))
        changed = first + "- id: made.general" + second.replace("fold_by: [who]", f"yields_to: {own}")
        found = load_signatures(write(tmp_path / name, changed)).find("made up by eve 1")
        assert [one.id for one, _ in found] == ids
    evidence = first.replace("either", "context") + "- id: made.general" + second
    evidence = evidence.replace("fold_by: [who]", 'yields_to: ["*"]')
    found = load_signatures(write(tmp_path / "evidence", evidence)).find("made up by eve 1")
    assert [one.id for one, _ in found] == ["made.up", "made.general"]
    head, _, tail = evidence.partition("- id: made.general")
    of_family = head.replace('["*"]', "[]") + "- id: made.general" + tail.replace('["*"]', '["*", "made.*"]')
    found = load_signatures(write(tmp_path / "family", of_family)).find("made up by eve 1")
    assert [one.id for one, _ in found] == ["made.up"]


def test_a_python_error_yields_to_what_is_known_of_it() -> None:
    signatures = load_signatures()

    def ids(text: str) -> list[str]:
        return [one.id for one, _ in signatures.find(text)]

    assert ids("KeyError: 'mask'") == ["python.exception"]
    assert ids("RuntimeError: CUDA error: an illegal memory access was encountered") == ["cuda.illegal_address"]
    assert ids("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:") == ["elastic.child_failed"]
    assert ids("RuntimeError: DataLoader worker (pid 5) is killed by signal: Killed. ") == ["loader.killed"]


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        (("made.up", "Made.Up"), "3:7", "an id is words of lower-case letters"),
        (("anchors: [made up]", "anchors: [up]"), "4:13", "an anchor has at least 4 characters"),
        (("anchors: [made up]", "anchors: []"), "4:12", "it needs an anchor"),
        (("(?P<n>", "(?P<n"), "5:14", "not a regular expression: "),
        (("nccl_bug", "nccl_bags"), "7:15", 'unknown root cause "nccl_bags"; did you mean "nccl_bug"?'),
        (("fold_by: [who]", "fold_by: [whom]"), "14:13", 'no pattern has a group "whom"; did you mean "who"?'),
        (("host: who", "host: home"), "15:34", 'no pattern has a group "home"'),
        (("{who: [eve, 7]}", "{whose: eve}"), "12:20", 'no pattern has a group "whose"'),
        (("role: either", "role: culprit"), "6:9", "culprit"),
        (("  versions", "  verions"), "9:3", 'unknown key "verions"; did you mean "versions"?'),
        (("fold_by: [who]", "fold_into: [nccl.hints]"), "14:15", 'unknown signature "nccl.hints"; did you mean'),
        (("fold_by: [who]", 'fold_into: ["*"]'), "14:15", 'unknown signature "*"'),
        (("fold_by: [who]", "beside: [nccl.hints]"), "14:12", 'unknown signature "nccl.hints"'),
        (("stethoscope.signatures/1", "stethoscope.rules/1"), "1:9", "schema: "),
    ],
)
def test_errors(change: tuple[str, str], place: str, message: str, tmp_path: Path) -> None:
    directory = write(tmp_path / "own", ONE.replace(*change))
    with pytest.raises(DataError) as raised:
        load_signatures(directory)
    assert str(raised.value).startswith(f"{directory}/signatures/own.yaml:{place}: "), raised.value
    assert message in str(raised.value)


def test_two_definitions_in_one_directory(tmp_path: Path) -> None:
    directory = write(tmp_path / "own", ONE)
    write(directory, ONE, "zweite.yaml")
    with pytest.raises(DataError, match=r'zweite\.yaml:3:7: the signature "made\.up" is defined twice'):
        load_signatures(directory)


def test_codes_may_be_named(tmp_path: Path) -> None:
    directory = write(tmp_path / "own", ONE.replace("fold_by: [who]", "fold_into: [xid.79, sxid.20034]"))
    assert load_signatures(directory).by_id["made.up"].fold_into == ("xid.79", "sxid.20034")
