"""Hypotheses: claims put together, and causes told from what follows from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.analysis.triage import severity_of
from stethoscope.analysis.triage_case import ENDED, NONE, SLOWER, STOPPED, Case, Value, cases_of, holds
from stethoscope.analysis.triage_claims import Claim, claims_of, gathered, of_culprit
from stethoscope.analysis.triage_compare import compared
from stethoscope.analysis.triage_places import Places
from stethoscope.analysis.triage_weigh import explain, fit, hypotheses_of, merged, outdate
from stethoscope.analysis.triage_words import calibrated, verdict_of
from stethoscope.model.finding import Fact, Finding, Severity
from stethoscope.model.fleet import FleetSnapshot, Node
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.job import Standing
from stethoscope.model.logs import Culprit, Log, LogVerdict
from stethoscope.model.night import Entry
from stethoscope.model.scheduler import Job
from stethoscope.model.verdict import Heard, Measured, Scene
from stethoscope.specs.playbook import load_playbooks
from stethoscope.specs.playbook_forms import WhenSpec
from tests.builders import fleet

BOOKS = load_playbooks()
JOB = Job("7", nodes=("gpu-001", "gpu-002", "gpu-003"))
SCENE = Scene(0.0, FleetSnapshot("test", 0.0, 0.0, (), {}, {}), jobs=(JOB,))


class Known(Places):
    """Places of a fleet of which only names are known."""

    def unit(self, place: str) -> str:
        """Return the node of a place, or itself."""
        first = place.partition("/")[0]
        return place if first in ("job", "leaf", "rack", "storage") else first

    def jobs_on(self, place: str) -> tuple[Job, ...]:
        """Return the one job."""
        return (JOB,)


PLACES = Known(SCENE)


def claim(cause: str, *places: str, weight: float = 0.9, since: float = 100.0, source: str = "finding") -> Claim:
    """Return a claim of one rule."""
    fact = Fact(cause, 1, "", places[0], "", "rule")
    return Claim(cause, places, weight, source, since, None, (fact,), rule=f"{cause} rule")


@pytest.mark.parametrize(
    ("cause", "later", "expected"),
    [
        # A brake that follows a supply that failed.
        (claim("psu_fault", "gpu-001", since=100.0), claim("gpu_power", "gpu-001/gpu/3", since=110.0), "psu_fault"),
        # A GPU that throttles behind a fan that stands.
        (claim("cooling_fault", "gpu-002"), claim("gpu_thermal", "gpu-002/gpu/1", since=400.0), "cooling_fault"),
        # What neighbours say of a port that went down.
        (claim("ib_link_down", "gpu-001/ib/mlx5_2"), claim("ib_link_fault", "gpu-003", weight=0.65), "ib_link_down"),
        # Waiting senders of a slow adapter.
        (claim("nic_pcie_fault", "gpu-001/ib/mlx5_6"), claim("switch_congestion", "leaf/a-6"), "nic_pcie_fault"),
        # A node that reboots after its disk failed.
        (claim("disk_wear", "gpu-003/disk/nvme1n1"), claim("node_down", "gpu-003", since=500.0), "disk_wear"),
        # A rank that ended because the kernel killed it.
        (claim("host_oom", "gpu-002"), claim("peer_process_died", "job/7/rank/9", weight=0.5), "host_oom"),
        # A GPU that is lost takes its links along.
        (claim("gpu_fallen_off_bus", "gpu-001/gpu/2"), claim("nvlink_fault", "gpu-001/gpu/2"), "gpu_fallen_off_bus"),
    ],
)
def test_a_cause_explains_what_follows(cause: Claim, later: Claim, expected: str) -> None:
    hypotheses = hypotheses_of([cause, later], BOOKS, PLACES)
    explain(hypotheses, PLACES)
    free = [one.cause for one in hypotheses if one.explained_by is None]
    assert free == [expected]


def test_what_came_long_before_is_no_consequence() -> None:
    brake, supply = claim("gpu_power", "gpu-001/gpu/3", since=0.0), claim("psu_fault", "gpu-001", since=3600.0)
    hypotheses = hypotheses_of([brake, supply], BOOKS, PLACES)
    explain(hypotheses, PLACES)
    assert all(one.explained_by is None for one in hypotheses)


def test_another_node_explains_nothing_of_a_node() -> None:
    hypotheses = hypotheses_of([claim("psu_fault", "gpu-001"), claim("gpu_power", "gpu-002/gpu/3")], BOOKS, PLACES)
    explain(hypotheses, PLACES)
    assert all(one.explained_by is None for one in hypotheses)


@pytest.mark.parametrize(
    ("source", "weight", "free"),
    [
        # Symbol errors, or a bad transceiver, there as well: two sick links.
        ("finding", 0.9, ["gpu-001", "gpu-003"]),
        ("measured", 0.8, ["gpu-001", "gpu-003"]),
        # It only waits for acknowledgements, or its log says that the other end does not answer.
        ("finding", 0.3, ["gpu-001"]),
        ("log", 0.8, ["gpu-001"]),
    ],
)
def test_a_fault_explains_what_it_does_elsewhere_and_no_other_of_its_kind(
    source: str, weight: float, free: list[str]
) -> None:
    sick = claim("ib_link_fault", "gpu-001/ib/mlx5_3")
    other = claim("ib_link_fault", "gpu-003/ib/mlx5_5", weight=weight, since=110.0, source=source)
    hypotheses = hypotheses_of([sick, other], BOOKS, PLACES)
    explain(hypotheses, PLACES)
    assert [one.unit for one in hypotheses if one.explained_by is None] == free


def test_the_finest_place_is_the_culprit() -> None:
    (one,) = hypotheses_of(
        [claim("ib_link_fault", "gpu-001/ib/mlx5_3"), claim("ib_link_fault", "gpu-001", source="log")], BOOKS, PLACES
    )
    assert one.places == ("gpu-001/ib/mlx5_3",)
    assert one.weight == pytest.approx(0.97)


def test_all_gpus_of_a_node_are_the_node() -> None:
    places = [f"gpu-001/gpu/{gpu}" for gpu in range(8)]
    (one,) = hypotheses_of([claim("gpu_power", *places)], BOOKS, PLACES)
    assert one.places == ("gpu-001",)


def test_an_array_is_as_slow_as_its_disk() -> None:
    (one,) = hypotheses_of([claim("storage_io", "gpu-001/disk/md0", "gpu-001/disk/nvme1n1")], BOOKS, PLACES)
    assert one.places == ("gpu-001/disk/nvme1n1",)


def test_a_fact_counts_once() -> None:
    (one,) = hypotheses_of([claim("clock_skew", "gpu-001", weight=0.5)] * 3, BOOKS, PLACES)
    assert one.weight == 0.5


def test_a_measurement_speaks_against() -> None:
    seen = claim("node_down", "gpu-001", weight=0.8)
    ping = Claim("", ("gpu-001",), 0.0, "measured", says="it answers ping", against=("node_down",))
    (one,) = hypotheses_of([seen, ping], BOOKS, PLACES)
    assert one.weight == pytest.approx(0.32)
    assert one.against == ["it answers ping"]


def test_conditions_know_three_answers() -> None:
    case = Case("job/7", values={"trouble": NONE, "late_host": ("gpu-001/gpu/0",)})
    assert holds(WhenSpec(fact="late_host"), case) is True
    assert holds(WhenSpec(fact="late_host", under=1), case) is False
    assert holds(WhenSpec(fact="data_share", over=20), case) is None
    assert holds(WhenSpec(any=[WhenSpec(fact="data_share", over=20), WhenSpec(fact="late_host")]), case) is True
    assert holds(WhenSpec(all=[WhenSpec(fact="data_share", over=20), WhenSpec(fact="rank_idle")]), case) is False
    assert holds(WhenSpec(none=WhenSpec(fact="data_share", over=20)), case) is None


def environment(node: str, ranks: int, value: str) -> Measured:
    """Return what the environment of a node's ranks looks like."""
    lines = [f"rank {rank} NCCL_IB_HCA={value}" for rank in range(ranks)]
    return Measured(node, "env_diff", 10.0, "\n".join(lines))


