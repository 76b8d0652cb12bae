"""What all active faults together do to the machines and the jobs at one moment: kinds write it, the twin reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim.columns import GPU, GPU_COUNTERS, NODE
from stethoscope.sim.job_effects import Foreign, JobEffect, Storage

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.sim.layout import Layout
    from stethoscope.sim.noise import Floats


@dataclass(slots=True)
class Effects:
    """Arrays are `[node]`, `[node, gpu]` or `[node, port]`; all start at "no effect"."""

    layout: Layout
    compute: Floats = field(init=False)
    """Slow-down factor (1 and up) of each rank's own computing; `data` and `other` alike."""
    data: Floats = field(init=False)
    other: Floats = field(init=False)
    stall_s: Floats = field(init=False)
    """Seconds a step that each rank loses without a kernel running."""
    bandwidth: Floats = field(init=False)
    """What is left (0..1) of each port's path: link, adapter, PCIe. With nothing left the collective never ends."""
    job_bandwidth: dict[str, float] = field(default_factory=dict)
    """What is left of the whole job's communication, whatever the path."""
    over_ethernet: dict[str, float] = field(default_factory=dict)
    """Job whose ranks talk over the management network instead of the fabric -> its rate, in Gb/s."""
    restarts: dict[str, float] = field(default_factory=dict)
    """Job -> when (scenario seconds) it was started anew."""
    unconnected: set[str] = field(default_factory=set)
    """Jobs whose ranks are up and wait in vain for each other to connect: no step begins."""
    rail_share: Floats = field(init=False)
    """Traffic of each port as a share of the ordinary: 0 where its job does not use it."""
    io_stall_s: Floats = field(init=False)
    """What of `stall_s` is spent in the kernel, waiting for a file system."""
    jobs: dict[str, JobEffect] = field(default_factory=dict)
    """What happens to whole jobs."""
    doing: dict[tuple[int, int], str] = field(default_factory=dict)
    """(Node, GPU) -> what its rank does instead of its step: save, load, wait_for_loader, prepare, elsewhere."""
    exits: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """(Node, GPU) -> exit code of its rank, below 0 for a signal; None where nobody tells."""
    foreign: dict[tuple[int, int], Foreign] = field(default_factory=dict)
    """(Node, GPU) -> a process there that is no rank of its job."""
    foreign_share: Floats = field(init=False)
    """Share of each GPU, and of its NVLinks, that such a process takes."""
    foreign_links: Floats = field(init=False)
    foreign_jobs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Jobs that only Slurm knows, with their nodes."""
    fill: Floats = field(init=False)
    """Memory of each GPU that its rank holds, as a share of all; NaN for the ordinary."""
    nfs_writes: Floats = field(init=False)
    """Writes of a MiB a second that each node sends to the shared file system, beyond the ordinary."""
    storage: Storage | None = None
    """The shared file system where it is not well, or busy."""
    driver_refuses: dict[int, str] = field(default_factory=dict)
    """Node -> in the words of the driver's library why it does not open."""
    busy_clock: Floats = field(init=False)
    """Factor on the clock at which each GPU works when nothing holds it."""
    clock_mhz: Floats = field(init=False)
    """Clock that each GPU is held at; infinite where it is not held."""
    lock_mhz: Floats = field(init=False)
    """Clock that a setting allows each GPU at most, whatever it does; infinite where there is none. `app_mhz` is the
    one that is set as application clock."""
    app_mhz: Floats = field(init=False)
    duty: Floats = field(init=False)
    """Share of time (0..1) in which what holds a GPU's clock does so; seen from sample to sample."""
    power_limit_w: Floats = field(init=False)
    """Power limit that is set for each GPU; infinite for the board's own."""
    reasons: npt.NDArray[np.int64] = field(init=False)
    """Throttle reason bits that are active for a cause of their own."""
    heat_to_c: Floats = field(init=False)
    """Temperature that each GPU goes to, NaN where its power decides; `heat_tau_s` is how fast."""
    heat_tau_s: Floats = field(init=False)
    heat_swing_c: Floats = field(init=False)
    warmer_c: Floats = field(init=False)
    """How much warmer than its power and its air make it each GPU gets."""
    inlet_rise_c: Floats = field(init=False)
    """How much warmer than usual the air is that each node draws in."""
    power_factor: Floats = field(init=False)
    gpu_missing: npt.NDArray[np.uint8] = field(init=False)
    """Reason code why a GPU gives no value, 0 where it does; `port_missing` alike for ports."""
    port_missing: npt.NDArray[np.uint8] = field(init=False)
    stuck: npt.NDArray[np.bool_] = field(init=False)
    """Ranks that are there and do not enter the collective."""
    dead: npt.NDArray[np.bool_] = field(init=False)
    """Ranks whose process has ended."""
    ended: set[str] = field(default_factory=set)
    """Jobs that end now because of a fault."""
    links: dict[int, str] = field(default_factory=dict)
    """Nodes that cannot be reached, and how: power, hang or panic; refused when nothing listens for ssh; silent when
    only their frames stop, "no python" when the probe finds no interpreter there."""
    frozen: set[int] = field(default_factory=set)
    """Nodes whose probe repeats its last values."""
    boots: dict[int, float] = field(default_factory=dict)
    """Nodes that started again, and when (scenario seconds)."""
    plus: dict[str, Floats] = field(default_factory=dict)
    """Metric -> what is added to each of its values; for counters, to the rate per second."""
    base: dict[str, Floats] = field(default_factory=dict)
    """Counter -> its total at the start, NaN for the ordinary one."""
    fixed: dict[str, Floats] = field(default_factory=dict)
    """Gauge or state -> the value that replaces the modelled one, NaN where nothing does."""
    grows: dict[tuple[str, str], float] = field(default_factory=dict)
    """(Place, counter) -> counts per second, of what no column carries; what was counted stays when the fault ends."""
    extra: dict[tuple[str, str], float] = field(default_factory=dict)
    """(Place, counter) -> counts on top of the total, of what no column carries."""
    credit_wait: Floats = field(init=False)
    """Share of time (0..1) in which each port waits for credit, beyond the ordinary."""
    read_ms: Floats = field(init=False)
    """What a read of each disk takes on top of the ordinary; `write_ms` likewise. `[node, disk]`."""
    write_ms: Floats = field(init=False)
    writes_per_s: Floats = field(init=False)
    """Writes to each disk that no rank asks for; `disk_busy` is the share of time (0..1) that they keep it busy."""
    disk_busy: Floats = field(init=False)
    memory_left: Floats = field(init=False)
    """What is left (0..1) of the memory that each node has available as a rule."""
    cpu_mhz: Floats = field(init=False)
    """Clock that the busy cores of each node are held at; infinite where they are not held."""
    hogs: dict[int, list[tuple[str, float]]] = field(default_factory=dict)
    """Node -> processes that are no ranks and take its processors: name, and how many cores."""
    clock_s: Floats = field(init=False)
    """How far the clock of each node is ahead of the true time, beyond the ordinary."""
    shown: dict[tuple[str, str], float | str | None] = field(default_factory=dict)
    """(Place, metric) -> value of what no column carries."""
    slurm: dict[int, str] = field(default_factory=dict)
    """Node -> Slurm's word for its state, where a fault decides it."""
    slurm_since: dict[int, float] = field(default_factory=dict)
    """Since when (scenario seconds) that state holds."""
    drains: dict[int, tuple[str, str, float]] = field(default_factory=dict)
    """Node that an administrator drained -> reason, who, and when (scenario seconds)."""
    probes: dict[tuple[str, str], str] = field(default_factory=dict)
    """(Place, probe) -> what the on-demand probe prints."""

    def __post_init__(self) -> None:
        """Fill the arrays."""
        gpus, ports = self.layout.gpu_shape, self.layout.port_shape
        self.compute, self.data, self.other = np.ones(gpus), np.ones(gpus), np.ones(gpus)
        self.stall_s, self.heat_swing_c = np.zeros(gpus), np.zeros(gpus)
        self.io_stall_s, self.fill = np.zeros(gpus), np.full(gpus, np.nan)
        self.rail_share, self.nfs_writes = np.ones(ports), np.zeros(gpus[0])
        self.busy_clock = np.ones(gpus)
        self.foreign_share, self.foreign_links = np.zeros(gpus), np.zeros(gpus)
        self.bandwidth, self.credit_wait = np.ones(ports), np.zeros(ports)
        self.clock_mhz, self.power_factor = np.full(gpus, np.inf), np.ones(gpus)
        self.lock_mhz, self.power_limit_w = np.full(gpus, np.inf), np.full(gpus, np.inf)
        self.app_mhz, self.duty = np.full(gpus, np.inf), np.ones(gpus)
        self.reasons = np.zeros(gpus, dtype=np.int64)
        self.heat_to_c, self.heat_tau_s = np.full(gpus, np.nan), np.full(gpus, np.inf)
        self.warmer_c = np.zeros(gpus)
        nodes, disks = self.layout.node_shape, self.layout.disk_shape
        self.inlet_rise_c, self.clock_s = np.zeros(nodes), np.zeros(nodes)
        self.memory_left, self.cpu_mhz = np.ones(nodes), np.full(nodes, np.inf)
        self.read_ms, self.write_ms = np.zeros(disks), np.zeros(disks)
        self.writes_per_s, self.disk_busy = np.zeros(disks), np.zeros(disks)
        self.gpu_missing = np.zeros(gpus, dtype=np.uint8)
        self.port_missing = np.zeros(ports, dtype=np.uint8)
        self.stuck, self.dead = np.zeros(gpus, dtype=np.bool_), np.zeros(gpus, dtype=np.bool_)

    def job(self, id_: str) -> JobEffect:
        """Return what happens to a job, to be added to."""
        return self.jobs.setdefault(id_, JobEffect())

    def hold(self, clock_mhz: float, *gpu: int, duty: float = 1.0) -> None:
        """Hold the clock of a GPU (node, gpu) for a share of the time, and slow its rank by what that costs; of several
        holds the one that costs most counts."""
        busy_mhz = self.layout.board.busy_mhz
        held = self.clock_mhz[gpu]
        before = 1 - self.duty[gpu] * (1 - min(held, busy_mhz) / busy_mhz)
        after = 1 - duty * (1 - clock_mhz / busy_mhz)
        if after < before or held == np.inf:
            self.clock_mhz[gpu], self.duty[gpu] = clock_mhz, duty
            self.compute[gpu] *= before / max(after, 1e-3)

    def fix(self, metric: str, value: float, *place: int) -> None:
        """Replace a gauge or state at (node) or (node, gpu or port) by `value`."""
        array = self.fixed.get(metric)
        if array is None:
            array = self.fixed[metric] = np.full(self._shape(metric), np.nan)
        array[place] = value

    def add(self, metric: str, value: float, *place: int) -> None:
        """Add to a value (a counter: to its rate per second) at (node) or (node, gpu or port)."""
        array = self.plus.get(metric)
        if array is None:
            array = self.plus[metric] = np.zeros(self._shape(metric))
        array[place] += value

    def start_at(self, metric: str, total: float, *place: int) -> None:
        """Let a counter start at `total` at (node, gpu or port)."""
        array = self.base.get(metric)
        if array is None:
            array = self.base[metric] = np.full(self._shape(metric), np.nan)
        array[place] = total

    def grow(self, place: str, metric: str, per_s: float) -> None:
        """Let a counter that no column carries run faster."""
        self.grows[place, metric] = self.grows.get((place, metric), 0.0) + per_s

    def lower(self, place: str, metric: str, value: float) -> None:
        """Show a gauge or state that no column carries, if it is not lower already."""
        shown = self.shown.get((place, metric))
        self.shown[place, metric] = min(value, shown) if isinstance(shown, int | float) else value

    def raise_to(self, place: str, metric: str, value: float) -> None:
        """Show a gauge or state that no column carries, if it is not higher already."""
        shown = self.shown.get((place, metric))
        self.shown[place, metric] = max(value, shown) if isinstance(shown, int | float) else value

    def count(self, place: str, metric: str, extra: float) -> None:
        """Add to the total of a counter that no column carries."""
        self.extra[place, metric] = self.extra.get((place, metric), 0.0) + extra

    def _shape(self, metric: str) -> tuple[int, ...]:
        if metric in NODE:
            return (self.layout.gpu_shape[0],)
        return self.layout.gpu_shape if metric in GPU or metric in GPU_COUNTERS else self.layout.port_shape
