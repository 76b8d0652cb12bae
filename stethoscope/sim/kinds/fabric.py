"""Fault kinds of the ports of the fabric: links, optics, adapters and the PCIe links of adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.model.metric import Reason
from stethoscope.sim.files.pci import SPEEDS
from stethoscope.sim.kinds.kind import Count, Kind, Line, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.layout import Layout

DOWN, INIT = 1, 2
"""States of a port; POLLING and LINK_UP are physical ones."""
POLLING, LINK_UP = 2, 5
UNLINKED_GBPS = 10.0
"""What the driver gives as the rate of a port without a link: four lanes of the lowest speed."""
PORT_ERROR = (
    "{node}:{pid}:{tid} [{gpu}] transport/net_ib.cc:101 NCCL WARN NET/IB : {hca}:1 Got async event : port error"
)
LINK_DOWN = "mlx5_core {hca_pci} {hca}: Port: 1 Link DOWN"
NO_ANSWER = (
    "{peer_node}:{pid}:{tid} [{gpu}] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer "
    "{node_ip}<{peer_port}> with status=12 opcode=0 len=0 vendor err 129 (Send)"
)
_PORT_ACTIVE = PORT_ERROR.replace("port error", "port active")
_RECOVERY_S = 1.5
"""After the link is back: so long until queue pairs send again."""
_LONGEST_S = 43_200.0
"""What repeats is planned so far ahead."""
_LANE_GBPS = 63 / 16
"""What one lane of PCIe generation 5 carries, in GB/s."""
_USABLE = 0.87
"""What packets leave of it."""
_LANE_MBPS = {1: 2_000, 2: 4_000, 3: 7_876, 4: 15_753, 5: 31_507, 6: 63_015}
"""PCIe generation -> what the kernel says that one lane carries, in Mb/s."""


def take_down(effects: Effects, node: int, port: int, state: int = DOWN, physical: int = POLLING) -> None:
    """Let nothing go through a port."""
    effects.fix("ib_port_state", state, node, port)
    effects.fix("ib_port_phys_state", physical, node, port)
    if state == DOWN:
        effects.fix("ib_port_rate", UNLINKED_GBPS, node, port)
    effects.bandwidth[node, port] *= 0.0


class IbOpticDegraded(Kind):
    """An optic or cable that loses light: errors on one port, and half the bandwidth for every job that crosses it."""

    name = "ib_optic_degraded"
    title = "An optic or cable loses light"
    root_cause = "ib_link_fault"
    scope = "global"
    severity = "P1"
    targets = frozenset({"ib"})
    params: ClassVar[Mapping[str, Param]] = {
        "symbol_errors_per_s": Param(40.0, "1/s", meaning="damaged symbols that the port counts"),
        "recoveries_per_min": Param(1.0, "1/min", meaning="times that the link trains anew"),
        "bandwidth_factor": Param(0.5, "ratio", meaning="what is left of the link's bandwidth"),
        "rx_power_dbm": Param(-9.5, "dBm", meaning="light on the darkest lane; a healthy one gets 1 to 3", signed=True),
        "module_temp_c": Param(None, "C", meaning="temperature of the module", signed=True),
        "ramp": Param("60s", "s", meaning="time until it is that bad"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Narrow the port and let its error counters run; its partners on the rail wait for credit."""
        at = (self.node, self.index)
        reached = progress(age_s, *self.ramp())
        symbols = self.number("symbol_errors_per_s") * reached
        effects.bandwidth[at] *= 1 + (self.number("bandwidth_factor") - 1) * reached
        effects.add("ib_symbol_error", symbols, *at)
        effects.add("ib_port_rcv_errors", symbols / 10, *at)
        effects.add("ib_link_error_recovery", self.number("recoveries_per_min") / 60 * reached, *at)
        effects.add("ib_local_link_integrity_errors", 3 / 60 * reached, *at)
        for partner in effects.layout.rail_partners(*at):
            effects.credit_wait[partner, self.index] += 0.09 * reached
        here = self.fault.where.text
        effects.shown[(here, "ib_module_rx_power")] = 1.5 + (self.number("rx_power_dbm") - 1.5) * reached
        effects.shown[(here, "ib_effective_ber")] = 10 ** (-15 + 6 * reached)
        if self.given("module_temp_c"):
            effects.shown[(here, "ib_module_temp")] = self.number("module_temp_c")