def test_the_node_with_another_setting_is_found() -> None:
    case = Case("job/7", JOB, frozenset(JOB.nodes))
    answers = [
        environment("gpu-001", 8, "mlx5"),
        environment("gpu-002", 8, "mlx5_0"),
        environment("gpu-003", 8, "mlx5"),
    ]
    (found,) = compared(answers, [case])
    assert (found.cause, found.places) == ("config_env_error", ("gpu-002",))
    assert list(compared([environment(node, 8, "mlx5") for node in JOB.nodes], [case])) == []


def test_the_port_without_an_address_is_found() -> None:
    row = "{} 1 {} 0000:0000:0000:0000:0000:ffff:0a64:0001 10.100.0.1 v2 eth{}"
    text = "\n".join([row.format("mlx5_0", 3, 0), "mlx5_1 1 0 fe80:0000:0000:0000:a288:c2ff:0001:0001 v1 eth1"])
    (found,) = compared([Measured("gpu-001", "show_gids", 10.0, text)], [])
    assert (found.cause, found.places) == ("gid_or_pkey_misconfig", ("gpu-001/ib/mlx5_1",))


@pytest.mark.parametrize(("trouble", "expected"), [(STOPPED, "node_down"), (NONE, "telemetry_lost")])
def test_what_the_job_does_tells_a_dead_node_from_a_silent_one(trouble: str, expected: str) -> None:
    case = Case("job/7", JOB, frozenset(JOB.nodes), since=120.0, values={"trouble": trouble})
    silent = claim("telemetry_lost", "gpu-003", weight=0.8, since=100.0)
    hypotheses = hypotheses_of([silent, claim("node_down", "gpu-003", weight=0.85, since=150.0)], BOOKS, PLACES)
    fit(hypotheses, [case], PLACES)
    explain(hypotheses, PLACES)
    assert [one.cause for one in hypotheses if one.explained_by is None] == [expected]


