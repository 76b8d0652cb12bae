"""A search finds what fits, best first, whatever is typed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stethoscope.clock import FixedClock
from stethoscope.model.finding import Severity
from stethoscope.model.incident import END, HIT, Incident, Search, Status, Times
from stethoscope.specs.incident_query import FIELDS
from stethoscope.specs.incident_text import incident_text
from stethoscope.store.incident_index import IncidentIndex
from stethoscope.store.incident_search import key_tokens, more_like, searched
from stethoscope.store.incidents import IncidentFiles
from tests.incidents import LOST_GPU

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_773_454_447.0
"""2026-03-14T02:14:07Z"""
DAY_S = 86_400.0

RISER = replace(
    LOST_GPU,
    id="INC-2026-03-13-k7qmx",
    times=Times(began=NOW - DAY_S),
    body="NVRM: Xid 79: GPU has fallen off the bus. nccl.timeout on mlx5_3, café.",
)
CLOCKS = Incident(
    id="INC-2026-01-02-aaaaa",
    title="降频: fans of rack r7",
    component="cooling",
    times=Times(began=NOW - 70 * DAY_S),
    nodes="gpu-[003,007-009]",
    symptoms=("gpu_thermal_throttle",),
    body="clocks fell. optic fine. GPU hot.",
)
OPTIC = Incident(
    id="INC-2025-06-01-bbbbb",
    title="optic degraded",
    severity=Severity.P2,
    root_cause="ib_link_fault",
    times=Times(began=NOW - 280 * DAY_S),
    nodes="gpu-[001-400]",
    places=("gpu-007/ib/mlx5_3", "gpu-007/nvlink/5/11"),
    job="job/77",
    resolution="swapped the transceiver",
)
KIND = Incident(id="REF-optic", title="optic degraded", status=Status.REFERENCE, body="clean it, swap it")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IncidentIndex]:
    base = tmp_path_factory.mktemp("incidents")
    (base / "own").mkdir()
    for one in (RISER, CLOCKS, OPTIC, KIND):
        (base / "own" / f"{one.id}.md").write_text(incident_text(one), encoding="utf-8")
    made = IncidentIndex(IncidentFiles(base / "own"), None, base / "cache", FixedClock(NOW))
    for _ in made.follow():
        pass
    yield made
    made.close()


def _search(index: IncidentIndex, text: str, *, typing: bool = False) -> Search:
    return searched(index, text, NOW, 50, typing=typing)


NAMES = {RISER.id: "riser", CLOCKS.id: "clocks", OPTIC.id: "optic", KIND.id: "kind"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "riser clocks optic kind"),
        ("掉卡", "riser"),
        ("降频", "clocks"),
        ("卡掉", ""),
        ("optic", "optic kind clocks"),
        ("OPTIC degraded", "optic kind"),
        ("optic -degraded", "clocks"),
        ("riser OR fans", "clocks riser"),
        ('"fallen off the bus"', "riser"),
        ('"off fallen"', ""),
        ("fallen bus", "riser"),
        ("cafe", "riser"),
        ("ＧＰＵ hot", "clocks"),
        ("trans*", "optic"),
        ("nccl", "riser"),
        ("nccl.timeout", "riser"),
        ("link_fault", "optic"),
        ("gpu-014", "riser"),
        ("gpu-008", "clocks"),
        ("k7qmx", "riser"),
        ("xid:79", "riser"),
        ("xid:79,48", "riser"),
        ("xid:7", ""),
        ("sig:xid.79 rule:gpu_lost", "riser"),
        ("rule:gpu_*", "riser clocks"),
        ("node:gpu-008", "clocks optic"),
        ("node:gpu-[014-020]", "riser optic"),
        ("node:GPU-399", "optic"),
        ("gpu:3", "riser"),
        ("gpu:gpu-014/3", "riser"),
        ("gpu:gpu-014", "riser"),
        ("gpu:5", "optic"),
        ("port:mlx5_3", "optic"),
        ("port:gpu-007/ib/mlx5_3", "optic"),
        ("place:gpu-014/gpu/3", "riser"),
        ("place:gpu-014", "riser optic"),
        ("leaf:leaf-01", "riser"),
        ("rack:rack/r3", "riser"),
        ("job:4242", "riser"),
        ("job:77", "optic"),
        ("cause:ib_link_fault,gpu_fallen_off_bus", "riser optic"),
        ("component:pcie", "riser"),
        ("severity:p0 status:resolved fleet:prod", "riser"),
        ('author:"li wei"', "riser"),
        ("tag:replaced", "riser"),
        ("id:INC-2026*", "riser clocks"),
        ("id:bbbbb", "optic"),
        ("is:reference", "kind"),
        ("-is:reference -status:open", "riser"),
        ("after:2026", "riser clocks"),
        ("after:7d", "riser"),
        ("before:2026", "optic"),
        ("-after:2026", "optic kind"),
        ("after:2026-01 before:2026-02", "clocks"),
        ("xid:79 OR transceiver", "riser optic"),
        ("xid:79 OR -gpu", "riser kind"),
        ("xid:79 hot", ""),
        ("!!! riser", "riser"),
        ("gpu掉卡", "riser"),
        ("掉卡xid79", "riser"),
        ("ＧＰＵ掉卡", "riser"),
        ("-gpu掉卡 is:open", "clocks optic"),
        ("xid79", "riser"),
        ("-xid79 gpu", "clocks optic"),
    ],
)
def test_a_search_finds_what_fits_the_best_first(index: IncidentIndex, text: str, found: str) -> None:
    result = _search(index, text)
    assert [NAMES[hit.incident.id] for hit in result.hits] == found.split()
    assert result.total == len(result.hits)


@pytest.mark.parametrize(
    ("text", "said", "mended"),
    [
        ("cause:ib_link", 'cause "ib_link": did you mean ib_link_fault?', "cause:ib_link_fault"),
        ("optic cause:link_fault", 'cause "link_fault": did you mean ib_link_fault?', "optic cause:ib_link_fault"),
        ("author:li", 'author "li": did you mean li wei?', 'author:"li wei"'),
        ("node:gpu-14", 'node "gpu-14": did you mean gpu-014?', "node:gpu-014"),
        ("leaf:leaf-1", 'leaf "leaf-1": did you mean leaf-01?', "leaf:leaf-01"),
        ("node:gpu-999", 'node "gpu-999"', ""),
        ("xid:七九", 'xid "七九"', ""),
    ],
)
def test_a_value_that_no_incident_has_is_said(index: IncidentIndex, text: str, said: str, mended: str) -> None:
    found = _search(index, text)
    assert (found.total, found.notes, found.suggestion) == (0, (f"no incident has {said}",), mended)


def test_a_value_goes_on_while_one_types(index: IncidentIndex) -> None:
    assert [NAMES[hit.incident.id] for hit in _search(index, "node:gpu-01", typing=True).hits] == ["riser", "optic"]
    assert _search(index, "xid:7", typing=True).total == 1
    assert _search(index, "xid:7 ", typing=True).total == 0


def test_the_last_word_may_be_the_beginning_of_one(index: IncidentIndex) -> None:
    assert _search(index, "transc").total == 0
    assert [hit.incident for hit in _search(index, "transc", typing=True).hits] == [OPTIC]


@pytest.mark.parametrize(
    ("text", "snippet"),
    [
        ("riser", "The [riser] was reseated, then replaced."),
        ("xid gpu", "NVRM: [Xid] 79: [GPU] has fallen off the bus. nccl.timeout on mlx5_3, café."),
        ('"fallen off"', "NVRM: Xid 79: GPU has [fallen off] the bus. nccl.timeout on mlx5_3, café."),
        ("掉卡", "GPU [掉卡] on gpu-014"),
        ("nccl-timeout", "…Xid 79: GPU has fallen off the bus. [nccl.timeout] on mlx5_3, café."),
        ("fall*", "NVRM: Xid 79: GPU has [fallen] off the bus. nccl.timeout on mlx5_3, café."),
        ("k7qmx", "INC-2026-03-13-[k7qmx] Li Wei"),
        ("xid:79", ""),
    ],
)
def test_what_fits_is_marked_in_the_text_that_says_most(index: IncidentIndex, text: str, snippet: str) -> None:
    (hit,) = [hit for hit in _search(index, text).hits if hit.incident == RISER]
    assert hit.snippet.replace(HIT, "[").replace(END, "]") == snippet


def test_a_long_text_is_cut_to_whole_words(index: IncidentIndex) -> None:
    from stethoscope.specs.incident_query import Words
    from stethoscope.store.incident_snippet import Snippets

    one = Incident(id="x", title="", body=f"{'before ' * 30}needle {'behind ' * 60}")
    said = Snippets([Words("needle")]).of(one)
    assert said.startswith(f"…{'before ' * 5}{HIT}needle{END} behind")
    assert said.endswith("behind…")
    assert len(said) < 180


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("tranceiver", "transceiver"),
        ("optic degradd", "optic degraded"),
        ("xid:79 rizer", "xid:79 riser"),
        ("status:opne", "status:open"),
        ("sevrity:P0", "severity:P0"),
        ("zzzzqqqq", ""),
        ("riser", ""),
        ("sevrity:P7 qqqzzz", ""),
    ],
)
def test_typing_mistakes_are_mended_where_that_finds_more(index: IncidentIndex, text: str, suggestion: str) -> None:
    assert _search(index, text).suggestion == suggestion


def test_what_cannot_be_looked_for_is_said(index: IncidentIndex) -> None:
    assert _search(index, "!!! riser").notes == ('"!!!" has no letter or digit to look for',)
    assert _search(index, "sev:P0 riser").notes == ('no field "sev": did you mean severity?',)


def test_what_is_like_a_text_or_an_incident(index: IncidentIndex) -> None:
    assert more_like(index, key_tokens(index, "who swapped transceivers? the transceiver!"))[0][0] == OPTIC.id
    scores = more_like(index, key_tokens(index, KIND.id), KIND.id)
    assert scores[0][0] == OPTIC.id
    assert all(0 < score <= 1 for _, score in scores)
    assert more_like(index, key_tokens(index, "qqqq 12345")) == []
    assert more_like(index, []) == []


_PIECES = some.lists(
    some.sampled_from(
        ["OR", "AND", "NOT", "NEAR(", "-", '"', "'", "“", "*", "^", ":", ",", "[", "]", "(", ")", "{", "}", "掉卡",
         "\x00", "%", ";--", "\\", "gpu", "riser", "row", "words", "\u3000", "\ud800", "é", "🔥", "a" * 300]
    )
    | some.sampled_from([f"{field}:" for field in FIELDS])
    | some.text(max_size=12),
    max_size=12,
).flatmap(lambda pieces: some.sampled_from(["", " "]).map(lambda gap: gap.join(pieces)))  # fmt: skip


@given(_PIECES, some.booleans(), some.integers(0, 3))
def test_no_text_makes_a_search_fail(index: IncidentIndex, text: str, typing: bool, limit: int) -> None:
    result = searched(index, text, NOW, limit, typing=typing)
    assert len(result.hits) <= limit
    assert len(result.hits) <= result.total <= 4
    assert not [note for note in result.notes if note.startswith("could not be searched")]


@given(some.text(max_size=80))
def test_no_text_makes_a_comparison_fail(index: IncidentIndex, text: str) -> None:
    for identity, score in more_like(index, key_tokens(index, text)):
        assert identity in NAMES
        assert 0 <= score <= 1


def test_the_newest_of_those_that_fit_as_well_is_first(tmp_path: object, index: IncidentIndex) -> None:
    older, newer = (
        replace(OPTIC, id="INC-o", times=Times(began=1.0)),
        replace(OPTIC, id="INC-n", times=Times(began=2.0)),
    )
    directory = index._roots[0].directory.parent / "ties"
    directory.mkdir()
    for one in (older, newer):
        (directory / f"{one.id}.md").write_text(incident_text(one), encoding="utf-8")
    ties = IncidentIndex(IncidentFiles(directory), None, directory, FixedClock(NOW))
    for _ in ties.follow():
        pass
    assert [hit.incident.id for hit in _search(ties, "optic").hits] == ["INC-n", "INC-o"]
    ties.close()