class IbLinkDown(Kind):
    """A port goes down and stays down: the collective that uses its rail never ends."""

    name = "ib_link_down"
    title = "A port of the fabric goes down and stays down"
    root_cause = "ib_link_down"
    scope = "global"
    severity = "P0"
    targets = frozenset({"ib"})
    params: ClassVar[Mapping[str, Param]] = {
        "outcome": Param("crash", "text", ("crash", "hang"), "whether NCCL sees the error or loses it"),
        "crash_after": Param("45s", "s", meaning="time until the retries are over and the job dies"),
    }
    lines = (
        Line("kernel", 0.0, "node", LINK_DOWN),
        Line("job", 1.0, "node", PORT_ERROR),
        Line("job", 38.0, "neighbours", NO_ANSWER, when={"outcome": "crash"}),
    )

    def changes(self) -> Iterable[float]:
        """Return the end of the job."""
        return (self.number("crash_after"),) if self.fault.params["outcome"] == "crash" else ()

    def counts(self, layout: Layout) -> Iterable[Count]:
        """Return the one time that it went down."""
        return (Count(0.0, "ib_link_downed", 1, (self.node, self.index)),)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take the port down, and after a while the job."""
        take_down(effects, self.node, self.index)
        if self.fault.params["outcome"] == "crash" and age_s >= self.number("crash_after"):
            end_jobs(effects, (self.node,))


class IbLinkFlap(Kind):
    """A link that goes down again and again and comes back within seconds: each time all ranks stand still."""

    name = "ib_link_flap"
    title = "A link goes down and comes back, again and again"
    root_cause = "ib_link_fault"
    scope = "global"
    severity = "P1"
    targets = frozenset({"ib"})
    params: ClassVar[Mapping[str, Param]] = {
        "down_s": Param(4.0, "s", meaning="how long it is down each time"),
        "every_s": Param(90.0, "s", meaning="time from one flap to the next"),
        "crash_at": Param(None, "s", meaning="when a flap is too long and the job dies of it"),
    }

    def _flaps(self) -> list[float]:
        every_s = max(self.number("every_s"), self.number("down_s") + 2 * _RECOVERY_S)
        flaps = [number * every_s for number in range(int(_LONGEST_S / every_s))]
        if self.given("crash_at"):
            dead_s = self.number("crash_at")
            flaps = sorted({dead_s, *(age_s for age_s in flaps if abs(age_s - dead_s) > every_s / 2)})
        return flaps

    def changes(self) -> Iterable[float]:
        """Return every moment at which the link or the traffic goes or comes, and the end of the job."""
        down_s = self.number("down_s")
        return [age_s + part for age_s in self._flaps() for part in (0.0, down_s, down_s + _RECOVERY_S)]

    def written(self) -> Iterable[Line]:
        """Yield what kernel and ranks say at each flap."""
        down_s = self.number("down_s")
        for age_s in self._flaps():
            yield Line("kernel", age_s, "node", LINK_DOWN)
            yield Line("kernel", age_s + down_s, "node", LINK_DOWN.replace("DOWN", "ACTIVE"))
            if not self.given("crash_at") or age_s <= self.number("crash_at"):
                yield Line("job", age_s, "node", PORT_ERROR)
            if not self.given("crash_at") or age_s < self.number("crash_at"):
                yield Line("job", age_s + down_s, "node", _PORT_ACTIVE)

    def counts(self, layout: Layout) -> Iterable[Count]:
        """Yield one time down, and the symbols that are damaged while the link trains."""
        at = (self.node, self.index)
        for number, age_s in enumerate(self._flaps()):
            yield Count(age_s, "ib_link_downed", 1, at)
            yield Count(age_s + self.number("down_s"), "ib_symbol_error", 220 + 57 * number % 160, at)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take the port down in a flap; what sends through it needs a moment more."""
        if self.given("crash_at") and age_s >= self.number("crash_at"):
            end_jobs(effects, (self.node,))
        down_s = self.number("down_s")
        within_s = age_s - max((one for one in self._flaps() if one <= age_s), default=0.0)
        if within_s < down_s:
            take_down(effects, self.node, self.index)
        elif within_s < down_s + _RECOVERY_S:
            take_down(effects, self.node, self.index, INIT, LINK_UP)