def clocks(cur_khz: int, resting_khz: int = 800_000) -> Measured:
    """Return what a node says of the clocks of its cores."""
    cores = (("cur", 134, cur_khz), ("cur", 58, resting_khz), ("max", 192, 3_700_000))
    return Measured("gpu-002", "top", 10.0, "".join(f"scaling_{which}_freq {n:7d} {khz}\n" for which, n, khz in cores))


def test_processors_that_are_held_back_are_found() -> None:
    case = Case("job/7", JOB, frozenset(JOB.nodes), values={"trouble": SLOWER})
    (found,) = compared([clocks(1_200_000)], [case])
    assert (found.cause, found.places) == ("cpu_config", ("gpu-002",))
    assert found.says == "the fastest of its processors runs at 1200 MHz, of 3700"
    assert list(compared([clocks(3_400_000)], [case])) == []
    # Where nothing is slow the cores may rest.
    assert list(compared([clocks(1_200_000)], [])) == []


class OfTwoNodes(Known):
    """Places of two nodes of eight GPUs, the ranks of job 7 in their order."""

    def node(self, name: str) -> Node | None:
        """Return a node that there is."""
        return Node(name, 0, Link(LinkState.LIVE, 0.0)) if name in ("gpu-001", "gpu-002") else None

    def by_rank(self, job: str, rank: int) -> str:
        """Return the GPU of a rank."""
        return f"gpu-00{1 + rank // 8}/gpu/{rank % 8}"


@pytest.mark.parametrize(
    ("rank", "host", "expected"),
    [(11, "gpu-002", ("job/7/rank/11",)), (11, None, ("job/7/rank/11",)), (3, "gpu-002", ())],
)
def test_a_rank_is_one_of_its_node(rank: int, host: str | None, expected: tuple[str, ...]) -> None:
    found = of_culprit(Culprit(rank, host), "peer_process_died", "7", BOOKS, OfTwoNodes(SCENE))
    assert found == expected


class OfSixteenRanks(OfTwoNodes):
    """The same with the ranks of job 7."""

    def ranks(self, job: Job) -> tuple[str, ...]:
        """Return the GPU of each."""
        return tuple(self.by_rank(job.id, rank) for rank in range(16))


