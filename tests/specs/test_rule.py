"""Rule files: the operator's form, every error with its position, and the bundled rules."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Kind, Metric, Reason, Scope
from stethoscope.paths import bundled
from stethoscope.specs.condition import (
    Absent,
    Against,
    Combined,
    Compare,
    Held,
    LinkIs,
    XidSeen,
)
from stethoscope.specs.load import loads
from stethoscope.specs.root_cause import load_root_causes, read_root_causes
from stethoscope.specs.rule import fill, read_rules
from stethoscope.specs.rule_book import load_rules
from tests.builders import catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.specs.rule import Rule

CAUSES = read_root_causes(bundled("playbooks") / "root_causes.yaml")
NVLINK = Metric("nvlink_error_rate", "NVLink errors", Scope.GPU, "%", Kind.GAUGE, tier="medium", worse="high")


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def read(text: str) -> tuple[Rule, ...]:
    return read_rules(loads(textwrap.dedent(text), "rules.yaml"), {**catalogue(), NVLINK.id: NVLINK}, CAUSES)


def trigger(text: str) -> object:
    return read(f"rule_id: made\ndescription: d\nseverity: P1\ntrigger:\n{textwrap.indent(text, '  ')}")[0].trigger


def test_the_form_of_an_operator() -> None:
    (rule,) = read(
        """\
        rule_id: nvlink_physical_error
        description: NVLink error rate too high, and not because of heat
        severity: critical
        confidence: 0.9
        trigger:
          - {metric: nvlink_error_rate, operator: ">", threshold: 0.001, window: 5m}
          - {metric: gpu_temp, operator: "<", threshold: 70, window: 5m}
        action:
          - {type: alert, message: "Node {{node_id}} NVLink error rate {{value}}% at {{timestamp}}, check link"}
          - {type: log, message: "NVLink fault on {{node_id}}"}
          - {type: api_call, url: "https://example.org/drain", method: POST, body: {node: x}}
        """
    )
    assert (rule.id, rule.severity, rule.confidence, rule.scope) == (
        "nvlink_physical_error",
        Severity.P1,
        0.9,
        Scope.GPU,
    )
    assert rule.trigger == Combined(
        "all",
        (
            Held(Compare("nvlink_error_rate", ">", 0.001), 300.0),
            Held(Compare("gpu_temp", "<", 70.0), 300.0),
        ),
    )
    assert rule.summary == "Node {{node_id}} NVLink error rate {{value}}% at {{timestamp}}, check link"
    assert [action.type for action in rule.actions] == ["alert", "log", "api_call"]


@pytest.mark.parametrize(
    ("severity", "cause", "expected"),
    [
        ("critical", "", Severity.P1),
        ("critical", "root_cause: gpu_fallen_off_bus", Severity.P0),
        ("critical", "root_cause: gpu_thermal", Severity.P1),
        ("critical", "root_cause: healthy", Severity.P1),
        ("warning", "root_cause: gpu_fallen_off_bus", Severity.P2),
        ("info", "", Severity.INFO),
        ("P0", "", Severity.P0),
        ("P2", "", Severity.P2),
    ],
)
def test_severities(severity: str, cause: str, expected: Severity) -> None:
    text = f"rule_id: made\ndescription: d\nseverity: {severity}\ntrigger: [{{link: silent}}]\n{cause}\n"
    assert read(text)[0].severity is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "- {metric: gpu_temp, operator: '>', threshold: 80, aggregate: last}",
            Combined("all", (Compare("gpu_temp", ">", 80.0),)),
        ),
        (
            "{metric: gpu_temp, operator: '>', threshold: warn, window: 30s}",
            Held(Compare("gpu_temp", ">", 83.0), 30.0),
        ),
        (
            "{metric: gpu_clocks_event_reasons, operator: has, threshold: 0x60, for: 15s}",
            Held(Compare("gpu_clocks_event_reasons", "has", 96.0), 15.0),
        ),
        (
            "{metric: ib_symbol_error, operator: '>', threshold: 120/h, window: 60s, aggregate: rate}",
            Compare("ib_symbol_error", ">", 120 / 3600, "rate", 60.0),
        ),
        (
            "{metric: ib_link_downed, operator: '>=', threshold: 1, window: 2m, aggregate: delta}",
            Compare("ib_link_downed", ">=", 1.0, "delta", 120.0),
        ),
        (
            "{metric: gpu_count, operator: '<', threshold: {metric: gpu_count_pci}}",
            Compare("gpu_count", "<", "gpu_count_pci"),
        ),
        ("{metric: gpu_count, operator: '<', threshold: expected}", Compare("gpu_count", "<", "expected")),
        ("{metric: nvml_latency, missing: hung}", Absent("nvml_latency", (Reason.HUNG,))),
        ("{metric: gpu_temp, missing: [lost, hung]}", Absent("gpu_temp", (Reason.LOST, Reason.HUNG))),
        (
            "{metric: gpu_sm_clock, peers: {of: model, below: 0.9, by: ratio}}",
            Against("gpu_sm_clock", "model", 0.9, None, "ratio"),
        ),
        (
            "{metric: gpu_temp, peers: {of: node, above: 10, by: difference}, for: 1m}",
            Held(Against("gpu_temp", "node", None, 10.0, "difference"), 60.0),
        ),
        ("{link: [silent, 'host key changed']}", LinkIs((LinkState.SILENT, LinkState.HOST_KEY_CHANGED))),
        ("{xid: 79, window: 10m}", XidSeen((79,), 600.0)),
        ("{xid: any}", XidSeen((), 3600.0)),
        (
            "any: [{xid: [48, 63]}, {not: {link: live}}]\nfor: 10s",
            Held(
                Combined("any", (XidSeen((48, 63), 3600.0), Combined("not", (LinkIs((LinkState.LIVE,)),)))),
                10.0,
            ),
        ),
    ],
)
def test_conditions(text: str, expected: object) -> None:
    assert trigger(text) == expected


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (
            "- {metric: gpu_tmp, operator: '>', threshold: 1}",
            "5:14",
            'unknown metric "gpu_tmp"; did you mean "gpu_temp"?',
        ),
        (
            "- {metric: gpu_temp, operater: '>', threshold: 1}",
            "5:24",
            'unknown key "operater"; did you mean "operator"?',
        ),
        ("- {metric: gpu_temp, operator: '=>', threshold: 1}", "5:34", 'unknown operator "=>"'),
        ("- {metric: gpu_temp, operator: '>'}", "5:5", 'the key "threshold" is missing'),
        ("- {metric: gpu_temp, threshold: 1}", "5:5", 'the key "operator" is missing'),
        ("- {metric: gpu_temp, operator: '>', threshold: high}", "5:50", "threshold is a number"),
        ("- {metric: gpu_sm_clock, operator: '<', threshold: warn}", "5:54", "gpu_sm_clock has no warn level"),
        ("- {metric: gpu_temp, operator: has, threshold: 1}", "5:34", '"has" is for bit masks'),
        ("- {metric: gpu_temp, operator: '>', threshold: 1, window: 10s}", "5:61", "fewer than three samples"),
        ("- {metric: nvlink_error_rate, operator: '>', threshold: 1, window: 60s}", "5:70", "at least 90 s"),
        ("- {metric: gpu_temp, operator: '>', threshold: 1, window: 2h}", "5:61", "a window is at most 60 minutes"),
        ("- {metric: gpu_temp, operator: '>', threshold: 1, aggregate: max}", "5:5", 'max needs a "window"'),
        (
            "- {metric: gpu_temp, operator: '>', threshold: 1, window: soon}",
            "5:61",
            "is not a duration such as 30s, 5m or 1h30m",
        ),
        ("- {metric: gpu_temp, operator: '>', threshold: 1, aggregate: slope}", "5:5", 'slope needs a "window"'),
        ("- {metric: gpu_temp, operator: '>', threshold: 1 W, window: 5m}", "5:50", "threshold is a number in C"),
        ("- {metric: gpu_temp, operator: '=>', threshold: 1}", "5:34", 'did you mean ">="?'),
        ("- {AND: [], OR: []}", "5:15", 'unknown key "OR"'),
        ("- {metric: gpu_temp, op: '>', operator: '<', threshold: 1}", "5:33", '"operator" says again what "op" says'),
        ("- {metric: gpu_temp, op: '!', threshold: 1}", "5:28", 'unknown operator "!"'),
        ("- {metric: gpu_temp, baseline: {of: spec, below: 10%}}", "5:39", "no device says what its gpu_temp can be"),
        ("- {metric: gpu_temp, baseline: {grade: lots}}", "5:42", "a deviation is a share such as 20%"),
        ("- {metric: gpu_temp, missing: gone}", "5:33", 'unknown reason "gone"'),
        ("- {metric: gpu_temp, peers: {of: jbo, below: 1}}", "5:36", 'unknown of "jbo"; did you mean "job"?'),
        ("- {metric: gpu_temp, peers: {below: 1, above: 2}}", "5:31", "peers needs one of below, above and distance"),
        ("- {link: asleep}", "5:12", 'unknown link state "asleep"'),
        ("- {xid: many}", "5:11", "xid is a number, a list of numbers, or any"),
        ("- any: {link: silent}", "5:10", '"any" takes a list of conditions'),
        ("- [ ]", "5:5", "an empty list would always be true"),
        ("- eval('1')", "5:5", "a condition is a mapping"),
    ],
)
def test_errors_say_where_and_what(text: str, where: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        trigger(text)
    assert raised.value.where == f"rules.yaml:{where}"
    assert message in raised.value.message


RULE = "rule_id: made\ndescription: d\nseverity: P1\ntrigger: [{link: silent}]\n"


@pytest.mark.parametrize(
    ("more", "where", "message"),
    [
        ("colour: red", "5:1", 'unknown key "colour"'),
        ("root_cause: gpu_termal", "5:13", 'unknown root cause "gpu_termal"; did you mean "gpu_thermal"?'),
        ("evidence: [gpu_tmp]", "5:12", 'unknown metric "gpu_tmp"; did you mean "gpu_temp"?'),
        ("evidence: [gpu_temp]", "5:12", "gpu_temp is not known of a node"),
        ('summary: "{{plcae}}"', "5:10", 'unknown placeholder "plcae"; did you mean "place"?'),
        ("action: [{type: alert}]", "5:10", "alert needs a message"),
        ("action: [{type: mail, message: m}]", "5:17", "mail"),
        ("confidence: 1.5", "5:13", "confidence"),
        ("for: soon", "5:6", "is not a duration such as 30s, 5m or 1h30m"),
    ],
)
def test_errors_of_a_rule(more: str, where: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(RULE + more)
    assert raised.value.where == f"rules.yaml:{where}"
    assert message in raised.value.message


def test_a_rule_id_is_plain() -> None:
    with pytest.raises(DataError, match="a rule id is lower-case letters"):
        read(RULE.replace("rule_id: made", "rule_id: Made it"))


def test_every_broken_rule_of_a_file_is_told() -> None:
    with pytest.raises(DataError) as raised:
        read(
            """\
            rules:
            - {rule_id: one, description: d, severity: P1, trigger: [{link: gone}]}
            - {rule_id: two, description: d, severity: P1, trigger: [{link: silent}]}
            - {rule_id: three, description: d, severity: P1, trigger: [{metric: nothing}]}
            """
        )
    lines = str(raised.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["rules.yaml:2:65", "rules.yaml:4:69"]


def write(directory: Path, name: str, text: str) -> None:
    (directory / "rules").mkdir(parents=True, exist_ok=True)
    (directory / "rules" / name).write_text(textwrap.dedent(text))


def test_the_nearest_definition_of_an_id_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    rule = "rule_id: gpu_lost\ndescription: {}\nseverity: P2\ntrigger: [{{link: silent}}]\n"
    write(tmp_path / "home" / "stethoscope" / "playbooks", "a.yaml", rule.format("of the user"))
    write(tmp_path / "site", "b.yaml", rule.format("of the site"))
    described = {rule.id: rule.description for rule in load_rules(catalogue(), CAUSES, tmp_path / "site")}
    assert described["gpu_lost"] == "of the site"
    assert {rule.id: rule.description for rule in load_rules(catalogue(), CAUSES)}["gpu_lost"] == "of the user"
    assert "driver_hung" in described


def test_an_id_twice_in_one_place_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", RULE)
    write(tmp_path, "b.yaml", RULE)
    with pytest.raises(DataError, match=r'b\.yaml:1:1: the rule "made" is defined twice'):
        load_rules(catalogue(), CAUSES, tmp_path)


def test_explaining_an_unknown_rule_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", RULE + "explains: {same_node: [gpu_lots]}\n")
    with pytest.raises(DataError, match=r'unknown rule "gpu_lots"; did you mean "gpu_lost"\?'):
        load_rules(catalogue(), CAUSES, tmp_path)


def test_the_bundled_rules_load_and_name_known_causes() -> None:
    bundled_rules = {rule.id: rule for rule in load_rules(catalogue(), load_root_causes())}
    severities = {id_: rule.severity.value for id_, rule in bundled_rules.items()}
    assert (
        severities.items()
        >= {
            "driver_hung": "P0",
            "driver_unusable": "P1",
            "gpu_count_low": "P0",
            "gpu_hot": "P2",
            "gpu_lost": "P0",
            "gpu_not_usable": "P0",
            "gpu_power_brake": "P1",
            "gpu_thermal": "P1",
            "gpu_xid": "info",
            "ib_counter_pinned": "info",
            "ib_link_down": "P0",
            "ib_link_flap": "P1",
            "ib_recoveries": "P1",
            "ib_speed_low": "P1",
            "ib_symbol_errors": "P1",
            "io_pressure": "P2",
            "memory_pressure": "P2",
            "node_lost": "P0",
            "node_not_visible": "P1",
            "node_silent": "P2",
            "node_unreachable": "P1",
        }.items()
    )


def test_parts_of_a_summary_without_a_value_are_left_out() -> None:
    values = {"xid": None, "gpu_temp": "88 °C"}
    assert fill("hot · {{xid}} · {{ gpu_temp }}", values.get) == "hot · 88 °C"
    assert fill("{{xid}} seen", values.get) == "? seen"
    assert fill("plain", values.get) == "plain"
