"""Who differs: versions and settings of comparable nodes, the value that most have, and those that have another.

Nodes are comparable when they have the same GPUs and are the same product. Nothing is taken as right but what most
have; where as many have one value as another, that is said and nobody is called different.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.ids import fold, gpu_place, node_of
from stethoscope.model.metric import REASON_WORDS, Missing, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric


class Item(NamedTuple):
    """Something that is compared."""

    id: str
    """A word (model.fleet.Node.words or gpu_words), or a metric."""
    title: str
    groups: tuple[str, ...] = ()
    """The parts that bring a word; empty for a metric, whose entry in the catalogue tells."""
    of_gpu: bool = False

    @property
    def is_metric(self) -> bool:
        """Tell whether it is a metric and not a word."""
        return not self.groups


ITEMS = (
    Item("driver_version", "driver", ("gpu", "identity")),
    Item("cuda_version", "CUDA of the driver", ("gpu",)),
    Item("gpu_vbios_version", "VBIOS", ("gpu", "identity"), of_gpu=True),
    Item("cuda_toolkit", "CUDA toolkit", ("identity",)),
    Item("nccl_version", "NCCL", ("identity",)),
    Item("ib_fw_version", "adapter firmware", ("identity",)),
    Item("ib_board", "adapter board", ("identity",)),
    Item("mlx5_driver", "adapter driver", ("identity",)),
    Item("mtu", "MTU of adapters", ("tuning",)),
    Item("kernel", "kernel", ("identity",)),
    Item("cmdline", "kernel command line", ("identity",)),
    Item("os", "system", ("identity",)),
    Item("bios", "BIOS", ("identity",)),
    Item("bmc_firmware", "BMC firmware", ("identity",)),
    Item("cpu_governor", "CPU governor", ("tuning",)),
    Item("numa_balancing", "NUMA balancing", ("tuning",)),
    Item("transparent_hugepage", "transparent huge pages", ("tuning",)),
    Item("memlock", "locked memory limit", ("tuning",)),
    Item("clocksource", "clock source", ("tuning",)),
    Item("time_source", "time source", ("clock",)),
    Item("gpu_power_limit", "power limit", of_gpu=True),
    Item("gpu_sm_clock_max", "highest SM clock", of_gpu=True),
    Item("gpu_persistence_mode", "persistence mode", of_gpu=True),
    Item("gpu_ecc_mode", "ECC mode", of_gpu=True),
    Item("gpu_mig_mode", "MIG mode", of_gpu=True),
    Item("peermem_loaded", "peer memory module"),
    Item("fabricmanager_active", "fabric manager"),
    Item("persistenced_active", "persistence daemon"),
)
"""What is compared, the most telling first. The product is no item: nodes of one product are compared."""
NEEDED = ("identity", "tuning")
"""Parts that a node has told when these have come, and with GPUs that of the GPUs."""
SAID: dict[str, dict[str, str]] = {"numa_balancing": {"0": "off", "1": "on"}}
"""How people say settings that are numbers, by the word."""
NOT_VISIBLE = "not visible"
"""The part came, and does not say it."""
_UNNAMED = "GPUs without a name"
"""What a group is called whose nodes have GPUs and no driver that says which."""
_MISSING = {int(reason): Missing(reason) for reason in Reason}
_UNTOLD = Missing(Reason.UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class Held:
    """One value, and who has it: whole nodes, and single GPUs of nodes whose GPUs differ."""

    value: str
    nodes: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    """Places."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return all nodes on which it is found."""
        return tuple(dict.fromkeys((*self.nodes, *map(node_of, self.gpus))))

    @property
    def where(self) -> str:
        """Return the places in short: `gpu-[007,012]`, `gpu-003/gpu/5`, `gpu-[004-005]/gpu/[0-3]`."""
        return ", ".join(([fold(self.nodes)] if self.nodes else []) + _folded(self.gpus))


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nodes that do not tell, or not of all their GPUs, and why."""

    why: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Comparable nodes."""

    gpus: str
    """Name of their GPUs, empty without any."""
    product: str
    nodes: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return what they have in common."""
        return ", ".join(word for word in (self.gpus or "no GPU", self.product) if word)


@dataclass(frozen=True, slots=True)
class Drift:
    """One item among comparable nodes."""

    item: Item
    group: Group
    expected: str | None
    """What most have; None in a tie, or when nobody tells."""
    held: tuple[Held, ...]
    """All values, the most common first."""
    unknown: tuple[Unknown, ...]

    @property
    def differs(self) -> bool:
        """Tell whether there is more than one value."""
        return len(self.held) > 1

    @property
    def is_tie(self) -> bool:
        """Tell whether as many have one value as another."""
        return self.differs and self.expected is None

    @property
    def others(self) -> tuple[Held, ...]:
        """Return what is not as expected; in a tie everything."""
        return tuple(held for held in self.held if held.value != self.expected) if self.differs else ()


@dataclass(frozen=True, slots=True)
class DriftTable:
    """The whole comparison."""

    rows: tuple[Drift, ...]
    """What differs first, then what is alike, then what nobody tells; each in the order of ITEMS."""
    groups: tuple[Group, ...]
    """The largest first."""
    told: tuple[str, ...]
    """Nodes that have told all that is compared, as far as they can see it."""
    untold: tuple[Unknown, ...]

    @property
    def differing(self) -> tuple[Drift, ...]:
        """Return the rows with more than one value."""
        return tuple(row for row in self.rows if row.differs)


def drift(snapshot: FleetSnapshot) -> DriftTable:
    """Compare the nodes of `snapshot` that have sent something."""
    steps = comparison(snapshot)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            table: DriftTable = end.value
            return table


def comparison(snapshot: FleetSnapshot) -> Generator[None, None, DriftTable]:
    """Compare as `drift` does, with a pause behind every item of every group: no step takes long, whatever the number
    of nodes."""
    groups = _groups([node for node in snapshot.nodes if node.frames])
    rows = []
    for item in ITEMS:
        if item.is_metric and item.id not in snapshot.catalogue:
            continue
        for group in groups:
            if group.gpus or not item.of_gpu:
                yield
                rows.append(_compare(snapshot, item, group))
    yield
    rows.sort(key=lambda row: 0 if row.differs else 1 if row.held else 2)
    silent: dict[str, list[str]] = {}
    told = []
    for node in snapshot.nodes:
        if has_told(node):
            told.append(node.name)
        else:
            silent.setdefault(_why_silent(node), []).append(node.name)
    return DriftTable(tuple(rows), tuple(groups), tuple(told), _unknown(silent))


def has_told(node: Node) -> bool:
    """Tell whether all parts that drift needs have come from `node`."""
    return bool(node.frames) and all(group in node.parts for group in (*NEEDED, *(("gpu",) if node.gpus else ())))


def is_hung(node: Node) -> bool:
    """Tell whether `node` has told all but what its GPU driver would, which hangs: there is nothing to wait for."""
    return node.notes.get("nvml", "").startswith("hung") and all(group in node.parts for group in NEEDED)


def _why_silent(node: Node) -> str:
    if is_hung(node):
        return "GPU driver hung"
    if node.link.state.is_live or node.link.state.is_pending:
        return "waiting"
    return node.link.state.value


def _groups(nodes: list[Node]) -> list[Group]:
    """Return comparable nodes; one whose GPUs or product are not known goes to the largest group that it may be of."""
    members: dict[tuple[str, str], list[str]] = {}
    unsure: list[tuple[str | None, str, Node]] = []
    for node in nodes:
        gpus, product = _model(node), node.words.get("product", "")
        if gpus is None or not product:
            unsure.append((gpus, product, node))
        else:
            members.setdefault((gpus, product), []).append(node.name)
    # Those that lack one of the two make groups that one which lacks the GPUs' name may be of.
    for unnamed in (False, True):
        known = sorted(members, key=lambda key: -len(members[key]))
        for gpus, product, node in unsure:
            if (gpus is None) is unnamed:
                fitting = (key for key in known if gpus in (None, key[0]) and product in ("", key[1]))
                found = next(fitting, (_UNNAMED if gpus is None else gpus, product))
                members.setdefault(found, []).append(node.name)
    order = {node.name: node.index for node in nodes}
    groups = [Group(*key, tuple(sorted(names, key=order.__getitem__))) for key, names in members.items()]
    return sorted(groups, key=lambda group: (-len(group.nodes), group.label))


def _model(node: Node) -> str | None:
    """Return the name of the node's GPUs, empty without any, None when it has GPUs whose name is not known."""
    names = Counter(gpu.name for gpu in node.gpus if gpu.name)
    if names:
        return names.most_common(1)[0][0]
    return None if node.gpus or node.expected_gpus else ""