@pytest.mark.parametrize(
    ("values", "place"),
    [
        # A launcher counts the ranks of its own node: it was the one that was seen to end first.
        ({"rank_gone": ("gpu-002/gpu/3",)}, "job/7/rank/11"),
        ({"rank_gone": ("gpu-001/gpu/3",)}, "job/7/rank/3"),
        # Nobody was first: it is the job, whichever launcher wrote the first line.
        ({"gone_together": True, "stood": 0.0}, "job/7"),
        # All went with the watchdog, which says nothing of who was first.
        ({"gone_together": True, "stood": 600.0}, "job/7/rank/3"),
    ],
)
def test_who_was_killed_from_outside_is_a_rank_that_ended_and_its_reason_the_kernels(
    values: dict[str, Value], place: str
) -> None:
    """The log alone takes it for memory that ran out; of that the kernel tells, and it is read as well."""
    said = LogVerdict("host_oom", 0.5, Severity.P1, "killed", "elastic.failed", (Culprit(rank=3),))
    scene = replace(SCENE, logs=(Heard(Log([], []), said, (), "7"),))
    case = Case("job/7", JOB, frozenset(JOB.nodes), values={"trouble": ENDED, **values})
    found = [one for one in claims_of(scene, BOOKS, OfSixteenRanks(SCENE), [case]) if one.source == "log"]
    assert [(one.cause, one.places) for one in found] == [("peer_process_died", (place,))]


class OfOneRack(Known):
    """Places of nodes that stand in one rack."""

    def rack(self, place: str) -> str:
        """Return the rack."""
        return "rack-01"


class OfTwoRacks(Known):
    """The nodes of the job stand in one rack, others in another."""

    def rack(self, place: str) -> str:
        """Return the rack."""
        return "rack-01" if place in JOB.nodes else "rack-02"


