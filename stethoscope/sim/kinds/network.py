"""Fault kinds of how the nodes of a job address and reach each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stethoscope.sim.kinds.fabric import end_jobs
from stethoscope.sim.kinds.kind import Count, Kind, Line
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.layout import Layout
    from stethoscope.specs.scenario import Fault

_CLOSED = (
    "{peer_node}:{pid}:{tid} [{gpu}] misc/socket.cc:50 NCCL WARN socketProgress: "
    "Connection closed by remote peer {node}.cluster<{peer_port}>"
)
_ENDS_S = 3.0
"""So long after the first rank the job is gone."""
_POLL = "{peer_node}:{pid}:{tid} [{gpu}] misc/socket.cc:%s NCCL WARN socketPollConnect: exceeded %s"


class RoceGidMissing(Kind):
    """A port of an Ethernet fabric has lost the address entry that queue pairs need; its link is perfect."""

    name = "roce_gid_missing"
    title = "A port lacks its RoCE address (GID)"
    root_cause = "gid_or_pkey_misconfig"
    scope = "local"
    severity = "P1"
    targets = frozenset({"ib"})
    on_ethernet = True
    params: ClassVar[Mapping[str, Param]] = {
        "when": Param(
            "startup", "text", ("startup", "running"), "the next start of the job fails, or the job that runs"
        ),
    }
    lines = (
        Line("job", 0.0, "node", "{node}:{pid}:{tid} [{gpu}] misc/ibvwrap.cc:206 NCCL WARN Call to ibv_modify_qp "
             "failed with error Network is unreachable errno 101"),
        Line("job", 1.0, "others", _CLOSED),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the end of the job."""
        return (_ENDS_S,)

    def counts(self, layout: Layout) -> Iterable[Count]:
        """Return the requests of the queue pairs that broke."""
        if self.fault.params["when"] == "running":
            return (Count(0.0, "ib_hw_req_cqe_error", 2_048, (self.node, self.index)),)
        return ()

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take the entry away; the ranks of the node fail, and the others with them."""
        effects.shown[(self.fault.where.text, "ib_gid_present")] = 0.0
        job = effects.layout.job_of(self.node)
        if job is None:
            return
        if self.fault.params["when"] == "startup":
            effects.restarts[job.id] = self.fault.at_s
            effects.unconnected.add(job.id)
        else:
            effects.bandwidth[self.node, self.index] *= 0.0
        effects.dead[self.node] = True
        if age_s >= _ENDS_S:
            end_jobs(effects, (self.node,))


class MtuMismatch(Kind):
    """The MTU of hosts and switch do not agree: large messages are cut into small packets."""

    name = "mtu_mismatch"
    title = "MTU of host and switch port disagree"
    root_cause = "roce_misconfig"
    scope = "global"
    severity = "P1"
    core = False
    targets = frozenset({"leaf", "ib"})
    on_ethernet = True
    params: ClassVar[Mapping[str, Param]] = {
        "mtu": Param(2048.0, "byte", meaning="active MTU, of 4096"),
        "bandwidth_factor": Param(0.4, "ratio", meaning="what is left of the bandwidth"),
    }

    def apply(self, effects: Effects, age_s: float) -> None:
        """Lower the MTU of the ports, and narrow every job that crosses them."""
        for node, port in np.argwhere(effects.layout.ports_at(self.fault.where)).tolist():
            here = f"{effects.layout.nodes[node]}/ib/mlx5_{port}"
            effects.shown[(here, "ib_active_mtu")] = self.number("mtu")
            effects.bandwidth[node, port] *= self.number("bandwidth_factor")


class NcclWrongInterface(Kind):
    """The job starts anew and its ranks talk over the management network: ten times slower, and nothing is broken."""

    name = "nccl_wrong_interface"
    title = "NCCL talks over the management network"
    root_cause = "wrong_interface"
    scope = "global"
    severity = "P1"
    targets = frozenset({"job"})
    params: ClassVar[Mapping[str, Param]] = {
        "mgmt_gbps": Param(10.0, "Gb/s", meaning="rate of the management network"),
        "bandwidth_factor": Param(0.1, "ratio", meaning="what is left of the job's bandwidth"),
    }
    lines = (
        Line("job", 0.0, "all", "{node}:{pid}:{tid} [{gpu}] NCCL INFO NET/IB : No device found."),
        Line("job", 0.0, "all", "{node}:{pid}:{tid} [{gpu}] NCCL INFO NET/Socket : Using [0]eno1:{node_ip}<0>"),
        Line("job", 0.0, "all", "{node}:{pid}:{tid} [{gpu}] NCCL INFO Using network Socket"),
    )

    def __init__(self, fault: Fault) -> None:
        """Take the fault, and the rate of the network that it uses."""
        super().__init__(fault)
        self.management_gbps = self.number("mgmt_gbps")

    def apply(self, effects: Effects, age_s: float) -> None:
        """Send the job's traffic over the management network."""
        job, factor = self.fault.where.name, self.number("bandwidth_factor")
        effects.restarts[job] = self.fault.at_s
        effects.over_ethernet[job] = self.number("mgmt_gbps")
        effects.job_bandwidth[job] = effects.job_bandwidth.get(job, 1.0) * factor


class FirewallBlocked(Kind):
    """A filter closes the ports between nodes: the job starts anew, and its ranks never find each other."""

    name = "firewall_blocked"
    title = "Ports between nodes are filtered"
    root_cause = "firewall_or_port_blocked"
    scope = "local"
    severity = "P1"
    targets = frozenset({"node", "fleet"})
    params: ClassVar[Mapping[str, Param]] = {
        "mode": Param("refused", "text", ("refused", "timeout"), "the filter says no, or drops without a word"),
    }
    lines = (
        Line("job", 1.0, "others", "{peer_node}:{pid}:{tid} [{gpu}] NCCL INFO Call to connect returned Connection "
             "refused, retrying", when={"mode": "refused"}),
        Line("job", 21.0, "others", _POLL % ("516", "retries (20000)"), when={"mode": "refused"}),
        Line("job", 390.0, "others", _POLL % ("525", "timeouts (3)"), when={"mode": "timeout"}),
    )  # fmt: skip

    def apply(self, effects: Effects, age_s: float) -> None:
        """Keep the ranks of every job that has a part there from connecting."""
        for node in np.flatnonzero(effects.layout.nodes_at(self.fault.where)).tolist():
            effects.shown[(effects.layout.nodes[node], "ports_filtered")] = str(self.fault.params["mode"])
            job = effects.layout.job_of(node)
            if job is not None:
                effects.restarts[job.id] = self.fault.at_s
                effects.unconnected.add(job.id)


KINDS = (RoceGidMissing, MtuMismatch, NcclWrongInterface, FirewallBlocked)