def _compare(snapshot: FleetSnapshot, item: Item, group: Group) -> Drift:
    read = _reader(snapshot, item)
    counts = Counter[str]()
    nodes: dict[str, list[str]] = {}
    gpus: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    for name in group.nodes:
        node = snapshot.node(name)
        values = read(node)
        distinct = set(values)
        given = [value for value in distinct if isinstance(value, str)]
        if not given:
            unknown.setdefault(_why(item, node, distinct), []).append(name)
            continue
        if any(value not in given and value != _UNTOLD for value in distinct):
            # Some of its GPUs cannot be asked; the others are compared.
            unknown.setdefault(_why(item, node, distinct), []).append(name)
        for value in given:
            counts[value] += values.count(value)
        if len(given) == 1:
            nodes.setdefault(given[0], []).append(name)
            continue
        for gpu, told in zip(node.gpus, values, strict=False):
            if isinstance(told, str):
                gpus.setdefault(told, []).append(gpu_place(name, gpu.index))
    ranked = sorted(counts, key=lambda value: (-counts[value], value))
    is_tie = len(ranked) > 1 and counts[ranked[0]] == counts[ranked[1]]
    held = tuple(Held(value, tuple(nodes.get(value, ())), tuple(gpus.get(value, ()))) for value in ranked)
    return Drift(item, group, ranked[0] if ranked and not is_tie else None, held, _unknown(unknown))


