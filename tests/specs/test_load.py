"""Data files: what they say, what is refused, and where the error is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.errors import DataError
from stethoscope.specs.load import MAX_DEPTH, SeveralDataError, Spec, convert, load, loads

if TYPE_CHECKING:
    from pathlib import Path


class Port(Spec, frozen=True):
    device: str
    rail: int = 0


class Fleet(Spec, frozen=True):
    name: str
    nodes: list[Port] = msgspec.field(default_factory=list)
    limits: dict[int, float] = msgspec.field(default_factory=dict)
    strict: bool | None = None
    uplink: Port | None = None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-12", 1e-12), ("1E3", 1000.0), ("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("-3", -3), ("+7", 7), ("0", 0),
        ("1_000", 1000), ("0x10", 16), ("0o17", 15), ("0b101", 5), ("true", True), ("False", False), ("null", None),
        ("~", None), ("", None), ("2026-03-14", "2026-03-14"), ("2026-03-14T02:14:07Z", "2026-03-14T02:14:07Z"),
        ("'017'", "017"), ('"on"', "on"), ("!!str 12", "12"), ("onward", "onward"), ("y", "y"), ("1.2.3", "1.2.3"),
        ("10.0.0.1", "10.0.0.1"), ("gpu[001-064]", "gpu[001-064]"), ("0000:4f:00.0", "0000:4f:00.0"), ("-", [None]),
        ("[1, a]", [1, "a"]), ("{on: 1, 2: x}", {"on": 1, 2: "x"}), ("=", "="), ("1-3", "1-3"), ("5s", "5s"),
        ("{<<: {a: 1, b: 2}, b: 3}", {"a": 1, "b": 3}), ("{<<: [{a: 1}, {a: 2, c: 3}]}", {"a": 1, "c": 3}),
        ("[&x {a: 1}, *x]", [{"a": 1}, {"a": 1}]),
    ],
)  # fmt: skip
def test_read_as_what_it_looks_like(text: str, value: object) -> None:
    read = loads(text).data
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a: on", "1:4", 'on is a truth value to some readers and text to others: write true, or "on"'),
        ("a:\n  - No", "2:5", 'No is a truth value to some readers and text to others: write false, or "No"'),
        ("a: 1:30", "1:4", '1:30 is a number of base 60 to some readers: write "1:30" for text, or plain seconds'),
        ("a: 017", "1:4", '017 is octal to some readers: write "017" for text, or no leading zero'),
        ("a: .nan", "1:4", ".nan is not a number that can be compared with"),
        ("a: -.inf", "1:4", "-.inf is not a number that can be compared with"),
        ("a: 1e999", "1:4", "1e999 is too large for a number"),
        ("a: " + "9" * 50, "1:4", "a number of more than 40 digits"),
        ("a: 1\nb: 2\na: 3", "3:1", 'the key "a" stands here twice'),
        ("a: {1: x, 0x1: y}", "1:11", 'the key "1" stands here twice'),
        ("[a]: 1", "1:1", "a key is text or a whole number"),
        ("true: 1", "1:1", "a key is text or a whole number"),
        ("{<<: 1}", "1:6", "only a mapping can be merged with <<"),
        ("a: !!python/name:os.system", "1:4", "the tag tag:yaml.org,2002:python/name:os.system is not used here"),
        ("a: !!binary aGVsbG8=", "1:4", "the tag tag:yaml.org,2002:binary is not used here"),
        ("a: &x [*x]", "1:7", None),
        ("a: [1", "2:1", None),
        ("a: 1\n---\nb: 2", "2:1", None),
        ("a: *nowhere", "1:4", None),
        ("a:\n\t- b", "2:1", None),
    ],
)
def test_refused_with_its_place(text: str, where: str, message: str | None) -> None:
    with pytest.raises(DataError) as caught:
        loads(text, "fleet.yaml")
    if message is not None:
        assert str(caught.value) == f"fleet.yaml:{where}: {message}"
    else:
        assert caught.value.where.startswith("fleet.yaml:")


def test_aliases_cannot_stand_for_billions() -> None:
    bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
    bomb += "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    with pytest.raises(DataError, match="values"):
        loads(bomb)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 5, 900, 50_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    with pytest.raises(DataError):
        loads("[" * depth + "]" * depth)


def test_a_file_and_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: prod\n")
    assert load(path).data == {"name": "prod"}
    path.write_bytes(b"name: prod\nother: \xff\n")
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(caught.value) == f"{path}:2: not UTF-8 text"
    with pytest.raises(DataError, match="No such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(DataError, match="directory"):
        load(tmp_path)


TEXT = """\
name: prod
nodes:
  - device: mlx5_0
  - device: mlx5_1
    rail: 1
