"""Time from the start of the program to its first paint, and to the first node's numbers on the screen, in a pty."""

from __future__ import annotations

import codecs
import math
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

import pyte

RUNS = 5
LIVE = re.compile(r"(\d+) live")


def measure(arguments: list[str], columns: int, rows: int, timeout_s: float = 3.0) -> tuple[float, float, float]:
    """Run the console once; return the seconds to its first paint, to the first live node, and to the last (or NaN)."""
    controller, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "", "PYTHONDONTWRITEBYTECODE": ""}
    started = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "stethoscope", *arguments],
        stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True, close_fds=True,
    )  # fmt: skip
    os.close(terminal)
    # Only taken down here and looked at afterwards: drawing the terminal costs more than what is measured.
    taken: list[tuple[float, bytes]] = []
    try:
        while time.perf_counter() - started < timeout_s:
            if select.select([controller], [], [], 0.05)[0]:
                try:
                    taken.append((0.0, os.read(controller, 65536)))
                except OSError:
                    break
                taken[-1] = (time.perf_counter() - started, taken[-1][1])
    finally:
        os.write(controller, b"q")
        _drain(controller, child)
        os.close(controller)
    return moments(taken, columns, rows)


def moments(taken: list[tuple[float, bytes]], columns: int, rows: int) -> tuple[float, float, float]:
    """Return when the footer stood, when the first node was live and when all 64 were, in what was taken down."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.Stream(screen)
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    first_paint = first_node = all_nodes = float("nan")
    for elapsed, received in taken:
        stream.feed(decode(received))
        shown = "\n".join(screen.display)
        if math.isnan(first_paint) and "keys" in shown:
            first_paint = elapsed
        counts = [int(found) for found in LIVE.findall(shown)]
        if math.isnan(first_node) and any(counts):
            first_node = elapsed
        if 64 in counts:
            return first_paint, first_node, elapsed
    return first_paint, first_node, all_nodes


def _drain(controller: int, child: subprocess.Popen[bytes]) -> None:
    """Read until the console has ended: a terminal that nobody reads holds it up."""
    give_up = time.perf_counter() + 10
    while child.poll() is None:
        if time.perf_counter() > give_up:
            os.killpg(child.pid, signal.SIGKILL)
        if select.select([controller], [], [], 0.05)[0]:
            try:
                os.read(controller, 65536)
            except OSError:
                break
    child.wait()


def main() -> None:
    """Print medians for the demo at both sizes, beside the floor: an interpreter that imports Textual alone."""
    floor = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
        floor.append(time.perf_counter() - started)
    print(f"floor: python -c 'import textual.app'     {statistics.median(floor) * 1000:5.0f} ms")
    for columns, rows in ((80, 24), (200, 60)):
        results = [measure(["demo"], columns, rows) for _ in range(RUNS)]
        paint, node, whole = (statistics.median(column) for column in zip(*results, strict=True))
        ratio = paint / statistics.median(floor)
        print(
            f"demo {columns}x{rows}: first paint {paint * 1000:.0f} ms ({ratio:.1f} x floor), "
            f"first node {node * 1000:.0f} ms, all 64 nodes {whole * 1000:.0f} ms"
        )


if __name__ == "__main__":
    main()