class IbSpeedLow(Kind):
    """A clean link that trained at a lower rate than its peers."""

    name = "ib_speed_low"
    title = "A link trained at a lower speed"
    root_cause = "ib_speed_low"
    scope = "global"
    severity = "P1"
    targets = frozenset({"ib"})
    params: ClassVar[Mapping[str, Param]] = {"rate_gbps": Param(200.0, "Gb/s", meaning="rate of the link")}

    def apply(self, effects: Effects, age_s: float) -> None:
        """Show the low rate, and narrow the port."""
        at, rate, full = (self.node, self.index), self.number("rate_gbps"), effects.layout.fleet.ib_rate_gbps
        effects.fix("ib_port_rate", min(rate, full), *at)
        effects.bandwidth[at] *= min(1.0, rate / full)


class NicLost(Kind):
    """An adapter vanishes from its bus; the GPU beside it is well."""

    name = "nic_lost"
    title = "An adapter fails or vanishes"
    root_cause = "nic_fault"
    scope = "global"
    severity = "P0"
    targets = frozenset({"ib"})
    params: ClassVar[Mapping[str, Param]] = {"crash_after": Param("20s", "s", meaning="time until the job dies")}
    lines = (
        Line("kernel", 0.0, "node",
             "mlx5_core {hca_pci}: poll_health:816:(pid 0): device's health compromised - reached miss count"),
        Line("kernel", 0.0, "node", "mlx5_core {hca_pci}: print_health_info:425:(pid 0): PCI slot is unavailable"),
        Line("job", 1.0, "node", PORT_ERROR.replace("port error", "local catastrophic error")),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the end of the job."""
        return (self.number("crash_after"),)

    def apply(self, effects: Effects, age_s: float) -> None:
        """Lose the adapter, and after a while the job."""
        effects.port_missing[self.node, self.index] = Reason.LOST
        effects.bandwidth[self.node, self.index] *= 0.0
        if age_s >= self.number("crash_after"):
            end_jobs(effects, (self.node,))


class NicPcieDowngraded(Kind):
    """The PCIe link of an adapter runs at a lower generation or width; the side of the cable is perfect."""

    name = "nic_pcie_downgraded"
    title = "An adapter's PCIe link runs below its speed or width"
    root_cause = "nic_pcie_fault"
    scope = "global"
    severity = "P1"
    targets = frozenset({"ib"})
    params: ClassVar[Mapping[str, Param]] = {
        "gen": Param(3.0, "gen", meaning="PCIe generation, of 5"),
        "width": Param(16.0, "lanes", meaning="lanes, of 16"),
    }

    def left(self, rate_gbps: float) -> float:
        """Return what is left (0..1) of the bandwidth of a port of that rate."""
        lanes = _LANE_GBPS * self.number("width") * 2 ** (self.number("gen") - 5)
        return min(1.0, lanes * _USABLE / (rate_gbps / 8))

    def written(self) -> Iterable[Line]:
        """Yield what the kernel says when the driver finds the slow link."""
        gen, width = int(self.number("gen")), int(self.number("width"))
        if gen in SPEEDS and (gen, width) != (5, 16):
            yield Line(
                "kernel", 0.0, "node",
                f"mlx5_core {{hca_pci}}: {_LANE_MBPS[gen] * width / 1000:.3f} Gb/s available PCIe bandwidth, limited "
                f"by {SPEEDS[gen]} GT/s PCIe x{width} link at {{root_port_hca}} (capable of 504.112 Gb/s with "
                "32.0 GT/s PCIe x16 link)",
            )  # fmt: skip

    def apply(self, effects: Effects, age_s: float) -> None:
        """Lower the PCIe link; who sends to the adapter waits for credit."""
        here = self.fault.where.text
        gen = int(self.number("gen"))
        effects.shown[(here, "pcie_link_speed")] = float(SPEEDS[gen])
        effects.shown[(here, "pcie_link_width")] = self.number("width")
        left = self.left(effects.layout.fleet.ib_rate_gbps)
        effects.bandwidth[self.node, self.index] *= left
        if left < 1:
            for partner in effects.layout.rail_partners(self.node, self.index):
                effects.credit_wait[partner, self.index] += 0.15 + 0.25 * (1 - left)


def end_jobs(effects: Effects, nodes: Iterable[int]) -> None:
    """End the jobs that run on these nodes."""
    for node in nodes:
        job = effects.layout.job_of(node)
        if job is not None:
            effects.ended.add(job.id)


KINDS = (IbOpticDegraded, IbLinkDown, IbLinkFlap, IbSpeedLow, NicLost, NicPcieDowngraded)