@pytest.mark.parametrize(("weight", "expected"), [(0.9, [("cooling_fault", ("rack/rack-01",))]), (0.35, [])])
def test_hints_do_not_add_up_to_a_rack(weight: float, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    claims = [claim("cooling_fault", node, weight=weight) for node in JOB.nodes]
    found = gathered(claims, BOOKS, OfOneRack(SCENE))
    assert [(one.cause, one.places) for one in found] == expected


def test_a_save_that_held_the_job_up_and_is_over_is_no_small_thing() -> None:
    (one,) = hypotheses_of([claim("ckpt_io", "job/7", weight=0.6)], BOOKS, PLACES)
    fit([one], [Case("job/7", JOB, frozenset(JOB.nodes), values={"phase": ""})], PLACES)
    assert severity_of(one, BOOKS) is Severity.P1


@pytest.mark.parametrize(
    ("ranks", "places"),
    [((3, 17), ("job/7/rank/3", "job/7/rank/17")), ((5, 21, 37, 53), ("job/7",))],
)
def test_many_ranks_that_a_tool_names_are_the_jobs_code(ranks: tuple[int, ...], places: tuple[str, ...]) -> None:
    """One or two left the common order; four on four nodes were started with a program that does."""
    text = "".join(f"  Rank {rank} -- GPU {rank % 8} managed by process 1 on node n\n" for rank in ranks)
    scene = replace(SCENE, measured=(Measured("job/7", "nccl_ras", 10.0, text),))
    (found,) = claims_of(scene, BOOKS, PLACES, [])
    assert (found.cause, found.places) == ("collective_mismatch_desync", places)


@pytest.mark.parametrize(
    ("now", "before", "lost"),
    [
        # Steps of 1.0 s with 50 ms of waiting became 1.2 s with 250: all that is lost waits.
        ((1.2, 0.25 / 1.2), (1.0, 0.05), 100.0),
        # Collectives became longer; as much as ever waits.
        ((1.2, 0.05 / 1.2), (1.0, 0.05), 0.0),
        ((1.2, 0.25 / 1.2), None, None),
    ],
)
def test_what_of_the_lost_time_waits_for_data(
    now: tuple[float, float], before: tuple[float, float] | None, lost: float | None
) -> None:
    usual = {} if before is None else dict(zip(("job_step_time", "job_data_share"), before, strict=True))
    standing = Standing(values=dict(zip(("job_step_time", "job_data_share"), now, strict=True)), usual=usual)
    scene = replace(SCENE, snapshot=replace(SCENE.snapshot, standings={"7": standing}))
    (case,) = cases_of(scene, PLACES)
    assert case.values.get("data_of_loss") == (None if lost is None else pytest.approx(lost, abs=0.1))
    assert case.values["data_share"] == pytest.approx(100 * now[1], abs=0.1)


TABLE = ((0.3, 0.25), (0.6, 0.7), (0.9, 0.95))


@pytest.mark.parametrize(
    ("evidence", "right"), [(0.1, 0.25), (0.3, 0.25), (0.45, 0.475), (0.6, 0.7), (0.75, 0.825), (0.97, 0.95)]
)
def test_confidence_is_how_often_as_much_evidence_was_right(evidence: float, right: float) -> None:
    assert calibrated(evidence, TABLE) == pytest.approx(right)
    assert calibrated(evidence, ()) == evidence


def test_the_table_of_confidence_that_ships_rises() -> None:
    steps = [calibrated(number / 100, BOOKS.confidence) for number in range(101)]
    assert steps == sorted(steps)
    assert steps[-1] > 0.95
    assert steps[30] < 0.5


@pytest.mark.parametrize(
    ("again", "trouble", "fits"),
    [
        # A link that flapped some minutes before a GPU was lost: the GPU ended the job.
        (200.0, ENDED, {"ib_link_fault": 0.8, "gpu_fallen_off_bus": 1.0}),
        # It flapped when the job ended, too: nothing tells them apart by time.
        (990.0, ENDED, {"ib_link_fault": 1.0, "gpu_fallen_off_bus": 1.0}),
        # A job that is slower may be so from both.
        (200.0, SLOWER, {"ib_link_fault": 1.0, "gpu_fallen_off_bus": 1.0}),
    ],
)
def test_what_came_when_the_job_stopped_goes_before_what_had_long_been_there(
    again: float, trouble: str, fits: dict[str, float]
) -> None:
    claims = [
        claim("ib_link_fault", "gpu-002/ib/mlx5_1", since=100.0),
        claim("ib_link_fault", "gpu-002/ib/mlx5_1", since=again),
        claim("gpu_fallen_off_bus", "gpu-003/gpu/5", since=985.0),
    ]
    hypotheses = hypotheses_of(claims, BOOKS, PLACES)
    case = Case("job/7", JOB, frozenset(JOB.nodes), values={"trouble": trouble}, since=1000.0)
    for one in hypotheses:
        one.case = case
    outdate(hypotheses)
    assert {one.cause: one.fit for one in hypotheses} == fits


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # The rank that ended first is elsewhere: the link that flaps did not end it.
        ({"rank_gone": ("gpu-003/gpu/5",)}, 0.55),
        ({"rank_gone": ("gpu-002/gpu/5",)}, 1.0),
        # Ranks beside a node that cannot be read, or a whole node of them, may be the neighbours.
        ({"rank_gone": ("gpu-003/gpu/5",), "rank_blind": ("gpu-001/gpu/0",)}, 1.0),
        ({"rank_gone": tuple(f"gpu-003/gpu/{number}" for number in range(8))}, 1.0),
    ],
)
def test_what_ended_a_job_is_where_a_rank_ended_first(values: dict[str, Value], expected: float) -> None:
    hypotheses = hypotheses_of([claim("ib_link_fault", "gpu-002/ib/mlx5_1", since=990.0)], BOOKS, PLACES)
    case = Case("job/7", JOB, frozenset(JOB.nodes), values={"trouble": ENDED, **values}, since=1000.0)
    fit(hypotheses, [case], PLACES)
    assert [one.fit for one in hypotheses] == [expected]


def test_one_error_that_the_hardware_repaired_is_nothing() -> None:
    said = LogVerdict("pcie_fault", 0.7, Severity.P2, "repaired", "aer.corrected.summary", (Culprit(None, "gpu-001"),))
    scene = replace(SCENE, logs=(Heard(Log([], []), said),))
    assert claims_of(scene, BOOKS, OfTwoNodes(SCENE), []) == []
    worse = replace(said, signature="aer.uncorrected.summary")
    found = claims_of(replace(scene, logs=(Heard(Log([], []), worse),)), BOOKS, OfTwoNodes(SCENE), [])
    assert [one.cause for one in found] == ["pcie_fault"]


