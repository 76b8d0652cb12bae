"""What the console costs, and how fast it answers: `python -m benchmarks.console [NODES TICK_S COLUMNSxROWS [MINUTES]]`
runs one case, with so many minutes of history, and without arguments all of them, the large with five minutes: that
is what the budgets of CPU and memory are said of.

`stethoscope watch` runs in a pseudo-terminal on a fleet of real SSH servers whose lines were made beforehand
(benchmarks.rendered). Printed are: start to first paint, to the first node's data, to all nodes live; the CPU of the
console's process, its memory and what it sends to the terminal while nothing is touched; milliseconds from a key to
the paint that answers it; the same while 500 nodes are lost at once; and what it costs with another screen in front.
glances and btop run beside it where they are installed. Returns 1 when a budget is missed.
"""

from __future__ import annotations

import codecs
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyte

from benchmarks.rendered import fleet
from benchmarks.terminal import Terminal, available

CASES = ((2000, 5.0, 200, 60), (2000, 5.0, 80, 24), (200, 5.0, 200, 60), (200, 5.0, 80, 24), (200, 2.0, 200, 60))
SETTLE_S = 45.0
"""So long after the last node is live everything that is read rarely has been read once and memory was tidied."""
STEADY_S = 60.0
"""A minute has every line that a node sends: a full frame, and each part once."""
HIDDEN_S = 60.0
"""As long, for the same reason."""
MANY_NODES = 1000
HISTORY_MINUTES = 5.0
KEYS = 200
LOST = 500
_SPAN_S = 400.0
"""So long the servers have something to say beyond the minutes asked for."""
_LIVE = re.compile(r"(\d[\d,]*) live")
_PRIVATE = re.compile(rb"\x1b\[[<>=?][0-9;]*(?:\$p|u)")


@dataclass
class Budgets:
    """Collects what misses its limit."""

    missed: list[str] = field(default_factory=list)

    def check(self, what: str, value: float, limit: float, unit: str) -> str:
        """Return the value in words, marked when it is beyond `limit`."""
        text = f"{what} {value:,.1f} {unit}" if value < 100 else f"{what} {value:,.0f} {unit}"
        if value > limit:
            self.missed.append(f"{text}, budget {limit:g} {unit}")
            return f"{text} (budget {limit:g}: MISSED)"
        return text


def environment(home: Path) -> dict[str, str]:
    """Return the environment of the console: a home of its own, 256 colours."""
    return {
        "HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state"),
        "XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache"),
    }  # fmt: skip


def command(fleet_path: Path) -> list[str]:
    """Return the command line of the console."""
    return [sys.executable, "-m", "stethoscope", "watch", "--fresh", "--fleet", str(fleet_path)]


class Screen:
    """What the terminal showed, drawn afterwards from what was taken down."""

    def __init__(self, terminal: Terminal) -> None:
        """Draw nothing yet."""
        self._terminal = terminal
        self._at = 0
        self._screen = pyte.Screen(terminal.columns, terminal.rows)
        self._stream = pyte.Stream(self._screen)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def next(self) -> tuple[float, str] | None:
        """Draw what came next; return when it came, and the whole text then."""
        if self._at >= len(self._terminal.taken):
            return None
        elapsed, data = self._terminal.taken[self._at]
        self._at += 1
        self._stream.feed(self._decode(_PRIVATE.sub(b"", data)))
        return elapsed, "\n".join(self._screen.display)


def start(terminal: Terminal, nodes: int, limit_s: float = 120.0) -> tuple[float, float, float, float]:
    """Read until all nodes are live; return the seconds to the first paint, the first node's data and the last, and the
    CPU seconds until then."""
    screen = Screen(terminal)
    first_paint = first_node = 0.0
    while time.perf_counter() - terminal.started < limit_s:
        terminal.run(0.5)
        while (drawn := screen.next()) is not None:
            elapsed, text = drawn
            if not first_paint and "keys" in text:
                first_paint = elapsed
            found = [int(count.replace(",", "")) for count in _LIVE.findall(text)]
            if found and found[0] and not first_node:
                first_node = elapsed
            if nodes in found:
                return first_paint, first_node, elapsed, terminal.cpu_s()
    raise RuntimeError(f"not all nodes are live after {limit_s:g} s:\n{text}")


def percentiles(values: list[float]) -> tuple[float, float, float]:
    """Return p50, p95 and p99 of many values."""
    cut = statistics.quantiles(values, n=100, method="inclusive")
    return cut[49], cut[94], cut[98]


def keys(terminal: Terminal, count: int, pause_s: float) -> tuple[list[float], list[float]]:
    """Press so many keys at random times; return the milliseconds to the answer of each that moves the cursor, and of
    each that changes the metric.

    The answer to a move is a new text on the cursor's line, which stands above the last one, that to a change of the
    metric one on the legend's.
    """
    chance = random.Random(1)
    cursor, legend = b"\x1b[%d;" % (terminal.rows - 1), b"\x1b[2;"
    plan = ["j", "j", "l", "j", "k", "h", "\x1b[6~", "k", "l", "\x1b[5~", "j", "h", "]", "k", "j", "["]
    # From the first line on: on the last one there is nothing that answers to a key that goes down.
    terminal.type("g")
    terminal.run(pause_s)
    moves: list[float] = []
    metrics: list[float] = []
    for number in range(count):
        terminal.run(chance.uniform(0.2 * pause_s, 1.8 * pause_s))
        key = plan[number % len(plan)]
        if key in "[]":
            metrics.append(terminal.answer_ms(key, legend))
        else:
            moves.append(terminal.answer_ms(key, cursor))
    return moves, metrics


