"""Conditions on words, on what a device is, on the kernel log, on totals, and on a share of another metric."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.analysis.kernel_kinds import kinds_of
from stethoscope.analysis.rules import Engine
from stethoscope.errors import DataError
from stethoscope.model import wire
from stethoscope.model.facts import Devices
from stethoscope.model.metric import Scope
from stethoscope.specs.load import loads
from stethoscope.specs.rule import read_rules
from tests.analysis.test_parts import CATALOGUE, WALL, Fleet

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding

DOWN = "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff"
SXID = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"


def judge(trigger: str, summary: str = "it happens", scope: str = "") -> Engine:
    text = f"rule_id: made\ndescription: made\nseverity: P1\nsummary: '{summary}'\ntrigger: {trigger}\n{scope}"
    return Engine(read_rules(loads(textwrap.dedent(text), "rules.yaml"), CATALOGUE, {}), CATALOGUE)


def active(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.id.removeprefix("made@") for finding in findings if finding.state == "active"]


def fleet(count: int, **more: Any) -> Fleet:
    made = Fleet(*(f"n{number}" for number in range(1, count + 1)))
    for number in range(1, count + 1):
        made.start(f"n{number}", **more)
    return made


def say(made: Fleet, node: str, text: str, ago_s: float = 0.0) -> None:
    now = WALL + made.mono + 1.0
    made.say(wire.Event, node, source="kernel", text=text, at=now - ago_s)


def test_a_word_that_differs_from_nearly_all() -> None:
    made = fleet(6)
    for number in range(1, 7):
        made.part("identity", f"n{number}", dt=0.0, words={"driver_version": "550.1" if number != 4 else "535.9"})
    engine = judge("[{word: driver_version, differs: fleet}]", summary="driver {{word}} (others {{peers}})")
    (finding,) = engine.evaluate(made.look())
    assert (finding.id, finding.summary) == ("made@n4", "driver 535.9 (others 550.1)")
    (fact,) = finding.evidence
    assert (fact.fact, fact.value, fact.expected, fact.where) == ("driver_version", "535.9", "others 550.1", "n4")


def test_two_populations_or_a_few_nodes_have_no_odd_one() -> None:
    for words in (
        ["a", "a", "b"],
        ["a", "a", "a", "b", "b"],
        ["a", "a", "a", "b", "b", "b"],
        ["a", "b", "c", "d", "e"],
        ["a"] * 6,
    ):
        made = fleet(len(words))
        for number, word in enumerate(words, start=1):
            made.part("identity", f"n{number}", dt=0.0, words={"driver_version": word})
        assert active(judge("[{word: driver_version, differs: fleet}]").evaluate(made.look())) == []


def test_one_of_four_is_the_odd_one() -> None:
    """Of five or six nodes that is no less clear; two of five may be half of an upgrade."""
    for words in (["a", "a", "a", "b"], ["a", "a", "a", "a", "b"], ["a", "a", "a", "a", "a", "b"]):
        made = fleet(len(words))
        for number, word in enumerate(words, start=1):
            made.part("identity", f"n{number}", dt=0.0, words={"driver_version": word})
        found = active(judge("[{word: driver_version, differs: fleet}]").evaluate(made.look()))
        assert found == [f"n{len(words)}"]


def test_a_word_is_one_of_a_list_and_unknown_where_nothing_is_said() -> None:
    made = fleet(3)
    made.part("tuning", "n1", dt=0.0, words={"cpu_governor": "powersave"})
    made.part("tuning", "n2", dt=0.0, words={"cpu_governor": "performance"})
    assert active(judge("[{word: cpu_governor, is: [powersave]}]").evaluate(made.look())) == ["n1"]
    assert active(judge("[{not: {word: cpu_governor, is: powersave}}]").evaluate(made.look())) == ["n2"]


def test_what_a_device_is_restricts_a_rule() -> None:
    made = fleet(1)
    about = {"0000:18:00.0": {"driver": "mlx5_core"}, "0000:1b:00.0": {"driver": "nvidia"}}
    devices = Devices(tuple(about), {"pcie_link_width": [8, 8]}, about)
    made.part("pcie", devices={Scope.PCIE: devices})
    narrow = "{metric: pcie_link_width, operator: '<', threshold: 16, aggregate: last}"
    engine = judge(f"[{{about: driver, of: pcie_dev, is: [mlx5_core]}}, {narrow}]")
    assert active(engine.evaluate(made.look())) == ["n1/pcie/0000:18:00.0"]
    assert active(engine.evaluate(made.look())) == ["n1/pcie/0000:18:00.0"]


def test_a_kind_of_kernel_line_is_found_by_its_signature_for_as_long_as_the_window() -> None:
    assert "nvme.down" in kinds_of(DOWN)
    made = fleet(2)
    say(made, "n2", "an unremarkable line")
    say(made, "n2", DOWN)
    engine = judge("[{kernel_log: [nvme.timeout, nvme.down], window: 10m}]", summary="disk gone · {{log}}")
    (finding,) = engine.evaluate(made.look())
    assert (finding.where, finding.summary) == (("n2",), f"disk gone · {DOWN}")
    (fact,) = finding.evidence
    assert (fact.fact, fact.value, fact.source) == ("kernel_log", DOWN, "kernel log")
    made.mono += 700.0
    made.full("n1")
    made.full("n2")
    assert active(judge("[{kernel_log: nvme.down, window: 10m}]").evaluate(made.look())) == []
    assert active(judge("[{kernel_log: nvme.down, window: 1h}]").evaluate(made.look())) == ["n2"]


def test_a_log_that_cannot_be_read_is_not_a_quiet_one() -> None:
    made = fleet(1, notes={"kernel_log": "permission"})
    assert active(judge("[{not: {kernel_log: nvme.down}}]").evaluate(made.look())) == []
    made = fleet(1)
    assert active(judge("[{not: {kernel_log: nvme.down}}]").evaluate(made.look())) == ["n1"]


def test_switches_are_asked_for_by_code_or_by_how_bad_it_is() -> None:
    made = fleet(1)
    say(made, "n1", SXID)
    for kind, found in (("sxid.20034", True), ("sxid.P0", True), ("sxid.P2", False), ("sxid.12028", False)):
        assert active(judge(f"[{{kernel_log: {kind}}}]").evaluate(made.look())) == ["n1"] * found


def test_a_share_of_another_metric() -> None:
    made = fleet(2)
    for node, swap in (("n1", 40), ("n2", 60)):
        made.full(node, node={"load1": 100})
        made.part("host", node, dt=0.0, node={"swap_used": swap})
    engine = judge("[{metric: swap_used, operator: '>', threshold: {metric: load1, times: 0.5}, aggregate: last}]")
    (finding,) = engine.evaluate(made.look())
    assert (finding.where, finding.evidence[0].value, finding.evidence[0].expected) == (("n2",), 60, "at most 50")


def test_a_total_is_what_the_counter_stands_at_though_nothing_moves() -> None:
    made = fleet(1)
    made.part("smart", devices={Scope.DISK: Devices(("sda", "sdb"), {"nvme_media_errors": [5, 4]})})
    engine = judge(
        "[{metric: nvme_media_errors, operator: '>', threshold: 4, aggregate: total}]", summary="{{nvme_media_errors}}"
    )
    (finding,) = engine.evaluate(made.look())
    assert (finding.id, finding.summary, finding.evidence[0].fact) == (
        "made@n1/disk/sda", "5", "nvme_media_errors total",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("[{word: driver_version}]", 'a word needs one of "is" and "differs"'),
        ("[{word: driver_version, differs: rack}]", 'unknown differs "rack"'),
        ("[{word: driver_version, is: 5}]", "is takes a word or a list of words"),
        ("[{about: driver, of: gpu, is: nvidia}]", 'unknown of "gpu"'),
        ("[{about: driver, of: disk}]", 'the key "is" is missing'),
        ("[{kernel_log: nvme.dwn}]", 'unknown signature "nvme.dwn"; did you mean'),
        ("[{kernel_log: []}]", "kernel_log takes the id of a signature"),
        ("[{metric: load1, operator: '>', threshold: 4, aggregate: total}]", "load1 is no counter"),
        ("[{metric: oom_kills, operator: '>', threshold: 4, aggregate: total, window: 5m}]", "it takes no window"),
        ("[{metric: load1, operator: '>', threshold: {metric: swap_used, times: many}}]", "times is a number"),
    ],
)
def test_mistakes_are_named(trigger: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        judge(trigger)
    assert message in str(error.value)


def test_what_a_device_does_not_have_leaves_nothing_open_where_another_part_is_false() -> None:
    trigger = "[{any: [{metric: swap_used, operator: '>', threshold: 10, aggregate: last}, %s]}]"
    other = "{metric: clock_offset, operator: '>', threshold: 10, aggregate: last}"
    for second, ends in (("unsupported", True), ("error", False)):
        made, engine = fleet(1), judge(trigger % other)
        for at, swap in ((0.0, 50), (30.0, 5), (30.0, 5), (30.0, 5)):
            made.part("clock", dt=0.0, node={"clock_offset": second})
            made.part("host", dt=at, node={"swap_used": swap})
            found = active(engine.evaluate(made.look()))
        assert found == ([] if ends else ["n1"])
