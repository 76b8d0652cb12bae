"""Reading filters: how they are understood, what is said of a mistake and where, and that nothing else ever happens."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.filter import LONGEST, Filter, FilterError, compile_filter, complete
from stethoscope.analysis.filter_tree import Joined, Measured, Named, Not
from stethoscope.model.fields import FIELDS, RESERVED
from stethoscope.model.metric import Scope
from stethoscope.model.units import quantity
from stethoscope.paths import bundled
from tests.builders import catalogue, fleet

SMALL = fleet(2, gpus=2, ports=1)


def read(text: str) -> Filter:
    return compile_filter(text, catalogue())


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("temp > 85 C & host~gpu-0|state=lost", "(temp>85C & host~gpu-0) | state=lost"),
        ("a&b&(c&d)", "a & b & c & d"),
        ("a|(b|c)&!(d|e)", "a | ((b | c) & !(d | e))"),
        ("! ! a", "!!a"),
        ("a && b || c", "(a & b) | c"),
        ("temp==85", "temp=85"),
        ("PORT[Symbol>0]", "ib[symbol>0]"),
        ("ALL ( temp<80 )", "all(temp<80)"),
        ("finding~'link sick'", 'finding~"link sick"'),
        (r'finding="a \"b\" \\ c"', r'finding="a \"b\" \\ c"'),
        ('"gpu-001"', "gpu-001"),
        ("gpu[001-064]", "gpu[001-064]"),
        ("gpu[temp>85]", "gpu[temp>85]"),
        ("any", "any"),
        ("temp", "temp"),
        ("power>600 W | power<60", "power>600W | power<60"),
    ],
)
def test_how_a_filter_is_understood(text: str, printed: str) -> None:
    assert str(read(text)) == printed
    assert read(printed) == read(text)


def test_and_binds_tighter_than_or() -> None:
    tree = read("a | b & !c").tree
    assert tree == Joined("|", (Named("a"), Joined("&", (Named("b"), Not(Named("c"))))))
    alias, id_ = read("temp>85").tree, read("gpu_temp>85").tree
    assert isinstance(alias, Measured)
    assert isinstance(id_, Measured)
    assert alias.metric == id_.metric == catalogue()["gpu_temp"]
    assert hash(read("temp>85")) == hash(read("temp > 85"))


MISTAKES = [
    ("tmep>85", (0, 4), 'unknown name "tmep"; did you mean "temp"?'),
    ("a & hots=x", (4, 8), 'unknown name "hots"; did you mean "host"?'),
    ("symbol.sum>1", (0, 10), 'unknown name "symbol.sum"; did you mean "symbol"?'),
    ("temp.new>1", (0, 8), ".new is for counters, and temp is none"),
    ("temp>", (5, 5), "a value after > is missing"),
    ("temp>&a", (5, 6), 'a value after > is missing before "&"'),
    ("temp>85F", (5, 8), '"85F" is no number in C, as gpu_temp is'),
    ("temp>hot", (5, 8), '"hot" is no number in C, as gpu_temp is'),
    ("temp=mising", (5, 11), '"mising" is no number in C, as gpu_temp is; did you mean "missing"?'),
    ("temp>1e999", (5, 10), '"1e999" is no number in C, as gpu_temp is'),
    ("power>=critical", (7, 15), "gpu_power_draw has no level critical"),
    ("ib_tx>100GB/s", (6, 13), '"100GB/s" is no number in Gb/s, as ib_port_xmit_data is'),
    ("temp~8", (4, 5), "~ looks for words, and gpu_temp is a number: use = != > >= < <="),
    ("host>3", (4, 5), "host is a word: compare it with = != ~ or !~"),
    ("port_state=Actve", (11, 16), 'ib_port_state is never "Actve"; did you mean "active"?'),
    ("state=losst", (6, 11), 'state is never "losst"; did you mean "lost"?'),
    ("severity>P9", (9, 11), 'severity is never "P9"; known: P0 P1 P2 info none'),
    ("severity>P*", (9, 11), 'severity is never "P*"; known: P0 P1 P2 info none'),
    ("device=3", (0, 6), "device stands inside gpu[...], ib[...] and the like"),
    ("a b", (2, 3), '"b": & (and) or | (or) is missing before it'),
    ("a and b", (2, 5), '"and": write &'),
    ("a |", (3, 3), "a condition is missing"),
    ("| a", (0, 1), 'a condition is missing before "|"'),
    ("!", (1, 1), "a condition is missing"),
    ("(a", (2, 2), '")" is missing'),
    ("(a]", (2, 3), '")" for column 1 is missing before "]"'),
    ("a)", (1, 2), '")": nothing was opened that it closes'),
    ("()", (1, 2), 'a condition is missing before ")"'),
    ("gpu[temp>85", (11, 11), '"]" is missing'),
    ("gpu-[001-0", (10, 10), '"]" is missing'),
    ("gpx[temp>85]", (0, 3), '"gpx" is no kind of device; did you mean "gpu"?'),
    ("al(temp>85)", (0, 2), '"al(...)" has no meaning; did you mean "all"?'),
    ("gpu[symbol>0]", (4, 13), "symbol belongs to ib, not to gpu"),
    ("all(host~a)", (0, 11), "all() asks about devices of one kind, and here is none"),
    ("any(temp>1 & symbol>0)", (0, 22), "any() asks about devices of one kind, and here are gpu and ib"),
    ("all(gpu[temp>1])", (4, 8), "gpu[ cannot stand inside all("),
    ("host='a b", (5, 9), "the closing quote is missing"),
    ('""', (0, 2), "there is nothing between the quotes"),
    ("host=''", (5, 7), "there is nothing between the quotes"),
    ("gpu-[9-1]", (0, 9), None),
    ("gpu[1-99999999]", (0, 15), 'node set "gpu[1-99999999]" names more than 20,000 nodes'),
    ("(" * 60 + "a", (40, 41), "more than 40 parentheses inside each other"),
    ("a" * 501, (500, 501), "a filter has at most 500 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "message"), MISTAKES)
def test_mistakes(text: str, place: tuple[int, int], message: str | None) -> None:
    with pytest.raises(FilterError) as caught:
        read(text)
    error = caught.value
    assert (error.start, error.end) == place
    assert message is None or error.message == message
    assert str(error) == f"column {place[0] + 1}: {error.message}"
    assert error.exit_code == 64


def test_what_a_mistake_repeats_is_clean() -> None:
    with pytest.raises(FilterError) as caught:
        read("\x1b[31mx\x1b]0;evil\x07>3")
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("85", "C", 85), ("85C", "C", 85), ("85°C", "C", 85), ("85F", "C", None), ("-3.5", "s", -3.5), (".5", "%", 0.5),
        ("0.7kW", "W", 700), ("1.9GHz", "MHz", 1900), ("50%", "%", 50), ("2", "GT/s", 2), ("32GT/s", "GT/s", 32),
        ("70G", "MiB", 71_680), ("70GiB", "MiB", 71_680), ("1GB", "MiB", 953.67431640625), ("1T", "GiB", 1024),
        ("9000", "bytes", 9000), ("9k", "bytes", 9216), ("9kB", "bytes", 9000),
        ("400G", "Gb/s", 400), ("400Gbps", "Gb/s", 400), ("400gb/s", "Gb/s", 400), ("0.4Tbit/s", "Gb/s", 400),
        ("100M", "Gb/s", 0.1), ("50GB/s", "Gb/s", None), ("50GB/s", "GB/s", 50), ("50gb/s", "GB/s", None),
        ("1.5G", "KB/s", 1_500_000), ("100G", "Mb/s", 100_000),
        ("120/h", "/s", 120 / 3600), ("3/min", "/s", 0.05), ("1/y", "/s", None), ("2", "/s", 2),
        ("5m", "s", 300), ("20ms", "s", 0.02), ("1s", "ms", 1000), ("2d", "h", 48),
        ("x16", "lanes", 16), ("gen5", "generation", 5), ("8lanes", "lanes", 8), ("8x", "lanes", None),
        ("3tasks", "tasks", 3), ("3task", "tasks", 3), ("20k", "files", 20_000), ("1M", "ticks/s", 1e6),
        ("0x40", "bits", 64), ("0x40k", "bits", None), ("1e3", "W", 1000), ("1e999", "W", None), ("nan", "W", None),
        ("inf", "W", None), ("", "W", None), ("W", "W", None), ("1 W", "W", 1), ("--1", "W", None), ("1e", "W", None),
    ],
)  # fmt: skip
def test_units(text: str, unit: str, value: float | None) -> None:
    found = quantity(text, unit)
    assert found == (None if value is None else pytest.approx(value))


def test_every_metric_takes_a_number_in_its_own_unit() -> None:
    for metric in catalogue().values():
        unit = metric.shown_unit
        assert quantity("3", unit) == 3
        if unit not in ("bool", "state", "code", "bits", "generation", "lanes"):
            assert quantity(f"3 {unit}", unit) == 3, unit
        assert read(f"{metric.id}>=3").nodes(SMALL).size == 2


# ---- whatever is typed

_PIECES = st.sampled_from([
    "temp", "gpu_temp", "host", "state", "lost", "severity", "P1", "throttle", "none", "missing", "symbol",
    "symbol.new", "port_state", "Active", "85", "85C", "400G", "120/h", "gpu-0", "gpu-[1-3]", "*", "?", "gpu", "ib",
    "all", "any", "rack", "job", "device", "=", "!=", "~", "!~", ">", ">=", "<", "<=", "&", "|", "!", "(", ")", "[",
    "]", " ", '"', "'", "\\", '"a b"', ",", "fs", "disk", '" P1 "', "P*", "\x1b", "ü", "gpu[", "all(", "[1-", "0x4",
    "-",
])  # fmt: skip


def tried(text: str) -> tuple[Filter | None, FilterError | None]:
    try:
        return read(text), None
    except FilterError as error:
        return None, error


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.lists(_PIECES, max_size=14).map("".join), st.text(max_size=60)))
def test_any_text_is_read_or_is_a_filter_error_and_reads_again_as_printed(text: str) -> None:
    found, error = tried(text)
    if error is not None:
        assert 0 <= error.start <= error.end <= max(len(text), LONGEST + 1)
        assert error.message
    if found is not None:
        assert read(str(found)) == found
        assert found.nodes(SMALL).shape == (2,)
        for scope in Scope:
            rows = found.rows(SMALL, scope)
            assert rows is None or rows.shape == (SMALL.tables[scope].values.shape[1],)
    for cursor in (0, len(text) // 2, len(text)):
        assert len(complete(text, cursor, SMALL)) <= 60


_CONDITIONS = st.sampled_from([
    "temp>85", "temp<=60.5C", "temp=missing", "util!=98", "cpu>=12%", "symbol>1/h", "ib_tx.total>5", "host~gpu-0",
    "state!=live", "severity>=P1", 'finding!~"a b"', "gpu-00?", "gpu-[001-002]", "throttle~thermal",
    "port_state=active", "gpu[temp>85 & (util<10 | device=1)]", "all(temp<80)", "ib[!symbol>0]", "rack=rack-01",
    "model~h100",
])  # fmt: skip
_FILTERS = st.recursive(
    _CONDITIONS,
    lambda part: st.one_of(
        part.map("!({})".format),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: "(" + " & ".join(parts) + ")"),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: "(" + " | ".join(parts) + ")"),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(_FILTERS)
def test_a_filter_prints_as_itself(text: str) -> None:
    if len(text) <= LONGEST:
        found = read(text)
        assert read(str(found)) == found
        assert str(read(str(found))) == str(found)


@settings(max_examples=100, deadline=None)
@given(_FILTERS, _FILTERS)
def test_signs_mean_what_they_say(one: str, other: str) -> None:
    if len(one) + len(other) > LONGEST - 20:
        return
    first, second = read(one).nodes(SMALL), read(other).nodes(SMALL)
    assert (read(f"({one}) & ({other})").nodes(SMALL) == (first & second)).all()
    assert (read(f"({one}) | ({other})").nodes(SMALL) == (first | second)).all()
    assert not (read(f"!({one})").nodes(SMALL) & first).any()


# ---- names


def test_names_are_told_apart() -> None:
    aliases = [metric.alias for metric in catalogue().values() if metric.alias]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & (RESERVED | catalogue().keys())
    assert not RESERVED & catalogue().keys()
    assert set(aliases) >= {
        "temp",
        "util",
        "power",
        "clock",
        "mem",
        "margin",
        "throttle",
        "ecc",
        "link_downed",
        "symbol",
    }
    assert set(aliases) >= {"iowait", "softirq", "load", "ib_tx", "ib_rx", "xid", "latency", "cpu", "age"}
    assert set(FIELDS) >= {"host", "rack", "pod", "leaf", "job", "user", "partition", "state", "severity", "finding"}


def test_the_documentation_has_every_name() -> None:
    text = (bundled("playbooks").parent / "docs" / "filter.md").read_text()
    short = [(metric.alias, metric.id) for metric in catalogue().values() if metric.alias]
    assert re.findall(r"^\| `([a-z0-9_]+)` \| `([a-z0-9_]+)` \|", text, re.MULTILINE) == short
    for name, meaning in FIELDS.items():
        assert f"| `{name}` | {meaning} |" in text
