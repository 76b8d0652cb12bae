"""Rule files in the forms that operators write: whatever it is, a rule or an error, and never another exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.model.metric import Scope
from stethoscope.paths import bundled
from stethoscope.specs.condition import Combined, Compare, Held, XidSeen, scopes_of
from stethoscope.specs.condition_baseline import Deviates
from stethoscope.specs.condition_names import Unmeasured
from stethoscope.specs.load import load, loads
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.metric_names import FILE, read_names
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule import read_file, read_rules

if TYPE_CHECKING:
    from stethoscope.specs.rule import Rule

CAUSES = read_root_causes(bundled("playbooks") / "root_causes.yaml")
CATALOGUE = load_catalogue()
HEAD = "rule_id: made\ndescription: d\nseverity: P1\n"


def read(text: str) -> tuple[Rule, ...]:
    return read_rules(loads(text, "rules.yaml", many=True), CATALOGUE, CAUSES)


def trigger(text: str) -> object:
    return read(f"{HEAD}trigger: {text}")[0].trigger


HOT = Held(Compare("gpu_temp", ">", 90.0), 300.0)


@pytest.mark.parametrize(
    "text",
    [
        '{metric: gpu_temp, operator: ">", threshold: 90, window: 5m}',
        '{metric: gpu_temp, operator: ">", threshold: 90, window: 300}',
        '{metric: gpu_temp, operator: ">", threshold: 90, window: "5 min"}',
        '{metric: gpu_temp, operator: ">", threshold: "90", for: 5 minutes}',
        "{metric: gpu_temp, operator: gt, threshold: 90 C, window: 5m}",
        "{metric: gpu_temp, op: greater than, value: 90°C, window: 5m}",
        "{Metric: GPU_TEMP, Operator: GT, Threshold: 90, Window: 5m}",
        "{metric: DCGM_FI_DEV_GPU_TEMP, operator: above, threshold: 90, window: 5m}",
        "{metric: temperature.gpu, operator: above, threshold: 90, window: 5m}",
        "gpu_temp > 90 for 5m",
        "gpu-temperature > 90 over 5 min",
        "{AND: [gpu_temp > 90 for 5m]}",
        "{logic: OR, conditions: [gpu_temp > 90 for 5m]}",
        "{operator: and, conditions: [gpu_temp > 90 for 5m]}",
    ],
)
def test_one_condition_in_many_words(text: str) -> None:
    found = trigger(text)
    assert found in (HOT, Combined("all", (HOT,)), Combined("any", (HOT,)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "{metric: gpu_temp, operator: '>', threshold: 2 C/m, window: 5m, aggregate: deriv}",
            Compare("gpu_temp", ">", 2 / 60, "slope", 300.0),
        ),
        (
            "{metric: gpu_power_draw, operator: '>', threshold: 0.1 kW, window: 5m, aggregate: stddev_over_time}",
            Compare("gpu_power_draw", ">", 100.0, "stddev", 300.0),
        ),
        ("{metric: gpu_sm_clock, baseline: 20%}", Deviates("gpu_sm_clock", "expected", 0.2, None)),
        ("{metric: gpu_temp, baseline: {grade: warning}}", Deviates("gpu_temp", "expected", None, 0.1)),
        (
            "{metric: gpu_pcie_link_width, baseline: {of: spec, below: 10%}}",
            Deviates("gpu_pcie_link_width", "spec", 0.1, None),
        ),
        (
            "{metric: DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, operator: '>', threshold: 0}",
            Combined(
                "any",
                (
                    Compare("gpu_ecc_uncorr_volatile_dram", ">", 0.0, "total"),
                    Compare("gpu_ecc_uncorr_volatile_sram", ">", 0.0, "total"),
                ),
            ),
        ),
        (
            "{metric: rdma_qps_dropped, operator: '>', threshold: 60/m, window: 5m, aggregate: rate}",
            Compare("ib_hw_out_of_buffer", ">", 1.0, "rate", 300.0),
        ),
        (
            "{metric: node_infiniband_port_data_received_bytes_total, operator: '<', threshold: 1e9, window: 5m, "
            "aggregate: rate}",
            Compare("ib_port_rcv_data", "<", 8.0, "rate", 300.0),
        ),
        ("DCGM_FI_PROF_SM_ACTIVE < 0.1 for 5m", Unmeasured("DCGM_FI_PROF_SM_ACTIVE", Scope.GPU)),
        ("allreduce_latency_p99 > 500", Compare("job_allreduce_p99", ">", 500.0)),
        ("{metric: pcie_aer_corrected_errors, op: '>', value: 0, window: 5m, aggregate: increase}",
         Compare("pcie_aer_correctable", ">", 0.0, "delta", 300.0)),
    ],
)  # fmt: skip
def test_aggregates_units_and_names(text: str, expected: object) -> None:
    assert trigger(text) == expected


RULE = "rule_id: {0}\ndescription: d\nseverity: P1\ntrigger: gpu_temp > 90\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{RULE.format('one')}---\n{RULE.format('two')}",
        "- {rule_id: one, description: d, severity: P1, trigger: gpu_temp > 90}\n"
        "- {id: two, desc: d, Severity: p1, when: gpu_temp > 90}\n",
        "rules:\n- {rule_id: one, description: d, severity: P1, trigger: gpu_temp > 90}\n"
        "---\nrules:\n- {rule_id: two, description: d, severity: P1, condition: gpu_temp > 90}\n",
        "---\nschema: stethoscope.rules/1\nrules:\n"
        "- {rule_id: one, description: d, severity: Critical, trigger: gpu_temp > 90}\n"
        "- {rule_id: two, description: d, severity: critical, trigger: gpu_temp > 90}\n---\n",
    ],
)
def test_one_file_many_rules(text: str) -> None:
    assert [(rule.id, rule.severity) for rule in read(text)] == [("one", Severity.P1), ("two", Severity.P1)]


def test_a_template_is_one_rule_for_each_metric() -> None:
    rules = read(
        "rule_id: jump\ndescription: '{{metric}} jumps'\nseverity: info\n"
        "each: {metric: [gpu_temp, DCGM_FI_DEV_POWER_USAGE]}\n"
        "trigger: {metric: each, operator: '>', threshold: 1000}\nsummary: '{{metric}} at {{each}}'\nevidence: [each]\n"
        "tests: [{name: t, each: gpu_temp, series: {each: 2000}, expect: info},\n"
        "  {name: u, series: {each: 1}, expect: none}]\n"
    )
    assert [(rule.id, rule.base, rule.evidence, len(rule.tests)) for rule in rules] == [
        ("jump.gpu_temp", "jump", ("gpu_temp",), 2),
        ("jump.gpu_power_draw", "jump", ("gpu_power_draw",), 1),
    ]
    assert rules[1].summary == "GPU power at {{gpu_power_draw}}"
    assert list(rules[1].tests[0].series) == ["gpu_power_draw"]
    every = read(
        "rule_id: any\ndescription: d\nseverity: info\n"
        "each: {metric: {tier: fast, scope: gpu, kind: gauge, except: gpu_temp}}\n"
        "trigger: {metric: each, operator: '>', threshold: 1000}\n"
    )
    assert "any.gpu_util" in {rule.id for rule in every}
    assert "any.gpu_temp" not in {rule.id for rule in every}


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("each: {metric: [gpu_tmp]}", "4:17", 'unknown metric "gpu_tmp"; did you mean "gpu_temp"?'),
        ("each: {metric: {teir: fast}}", "4:17", 'unknown key "teir"; did you mean "tier"?'),
        ("each: {metric: {tier: fats}}", "4:16", "each is for 1 to 200 metrics, and these are 0"),
        ("each: gpu_temp", "4:7", "each is {metric:"),
        ("id: other", "4:1", 'unknown key "id"'),
        ("Trigger: gpu_temp > 90\nwhen: gpu_temp > 90", "5:1", 'unknown key "when"'),
        ("trigger: gpu_temp >> 90", "4:10", "threshold is a number"),
        ("trigger: [gpu_tmp > 90]", "4:11", 'unknown metric "gpu_tmp"'),
        ("trigger: {conditions: [gpu_temp > 90], logic: XOR}", "4:47", '"XOR" joins no conditions: AND or OR'),
        ("trigger: {metric: dcgm_fi_dev_gpu_tmp, op: gt, value: 1}", "4:19", 'did you mean "DCGM_FI_DEV_GPU_TEMP"?'),
    ],
)
def test_errors_say_where(text: str, where: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(HEAD + text + ("" if "rigger" in text else "\ntrigger: {metric: each, operator: '>', threshold: 1}"))
    errors = getattr(raised.value, "errors", (raised.value,))
    assert any(error.where == f"rules.yaml:{where}" and message in error.message for error in errors), errors


def test_all_that_is_wrong_is_told_at_once() -> None:
    text = (
        "rules:\n- {rule_id: B A D, description: d, severity: sever, root_cause: gpu_termal, evidence: [gpu_tmp],\n"
        "   trigger: [gpu_tmp > 1, {metric: gpu_temp, operator: '~', threshold: 1}], summary: '{{plcae}}'}\n"
        "- {rule_id: good, description: d, severity: P1, trigger: gpu_temp > 90}\n"
    )
    rules, errors = read_file(loads(text, "r.yaml", many=True), CATALOGUE, CAUSES)
    assert [rule.id for rule in rules] == ["good"]
    assert len(errors) == 7


WORDS = st.sampled_from(
    ["gpu_temp", "gpu_util", "ib_symbol_error", ">", "gt", "<", "has", "5m", "1s", "5 min", "every", "slope", "each",
     "90", "90 C", "120/h", "warn", "critical", "any", "P1", "gpu", "fast", "{{value}}", "{{", "silent",
     "expected", "20%"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["metric", "operator", "threshold", "window", "aggregate", "for", "peers", "baseline", "missing", "link", "xid",
     "all", "any", "not", "AND", "or", "op", "value", "conditions", "logic", "of", "below", "above", "distance",
     "change", "word", "is", "kernel_log", "each", "times", "grade", "tier", "scope"]
)  # fmt: skip
SCALARS = (
    WORDS | st.integers(-(10**12), 10**12) | st.booleans() | st.none() | st.floats(-1e9, 1e9) | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)
RULE_KEYS = st.sampled_from(
    ["rule_id", "id", "description", "severity", "trigger", "when", "confidence", "for", "summary", "action", "actions",
     "evidence", "more_sure", "explains", "tests", "each", "enabled", "per", "root_cause", "offers"]
)  # fmt: skip


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
@example({"all": []})
@example({"metric": "gpu_temp", "peers": {"of": ["model"]}})
@example({"metric": {"a": []}, "threshold": [1]})
def test_any_condition_is_read_or_refused(data: Any) -> None:
    text = yaml.safe_dump(
        {"rule_id": "made", "description": "d", "severity": "P1", "trigger": data}, sort_keys=False, allow_unicode=True
    )
    rules, errors = read_file(loads(text, "rules.yaml", many=True), CATALOGUE, CAUSES)
    assert all(error.where.startswith("rules.yaml") for error in errors)
    assert len(rules) == (not errors)
    assert all(set(scopes_of(rule.trigger, CATALOGUE)) <= set(Scope) for rule in rules)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(RULE_KEYS, VALUES, max_size=8) | st.lists(st.dictionaries(RULE_KEYS, VALUES), max_size=3) | VALUES
)
def test_any_file_is_read_or_refused(data: Any) -> None:
    try:
        loaded = loads(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), "rules.yaml", many=True)
    except DataError:
        return
    rules, errors = read_file(loaded, CATALOGUE, CAUSES)
    assert rules or errors


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        loaded = loads(text, "rules.yaml", many=True)
    except DataError:
        return
    rules, errors = read_file(loaded, CATALOGUE, CAUSES)
    assert rules or errors


def test_names_of_others_mean_metrics_that_there_are() -> None:
    names = read_names(load(bundled("playbooks") / FILE), CATALOGUE)
    assert len(names) > 200
    assert not set(names) & set(CATALOGUE)


@pytest.mark.parametrize(
    ("asked", "codes"), [("operator: '>', threshold: 0", ()), ("operator: '==', threshold: '79'", (79,))]
)
def test_the_last_xid_of_dcgm_is_asked_of_the_kernel_log(asked: str, codes: tuple[int, ...]) -> None:
    assert trigger(f"{{metric: DCGM_FI_DEV_XID_ERRORS, {asked}}}") == XidSeen(codes, 3600.0)


def test_no_xid_of_dcgm_is_none_in_the_kernel_log() -> None:
    asked = "{metric: DCGM_FI_DEV_XID_ERRORS, operator: '==', threshold: 0}"
    assert trigger(asked) == Combined("not", (XidSeen((), 3600.0),))