def told(answers: tuple[list[float], list[float]], budgets: Budgets) -> str:
    """Return the times of keys in words."""
    words = []
    for what, values, p50_limit in (("moves", answers[0], 5.0), ("another metric", answers[1], 50.0)):
        p50, p95, p99 = percentiles(values)
        first, last = (budgets.check(f"p{n}", value, limit, "ms") for n, value, limit in (
            (50, p50, p50_limit), (99, p99, 50.0)))  # fmt: skip
        words.append(f"{what}: {first}, p95 {p95:.1f} ms, {last}")
    return "; ".join(words)


def run_case(nodes: int, tick_s: float, columns: int, rows: int, minutes: float, budgets: Budgets) -> None:
    """Measure one size of fleet and terminal and print it."""
    name = f"{nodes:,} nodes at {tick_s:g} s, {columns}x{rows}"
    large = nodes >= MANY_NODES
    print(f"{name}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        span_s = _SPAN_S + 60 * minutes
        with fleet(home, nodes, tick_s, span_s) as servers:
            text = (home / "fleet.yaml").read_text().replace("defaults: {", f"defaults: {{interval: {tick_s:g}s, ")
            (home / "fleet.yaml").write_text(text)
            warm(home, nodes)
            with Terminal(command(home / "fleet.yaml"), columns, rows, environment(home)) as terminal:
                measure(name, terminal, servers.stdin, nodes, large, minutes, budgets)


def warm(home: Path, nodes: int) -> None:
    """Run the console once until the first node is live: what it keeps for the next start is there from now on."""
    with Terminal(command(home / "fleet.yaml"), 80, 24, environment(home)) as terminal:
        screen = Screen(terminal)
        end = time.perf_counter() + 60
        while time.perf_counter() < end:
            terminal.run(0.3)
            while (drawn := screen.next()) is not None:
                if any(count != "0" for count in _LIVE.findall(drawn[1])):
                    return
    raise RuntimeError("no node is live after 60 s")


def measure(name: str, terminal: Terminal, orders: IO[str], nodes: int, large: bool, minutes: float,
            budgets: Budgets) -> None:  # fmt: skip
    """Measure the running console."""
    paint, first, live, cpu = start(terminal, nodes)
    said = (
        budgets.check("first paint", paint, 0.4, "s"), budgets.check("first node's data", first, 1.0, "s"),
        f"all live {live:.1f} s ({1000 * cpu / nodes:.1f} ms of CPU a node)",
    )  # fmt: skip
    print(f"  start: {'; '.join(said)}", flush=True)
    terminal.run(SETTLE_S + 60 * minutes)
    share, speed = terminal.steady(STEADY_S)
    held, most = terminal.memory_mib()
    said = (
        budgets.check("CPU", share, 15.0, "% of a core"),
        budgets.check("to the terminal", speed / 1000, 10.0 if terminal.columns > 100 else 2.0, "KB/s"),
        budgets.check("memory", held, 300.0, "MiB"),
    )
    after = time.perf_counter() - terminal.started
    print(f"  steady: {'; '.join(said)} (most {most:.0f} MiB), {after:.0f} s after the start", flush=True)
    print(f"  {KEYS} keys: {told(keys(terminal, KEYS, 0.15), budgets)}", flush=True)
    hidden = []
    for screen, there, back in (("help", "?", "\x1b"), ("node", "g\r", "\x1b")):
        terminal.type(there)
        terminal.run(1.0)
        hidden.append(f"{screen} {terminal.steady(HIDDEN_S)[0]:.1f} %")
        terminal.type(back)
        terminal.run(1.0)
    print(f"  CPU with another screen in front: {', '.join(hidden)}", flush=True)
    if large:
        orders.write(f"lose {LOST}\n")
        orders.flush()
        print(f"  {LOST} nodes lost at once: {told(keys(terminal, KEYS // 2, 0.1), budgets)}", flush=True)
    terminal.type("q")
    for miss in budgets.missed:
        if not miss.startswith("("):
            budgets.missed[budgets.missed.index(miss)] = f"({name}) {miss}"


def peers() -> None:
    """Print what glances and btop cost in the same terminal, at their own pace."""
    for name, arguments in (("glances", ["--disable-check-update"]), ("btop", ["--utf-force"])):
        path = available(name)
        if path is None:
            print(f"  {name}: skipped, not installed")
            continue
        with (
            tempfile.TemporaryDirectory() as home,
            Terminal([path, *arguments], 200, 60, environment(Path(home))) as terminal,
        ):
            terminal.run(3.0)
            first = next((elapsed for elapsed, _ in terminal.taken), float("nan"))
            share, speed = terminal.steady(10.0)
            held, _ = terminal.memory_mib()
            print(
                f"  {name} on this machine alone, 200x60: first output {1000 * first:.0f} ms, {share:.1f} % of a core, "
                f"{speed / 1000:.1f} KB/s, {held:.0f} MiB",
                flush=True,
            )


def main() -> int:
    """Run all cases, or the one asked for."""
    budgets = Budgets()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if len(sys.argv) > 3:
        columns, rows = (int(text) for text in sys.argv[3].split("x"))
        minutes = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
        run_case(int(sys.argv[1]), float(sys.argv[2]), columns, rows, minutes, budgets)
    else:
        for nodes, tick_s, columns, rows in CASES:
            run_case(nodes, tick_s, columns, rows, HISTORY_MINUTES if nodes >= MANY_NODES else 0.0, budgets)
        peers()
    for miss in budgets.missed:
        print(f"missed: {miss}")
    return bool(budgets.missed)


if __name__ == "__main__":
    sys.exit(main())
