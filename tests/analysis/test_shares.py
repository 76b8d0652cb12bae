"""Shares that are worked out where a rule asks: NVLink errors of what moves, and how full a PCIe link is."""

from __future__ import annotations

import pytest

from stethoscope.paths import bundled
from stethoscope.session.selftest import check_rule
from stethoscope.specs.load import loads
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule import read_rules

CAUSES = read_root_causes(bundled("playbooks") / "root_causes.yaml")
# 600 million KiB in 30 s each way are 41 GB/s, 2.6 billion flits a second; 20,000 errors of them are 0.0008 %.
NVLINK = """\
rule_id: nvlink_physical_error
description: NVLink error rate too high, and not because of heat
severity: critical
confidence: 0.9
trigger:
  - {metric: nvlink_error_rate, operator: ">", threshold: 0.001, window: 5m}
  - {metric: gpu_temp, operator: "<", threshold: 70, window: 5m}
action:
  - {type: alert, message: "Node {{node_id}} NVLink error rate {{value}}% since {{timestamp}}, check link"}
  - {type: log, message: "NVLink fault on {{node_id}}"}
tests:
- name: errors of two links
  every: 30s
  series:
    nvlink_crc_errors: {0/3: [0, "+1000000 x13"], 0/4: [0, "+1000000 x13"], 1/4: "7 x14"}
    nvlink_tx: {0: [0, "+600000000 x13"], 1: [0, "+600000000 x13"]}
    nvlink_rx: {0: [0, "+600000000 x13"], 1: [0, "+600000000 x13"]}
    gpu_temp: "60 x14"
  expect: P1
  where: gpu/0
  summary: Node subject NVLink error rate 0.0026% since 2026-03-14T02:14:37Z, check link
- name: a share that is small
  every: 30s
  series: {nvlink_crc_errors: [0, "+300000 x13"], nvlink_tx: [0, "+600000000 x13"], nvlink_rx: 0, gpu_temp: "60 x14"}
  expect: none
- name: nothing moves
  every: 30s
  series: {nvlink_crc_errors: [0, "+600000 x13"], nvlink_tx: 0, nvlink_rx: 0, gpu_temp: "60 x14"}
  expect: none
- name: too hot
  every: 30s
  series: {nvlink_crc_errors: [0, "+9000000 x13"], nvlink_tx: [0, "+600000000 x13"], nvlink_rx: 0, gpu_temp: "80 x14"}
  expect: none
"""
PCIE = """\
rule_id: link_full
description: the link is full
severity: P2
trigger: {metric: pcie_rx_util, operator: ">=", threshold: 90, window: 30s}
summary: "{{value}} % of the link"
tests:
- name: full
  series: {gpu_pcie_rx: "60000000 x10", gpu_pcie_link_gen: "5 x10", gpu_pcie_link_width: "16 x10"}
  expect: P2
  summary: 95.2 % of the link
- {name: wide, series: {gpu_pcie_rx: "30000000 x10", gpu_pcie_link_gen: 5, gpu_pcie_link_width: 16}, expect: none}
- {name: of no known link, series: {gpu_pcie_rx: "60000000 x10"}, expect: none}
"""


@pytest.mark.parametrize("text", [NVLINK, PCIE])
def test_a_rule_of_an_operator_about_a_share(text: str) -> None:
    catalogue = load_catalogue()
    (rule,) = read_rules(loads(text, "rules.yaml", many=True), catalogue, CAUSES)
    assert [str(error) for error in check_rule(rule, catalogue)] == []
