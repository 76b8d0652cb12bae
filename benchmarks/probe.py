"""What the probe costs a node: bytes sent to it, time to its first line, memory, and CPU with everything watched."""

from __future__ import annotations

import contextlib
import os
import select
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stethoscope.collect import payload
from stethoscope.collect.watchlist import MANY_PACE, pace_of
from stethoscope.specs.fleet import LARGE_TICK_S, TICK_S
from tests.probe.trees import Tree

PAYLOAD_BYTES = 15 * 1024
HELLO_MS = 150.0
RSS_MIB = 35.0
FLEETS = (("large", 2000, LARGE_TICK_S, 0.1), ("small", 64, TICK_S, 1.0))
"""What there is of fleets: nodes, the tick that goes with so many in seconds, CPU in percent of a core."""
STARTS = 15
SETTLE_S = 12.0
"""The first round of everything, and the second readings that follow it soon, are over then."""
MEASURED_S = float(os.environ.get("PROBE_SECONDS", "60"))
TOOLS = {
    "smartctl": f"printf '%s' '{'x' * 8000}'",
    "chronyc": "echo 'C0A80001,ntp,2,1700000000.1,0.000001,0.000002,0.000003,1.2,0.0,0.1,0.0001,0.0002,64.1,Normal'",
    "timedatectl": "echo NTPSynchronized=yes",
    "systemctl": "echo active",
    "ipmitool": "echo 'Firmware Revision : 1.2'",
    "getent": "echo root:x:0:0::/root:/bin/sh",
}


def main() -> int:
    """Print the numbers and return 1 when one misses its budget."""
    with tempfile.TemporaryDirectory() as place:
        tree = Tree.large(Path(place) / "root")
        tools = Path(place) / "tools"
        tools.mkdir()
        for name, text in TOOLS.items():
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": place, "STETHOSCOPE_ROOT": str(tree.root)}
        size, later = len(payload.payload()), len(payload.watch_line(True, MANY_PACE))
        hello_ms = statistics.median(_hello_ms(environment) for _ in range(STARTS))
        with ThreadPoolExecutor(len(FLEETS)) as pool:
            ran = list(pool.map(lambda one: _run(environment, one[2], pace_of(one[1])), FLEETS))
    rows = [
        ("bytes sent before the first frame", size, PAYLOAD_BYTES, "{:,.0f} B"),
        ("bytes sent in all", size + later, PAYLOAD_BYTES, "{:,.0f} B"),
        ("exec to hello", hello_ms, HELLO_MS, "{:.0f} ms"),
        ("memory at its highest", max(rss_mib for rss_mib, _, _ in ran), RSS_MIB, "{:.1f} MiB"),
    ]
    for (fleet, nodes, tick_s, limit), (_, own, _) in zip(FLEETS, ran, strict=True):
        rare_s = 30 * pace_of(nodes)
        title = f"CPU in a {fleet} fleet: tick {tick_s:g} s, groups {rare_s:g} s, no driver"
        rows.append((title, own, limit, "{:.3f} % of a core"))
    for title, value, limit, form in rows:
        print(f"{title:60} {form.format(value):>20}   limit {form.format(limit)}")
    for (fleet, *_), (_, _, children) in zip(FLEETS, ran, strict=True):
        print(f"{f'the commands that it runs in a {fleet} fleet':60} {f'{children:.3f} % of a core':>20}")
    return int(any(value > limit for _, value, limit, _ in rows))


def _start(environment: dict[str, str], tick_s: float = FLEETS[0][2]) -> subprocess.Popen[bytes]:
    probe = subprocess.Popen(
        ["/bin/sh", "-c", payload.command("0" * 16, tick_s)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    assert probe.stdin is not None
    probe.stdin.write(payload.payload())
    probe.stdin.flush()
    return probe


def _hello_ms(environment: dict[str, str]) -> float:
    started = time.perf_counter()
    probe = _start(environment)
    assert probe.stdout is not None
    probe.stdout.readline()
    assert b'"hello"' in probe.stdout.readline()
    elapsed_ms = (time.perf_counter() - started) * 1000
    _end(probe)
    return elapsed_ms


def _end(probe: subprocess.Popen[bytes]) -> None:
    assert probe.stdin is not None
    assert probe.stdout is not None
    probe.stdin.close()
    probe.stdout.close()
    probe.wait()


def _run(environment: dict[str, str], tick_s: float, pace: float) -> tuple[float, float, float]:
    """Return the highest memory in MiB and the CPU of the probe and of its commands, in percent of a core."""
    probe = _start(environment, tick_s)
    assert probe.stdin is not None
    assert probe.stdout is not None
    for line in iter(probe.stdout.readline, b""):
        if b'"full"' in line[:64]:
            break
    probe.stdin.write(payload.watch_line(False, pace))
    probe.stdin.flush()
    _drain(probe, SETTLE_S)
    before, began = _cpu_s(probe.pid), time.monotonic()
    _drain(probe, MEASURED_S)
    after, seconds = _cpu_s(probe.pid), time.monotonic() - began
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{probe.pid}/status").read_text().splitlines() if ":" in line
    )
    _end(probe)
    own, children = (100 * (new - old) / seconds for new, old in zip(after, before, strict=True))
    return int(status["VmHWM"].split()[0]) / 1024, own, children


def _drain(probe: subprocess.Popen[bytes], seconds: float) -> None:
    assert probe.stdout is not None
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(OSError):
            if select.select([probe.stdout], [], [], left)[0]:
                os.read(probe.stdout.fileno(), 1 << 20)


def _cpu_s(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process, and those of its children that have ended, to a nanosecond where the kernel
    says so."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    own = sum(
        int((task / "schedstat").read_text().split()[0]) / 1e9 for task in Path(f"/proc/{pid}/task").iterdir()
    ) if Path(f"/proc/{pid}/schedstat").exists() else (int(fields[11]) + int(fields[12])) / tick  # fmt: skip
    return own, (int(fields[13]) + int(fields[14])) / tick


if __name__ == "__main__":
    raise SystemExit(main())