limits: {1: 0.5}
"""


def test_every_value_has_a_place() -> None:
    loaded = loads(TEXT, "f.yaml")
    assert loaded.where("nodes", 1, "rail") == "f.yaml:5:11"
    assert loaded.where_key("nodes", 1, "rail") == "f.yaml:5:5"
    assert loaded.where("limits", 1) == "f.yaml:6:13"
    assert loaded.where("nodes", 7) == "f.yaml:3:3"
    assert loaded.where("nodes", 1, "nothing") == "f.yaml:4:5"
    assert str(loaded.error("bad rail", "nodes", 1, "rail")) == "f.yaml:5:11: bad rail"


def test_a_file_becomes_its_type() -> None:
    fleet = convert(loads(TEXT), Fleet)
    assert fleet == Fleet(name="prod", nodes=[Port(device="mlx5_0"), Port(device="mlx5_1", rail=1)], limits={1: 0.5})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nmae: prod\nname: x", 'f:1:1: unknown key "nmae"; did you mean "name"?'),
        ("nodes: []", 'f:1:1: the key "name" is missing'),
        ("name: 5", "f:1:7: name: expected text, got a whole number 5"),
        ("name: x\nnodes: [{device: a, rail: b}]", "f:2:27: rail: expected a whole number, got text 'b'"),
        ("name: x\nuplink: {device: a, rial: 1}", 'f:2:21: unknown key "rial"; did you mean "rail"?'),
        ("name: x\nlimits: {a: 1}", "f:2:10: key: expected a whole number, got text 'a'"),
        ("name: x\nstrict: 1", "f:2:9: strict: expected true or false or nothing, got a whole number 1"),
        ("- name", "f:1:1: expected a mapping, got a list"),
        ("", "f: expected a mapping, got nothing"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        convert(loads(text, "f"), Fleet)
    assert str(caught.value) == message


def test_several_errors_are_told_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(SeveralDataError) as caught:
        convert(loads("nodes: [{rail: x}, 5]\nname: 1\nother: 2", "f"), Fleet)
    assert [error.where for error in caught.value.errors] == ["f:1:9", "f:1:16", "f:1:20", "f:2:7", "f:3:1"]
    assert str(caught.value).count("\n") == 4


class Metric(Spec, frozen=True, tag_field="kind", tag="metric"):
    name: str


class Peers(Spec, frozen=True, tag_field="kind", tag="peers"):
    of: list[int]


class Rule(Spec, frozen=True):
    when: list[Metric | Peers]


def test_the_error_is_about_the_member_of_a_union_that_was_meant() -> None:
    with pytest.raises(DataError) as caught:
        convert(loads("when:\n- {kind: peers, of: [1, x]}", "f"), Rule)
    assert str(caught.value) == "f:2:25: expected a whole number, got text 'x'"


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
documents: st.SearchStrategy[Any] = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@given(documents)
def test_what_was_dumped_comes_back(document: Any) -> None:
    text = yaml.safe_dump(document)
    try:
        read = loads(text).data
    except DataError as error:
        # The writer leaves these unquoted, for it knows only its own reading.
        told = str(error)
        assert any(
            words in told for words in ("to some readers", "control characters", "compared with", "a key is text")
        )
    else:
        assert read == document


@given(st.text() | st.text(alphabet="{}[]:,-&*!|>'\"#%@`? \n\tab01"))
def test_no_text_gives_another_error(text: str) -> None:
    with suppress(DataError):
        convert(loads(text), Fleet)
