"""The metric catalogue: the bundled one is sound, an operator's wins, and contradictions are told with their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.model.metric import Kind, Scope
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.probes import load_manifest
from tests.builders import catalogue

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "stethoscope" / "playbooks"


def write(directory: Path, *entries: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    text = "schema: stethoscope.metrics/1\nmetrics:\n" + "".join(f"- {{{entry}}}\n" for entry in entries)
    (directory / "metrics.yaml").write_text(text)
    return directory


NAMED = "id: gpu_temp, title: {}, scope: gpu, unit: C, kind: gauge, meaning: m"
GAUGE = NAMED.format("t")
COUNTER = GAUGE.replace("gauge", "counter")
TOTAL = "critical_total is above 0, and needs worse: high"
GROUP = "a metric of tier medium or slow has a group, the part that brings it; the others have none"


def test_the_bundled_catalogue() -> None:
    metrics = load_catalogue()
    assert metrics == catalogue()
    assert (metrics["gpu_temp"].warn, metrics["gpu_temp"].critical) == (83, None)
    assert metrics["nvml_latency"].critical == 5000
    assert metrics["ib_port_rcv_data"].pins == (2**32 - 1,)
    assert dict(metrics["ib_port_state"].words)[4] == "Active"
    assert metrics["nvlink_rx"].shown_unit == "GB/s"
    assert {metric.scope for metric in metrics.values()} == set(Scope)


def test_what_is_read_rarely_belongs_to_a_group_of_the_manifest() -> None:
    groups = {watch.id: watch.tier for watch in load_manifest().watch}
    rare = {metric.id: metric for metric in load_catalogue().values() if metric.tier in ("medium", "slow")}
    assert {metric.group for metric in rare.values()} == set(groups)
    assert [metric.id for metric in rare.values() if groups[metric.group] != metric.tier] == []


def test_devices_that_only_parts_tell_of_are_not_on_the_fleet_screen() -> None:
    on_the_fleet_screen = {metric.scope for metric in load_catalogue().values() if metric.fleet}
    assert on_the_fleet_screen == {Scope.NODE, Scope.GPU, Scope.PORT}


def test_every_throttle_reason_has_a_name() -> None:
    assert [bit for bit, _ in load_catalogue()["gpu_clocks_event_reasons"].words] == [1 << place for place in range(11)]


def test_times_that_count_up_are_shown_as_shares() -> None:
    metrics = load_catalogue()
    assert 10_000 * metrics["gpu_throttle_time_hw_thermal"].rate_scale == 1
    assert 10_000 * metrics["net_pfc_rx_pause_duration"].rate_scale == 1
    assert 1_000 * metrics["disk_io_time"].rate_scale == 100


def test_everything_in_it_can_be_shown() -> None:
    for metric in load_catalogue().values():
        assert metric.meaning.endswith("."), metric.id
        assert len(metric.title) <= 30, metric.id
        assert metric.shown_unit, metric.id
        assert metric.kind is not Kind.STATE or metric.words, metric.id


def test_the_nearest_definition_wins_and_stays_in_its_place(tmp_path: Path, config: Path) -> None:
    write(config, NAMED.format("from config"), NAMED.format("config only").replace("gpu_temp", "mine"))
    near = write(tmp_path / "near", NAMED.format("near"))
    far = write(tmp_path / "far", NAMED.format("far"))
    metrics = load_catalogue(near, far)
    assert metrics["gpu_temp"].title == "near"
    assert metrics["mine"].title == "config only"
    assert [*metrics] == [*catalogue(), "mine"]
    assert load_catalogue()["gpu_temp"].title == "from config"
    assert load_catalogue(tmp_path / "nowhere")["gpu_temp"].title == "from config"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (GAUGE + ", low: 5, high: 5", "low is below high"),
        (GAUGE + ", warn: 5", "warn needs worse: high or worse: low"),
        (GAUGE + ", worse: high, warn: 5, critical: 4", "critical is beyond warn in the direction of worse: high"),
        (GAUGE + ", worse: low, warn: 5, critical: 6", "critical is beyond warn in the direction of worse: low"),
        (GAUGE + ", rate_unit: /s", "rate_unit belongs to counters"),
        (GAUGE + ", lasting: true", "lasting belongs to counters"),
        (GAUGE + ", bitmask: true", "a bitmask needs words for its bits"),
        (GAUGE + ", bitmask: true, words: {3: x}", "the words of a bitmask name single bits: 0x1, 0x2, 0x4 ..."),
        (GAUGE + ", group: gpu", GROUP),
        (GAUGE + ", tier: slow", GROUP),
        (GAUGE + ", alias: host", 'the alias "host" is a word of filters'),
        (GAUGE + ", alias: gpu_temp", 'the alias "gpu_temp" is the id of a metric'),
        (GAUGE + ", alias: a-b", "an alias is made of small letters, digits and _, and begins with a letter"),
        (COUNTER, "a counter needs rate_unit, the unit of what is shown"),
        (COUNTER + ", rate_unit: /s, rate_scale: 0", "rate_scale is above 0"),
        (COUNTER + ", rate_unit: /s, bits: 65", "bits is 1 to 64"),
        (COUNTER + ", rate_unit: /s, critical_total: 1", TOTAL),
        (COUNTER + ", rate_unit: /s, worse: high, critical_total: 0", TOTAL),
        (GAUGE + ", worse: high, critical_total: 1", "critical_total belongs to counters"),
        (COUNTER + ", rate_unit: /s, pins: [0]", "a pin is a total above 0 that fits into 64 bits"),
    ],
)  # fmt: skip
def test_contradictions_are_told(entry: str, message: str, config: Path) -> None:
    write(config, entry)
    with pytest.raises(DataError) as caught:
        load_catalogue()
    assert caught.value.message == f"gpu_temp: {message}"
    assert caught.value.where.startswith(f"{config / 'metrics.yaml'}:3:")


def test_an_alias_is_of_one_metric(config: Path) -> None:
    write(config, GAUGE + ", alias: hot", GAUGE.replace("gpu_temp", "mine") + ", alias: hot")
    with pytest.raises(DataError, match='mine: the alias "hot" is that of gpu_temp'):
        load_catalogue()


def test_a_word_of_filters_is_no_id(config: Path) -> None:
    write(config, GAUGE.replace("gpu_temp", "state"))
    with pytest.raises(DataError, match='state: "state" is a word of filters'):
        load_catalogue()


def test_the_nearest_file_has_the_alias(config: Path) -> None:
    write(config, GAUGE.replace("gpu_temp", "mine") + ", alias: util", GAUGE.replace("gpu_temp", "temp"))
    metrics = load_catalogue()
    assert {metric.id for metric in metrics.values() if metric.alias in ("util", "temp")} == {"mine"}
    assert metrics["temp"].id == "temp"


def test_an_id_that_is_defined_twice_is_told(config: Path) -> None:
    write(config, NAMED.format("one"), NAMED.format("two"))
    with pytest.raises(DataError, match=r'metrics.yaml:4:8: the metric "gpu_temp" is defined twice'):
        load_catalogue()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (GAUGE + ", wurst: high", 'unknown key "wurst"; did you mean "worse"?'),
        (GAUGE.replace("scope: gpu", "scope: gqu"), "scope: invalid enum value 'gqu'; did you mean \"gpu\"?"),
        (COUNTER + ", words: {a: b}", "key: expected a whole number, got text 'a'"),
    ],
)
def test_what_does_not_fit_the_type_is_told(entry: str, message: str, config: Path) -> None:
    write(config, entry)
    with pytest.raises(DataError) as caught:
        load_catalogue()
    assert caught.value.message == message