def _reader(snapshot: FleetSnapshot, item: Item) -> Callable[[Node], list[str | Missing]]:
    """Return what reads the value of a node, or those of its GPUs in their order; none where it does not tell."""
    if item.is_metric:
        return _metric_reader(snapshot, item)
    if item.of_gpu:
        return lambda node: [word or _UNTOLD for word in node.gpu_words.get(item.id, ())]

    def read(node: Node) -> list[str | Missing]:
        word = node.words.get(item.id, "") or (node.kernel if item.id == "kernel" else "")
        return [SAID.get(item.id, {}).get(word, word)] if word else []

    return read


def _metric_reader(snapshot: FleetSnapshot, item: Item) -> Callable[[Node], list[str | Missing]]:
    metric, scope = snapshot.catalogue[item.id], Scope.GPU if item.of_gpu else Scope.NODE
    table = snapshot.tables[scope]
    # A fleet has thousands of values and a handful of different ones: lists and a dictionary, not a look into an array
    # for each.
    values, reasons = table.values[table.index[item.id]].tolist(), table.reasons[table.index[item.id]].tolist()
    present = {value for value, reason in zip(values, reasons, strict=True) if not reason}
    texts = {value: _text(metric, value) for value in present}

    def read(node: Node) -> list[str | Missing]:
        return [_MISSING[reasons[row]] if reasons[row] else texts[values[row]] for row in snapshot.rows(node, scope)]

    return read


def _text(metric: Metric, value: float) -> str:
    if metric.words:
        return dict(metric.words).get(int(value), f"code {int(value)}")
    return f"{value:g} {metric.unit}"


def _why(item: Item, node: Node, values: set[str | Missing]) -> str:
    reasons = {value.reason for value in values if isinstance(value, Missing)}
    if reasons - {Reason.UNSUPPORTED}:
        return REASON_WORDS[max(reasons)]
    came = item.is_metric or any(group in node.parts for group in item.groups)
    return NOT_VISIBLE if came else _why_silent(node)


def _unknown(found: Mapping[str, list[str]]) -> tuple[Unknown, ...]:
    return tuple(Unknown(why, tuple(found[why])) for why in sorted(found, key=lambda why: (-len(found[why]), why)))


def _folded(gpus: Iterable[str]) -> list[str]:
    """Return places of GPUs, nodes with the same ones together."""
    of_node: dict[str, list[str]] = {}
    for place in gpus:
        of_node.setdefault(node_of(place), []).append(place.rpartition("/")[2])
    nodes: dict[tuple[str, ...], list[str]] = {}
    for name, indexes in of_node.items():
        nodes.setdefault(tuple(indexes), []).append(name)
    return [f"{fold(names)}/gpu/{fold(indexes)}" for indexes, names in nodes.items()]
