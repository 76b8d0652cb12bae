"""What a job writes when it starts, when its ranks lose each other, and when it ends: in the order in which they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.layout import Layout
    from stethoscope.sim.lines import Said, Writer
    from stethoscope.sim.run import JobRun

_INFO = "{peer_node}:{pid}:{tid} [{gpu}] NCCL INFO "
_ELASTIC = "{ts_torch} {launcher} torch/distributed/elastic/"
_SENDING = "W" + _ELASTIC + "multiprocessing/api.py:897] Sending process {pid} closing signal SIGTERM"
_FAILED = (
    "E"
    + _ELASTIC
    + (
        "multiprocessing/api.py:914] failed (exitcode: {exit_code}) local_rank: {gpu} (pid: {pid}) of binary: "
        "/usr/bin/python3"
    )
)
_TOLD_TO_END = "W" + _ELASTIC + "agent/server/api.py:739] Received SIGTERM death signal, shutting down workers"
_STEP_CANCELLED_S = 12.0
"""So long after the last process Slurm says that it has ended the step."""


def starting(writer: Writer, layout: Layout, run: JobRun, effects: Effects, at_s: float) -> Iterator[Said]:
    """Yield what NCCL says with NCCL_DEBUG=INFO: of each node the process of its first GPU, and rank 0 when all are
    connected."""
    if run.job.id in effects.over_ethernet or run.job.id in effects.unconnected:
        # What goes wrong there has its own words.
        return
    for node in run.job.nodes:
        variables = run.effect.environment.get(node, {})
        ports = [port for port in range(layout.port_shape[1]) if effects.rail_share[node, port] > 0]
        for name, value in variables.items():
            yield writer.of_spot(f"{_INFO}{name} set by environment to {value}", (node, 0), at_s + 1)
        if ports:
            kind = "RoCE" if layout.on_ethernet else "IB"
            listed = " ".join(f"[{number}]mlx5_{port}:1/{kind}" for number, port in enumerate(ports))
            yield writer.of_spot(f"{_INFO}NET/IB : Using {listed} [RO]; OOB bond0:{{peer_ip}}<0>", (node, 0), at_s + 2)
        yield writer.of_spot(f"{_INFO}Using network {'IB' if ports else 'Socket'}", (node, 0), at_s + 2)


def peers_lost(writer: Writer, run: JobRun, at_s: float) -> Iterator[Said]:
    """Yield what ranks say whose peer is gone: the nodes beside it first."""
    gone = sorted(run.culprits) or sorted(run.severed) or [run.job.nodes[0]]
    delays = dict(zip(run.job.nodes, run.delay_s().tolist(), strict=True))
    for line, share in ((lines.PEER_CLOSED, 0.5), (lines.PEER_LOST, 0.9)):
        spread = {node: share * delay_s for node, delay_s in delays.items()}
        for said in writer.of_place(line, writer.node_place(gone[0]), at_s, {}, spread):
            if writer.number_of(said.node) not in run.culprits:
                yield said


def timed_out(writer: Writer, run: JobRun, at_s: float) -> Iterator[Said]:
    """Yield what the watchdog of every waiting rank says, within a second; who never entered says nothing."""
    delays_s = run.delay_s()
    for line, share in zip(lines.WATCHDOG, (0.5, 0.9), strict=True):
        for row, node in enumerate(run.job.nodes):
            for gpu in range(run.absent.shape[1]):
                if not run.absent[row, gpu]:
                    moment_s = at_s + share * max(float(delays_s[row]), 0.2)
                    yield writer.of_spot(line.text, (node, gpu), moment_s)


def ending(writer: Writer, run: JobRun, effects: Effects, at_s: float) -> Iterator[Said]:
    """Yield what launchers and Slurm say of the end of a job at `at_s`."""
    last_s = at_s + float(run.delay_s().max(initial=0.0))
    if run.end is not None:
        if run.end.state != "COMPLETED":
            for node in run.job.nodes:
                yield writer.of_spot(_TOLD_TO_END, (node, 0), at_s + 0.5)
        return
    first = {spot: code for spot, code in effects.exits.items() if spot[0] in run.job.nodes and code is not None}
    for (node, gpu), code in list(first.items())[:1]:
        for other in range(run.absent.shape[1]):
            if other != gpu:
                yield writer.of_spot(_SENDING, (node, other), last_s + 1)
        yield writer.of_spot(_FAILED, (node, gpu), last_s + 2, {"exit_code": code})
    last_s += _STEP_CANCELLED_S
    gone = sorted(run.culprits) or sorted(run.severed) or [run.job.nodes[0]]
    yield from writer.of_place(lines.STEP_CANCELLED, writer.node_place(gone[0]), last_s, {})