@pytest.mark.parametrize(
    ("severity", "expected"),
    [(Severity.P1, (("rack/rack-01",), 0.92)), (Severity.P2, (("gpu-001", "gpu-002", "gpu-003"), 0.35))],
)
def test_a_rack_that_gets_warmer_counts_where_it_does_harm(
    severity: Severity, expected: tuple[tuple[str, ...], float]
) -> None:
    """GPUs that get warmer alike are a warm room; those that throttle from it are a fault of the cooling."""
    where = tuple(f"{node}/gpu/0" for node in JOB.nodes)
    found = Finding(
        "gpu_temp_creeps@rack-01", "gpu_temp_creeps", severity, where, "gpu-[001-003]", "", "get warmer",
        root_cause="cooling_fault", cause="rack/rack-01",
    )  # fmt: skip
    entry = Entry(found, 200.0, ((100.0, None),), worst=severity)
    (one, *_) = claims_of(replace(SCENE, entries=(entry,)), BOOKS, OfOneRack(SCENE), [])
    assert (one.places, one.weight) == expected


def test_a_state_that_a_finding_quotes_is_no_reason_where_it_is_as_ever() -> None:
    port = "gpu-001/ib/mlx5_3"
    errors = Fact("ib_symbol_error rate 60 s", 40, "at most 120/h", port, "", "probe")
    states = [Fact("ib_port_state", word, "", port, "", "probe") for word in ("Active", "Init")]
    down = Fact("ib_port_phys_state", "LinkUp", "above Polling", port, "", "probe")
    found = Finding(
        "ib_symbol_errors@gpu-001", "ib_symbol_errors", Severity.P1, (port,), "gpu-001", "", "symbol errors +40/s",
        root_cause="ib_link_fault", evidence=(errors, states[0], down, states[1]),
    )  # fmt: skip
    scene = Scene(0.0, fleet(), (Entry(found, 200.0, ((100.0, None),), worst=Severity.P1),))
    (one,) = claims_of(scene, BOOKS, Places(scene), [])
    assert one.facts == (errors, down, states[1])


@pytest.mark.parametrize(("elsewhere", "fits"), [(0, 1.0), (3, 0.3)])
def test_a_job_feels_a_hot_rack_in_which_most_of_it_stands(elsewhere: int, fits: float) -> None:
    nodes = frozenset((*JOB.nodes, *(f"other-{number}" for number in range(elsewhere))))
    case = Case("job/7", JOB, nodes, values={"trouble": SLOWER, "late_nobody": True, "lost": 6.0}, since=200.0)
    hypotheses = hypotheses_of([claim("cooling_fault", "rack/rack-01")], BOOKS, PLACES)
    fit(hypotheses, [case], OfTwoRacks(SCENE))
    assert [one.fit for one in hypotheses] == [fits]


@pytest.mark.parametrize(
    ("value", "expected", "counts"),
    [
        (40, "at most 120/h", True),
        (0, "none", False),
        (3.6, "none", True),
        (400, "peers 400 Gb/s", False),
        (200, "peers 400 Gb/s", True),
        (40, "peers 400 Gb/s", True),
        ("Down", "peers Active", True),
        (None, "none", True),
    ],
)
def test_only_what_is_not_as_expected_is_a_reason(value: float | str | None, expected: str, counts: bool) -> None:
    fact = Fact("it", value, expected, "gpu-001", "", "probe")
    one = replace(claim("ib_link_fault", "gpu-001/ib/mlx5_3"), facts=(fact,))
    verdict = verdict_of(hypotheses_of([one], BOOKS, PLACES), Severity.P1, BOOKS, PLACES, [])
    assert verdict.supports == ((fact,) if counts else ())


class OneSilent(Known):
    """Nodes of which the third has fallen silent."""

    def node(self, name: str) -> Node | None:
        """Return a node."""
        return Node(name, 0, Link(LinkState.CLOSED if name == "gpu-003" else LinkState.LIVE, 0.0))


@pytest.mark.parametrize(
    ("nodes", "units"),
    [
        (("gpu-001", "gpu-002"), ["job/7"]),
        (("gpu-001", "gpu-003"), ["gpu-001", "gpu-003"]),
        (("gpu-001",), ["gpu-001"]),
    ],
)
def test_a_setting_of_all_nodes_that_answer_is_the_jobs(nodes: tuple[str, ...], units: list[str]) -> None:
    hypotheses = hypotheses_of([claim("config_env_error", *nodes, source="measured")], BOOKS, PLACES)
    case = Case("job/7", JOB, frozenset(JOB.nodes), values={"trouble": SLOWER})
    assert [one.unit for one in merged(hypotheses, [case], OneSilent(SCENE))] == units
