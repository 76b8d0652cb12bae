"""What is written loads again and describes the same nodes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.specs.fleet import Fleet, fleet_of
from stethoscope.specs.fleet_write import Draft, Plan, fleet_text
from stethoscope.specs.load import loads

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,3}-?[0-9]{1,3}", fullmatch=True)
TEXTS = st.text(
    st.characters(codec="ascii", exclude_characters="{}", exclude_categories=["Cc"]), min_size=1, max_size=12
)
WORDS = TEXTS.filter(lambda text: bool(text.strip()))
DEVICES = st.dictionaries(
    st.from_regex(r"mlx5_[0-9]{1,2}(?::2)?", fullmatch=True), st.tuples(st.integers(0, 9).map(str), WORDS), max_size=5
)
DRAFTS = st.lists(
    st.builds(
        Draft,
        NAMES,
        address=st.none() | st.just("10.0.0.1"),
        gpus=st.none() | st.integers(0, 16),
        rack=st.just("") | WORDS,
        pod=st.just("") | WORDS,
        ports=DEVICES,
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda draft: draft.name,
)


def read(plan: Plan) -> Fleet:
    return fleet_of(loads(fleet_text(plan), "written"))


@settings(deadline=None)
@given(DRAFTS, WORDS)
def test_a_file_comes_back_as_it_was_meant(drafts: list[Draft], name: str) -> None:
    fleet = read(Plan(name, drafts, groups={"yes": [drafts[0].name]}, slurm={"via": "login"}, origin="x\ny"))
    nodes = {node.name: node for node in fleet.nodes}
    assert set(nodes) == {draft.name for draft in drafts}
    usual = {draft.gpus for draft in drafts if draft.gpus is not None}
    for draft in drafts:
        node = nodes[draft.name]
        assert (node.rack, node.pod, node.address) == (draft.rack, draft.pod, draft.address)
        assert node.expected_gpus == draft.gpus if draft.gpus is not None else node.expected_gpus in {None, *usual}
        ports = {
            port.device if port.port == 1 else f"{port.device}:{port.port}": (port.rail, port.leaf)
            for port in node.ports
        }
        assert ports == draft.ports
    assert fleet.name == name


def test_rails_that_follow_from_their_number_are_one_line() -> None:
    ports = {f"mlx5_{n}": (str(n), f"leaf-07-{n}") for n in range(8)}
    text = fleet_text(Plan("lab", [Draft(f"gpu{n}", gpus=8, rack="r1", ports=ports) for n in range(4)]))
    assert '      "mlx5_[0-7]": {rail: "{n}", leaf: "leaf-07-{n}"}' in text.splitlines()
    assert "defaults: {gpus: 8}" in text.splitlines()
    assert '    nodes: "gpu[0-3]"' in text.splitlines()


def test_nodes_that_differ_from_the_rest_have_a_group_of_their_own() -> None:
    text = fleet_text(Plan("lab", [Draft("a1", gpus=8), Draft("a2", gpus=8), Draft("login1", gpus=0)]))
    assert [node.expected_gpus for node in read(Plan("lab", [Draft("a1", gpus=8), Draft("b1", gpus=0)])).nodes] == [
        8,
        0,
    ]
    assert "    gpus: 0" in text.splitlines()
