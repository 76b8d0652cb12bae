"""Time from the start of the program to its first paint, and to the first node's numbers on the screen, in a pty."""

from __future__ import annotations

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

RUNS = 7
NODE_ROW = re.compile(rb"live")


def measure(arguments: list[str], columns: int, rows: int, timeout_s: float = 15.0) -> tuple[float, float, float]:
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
    seen, first_paint, first_node, all_nodes = b"", float("nan"), float("nan"), float("nan")
    try:
        while (elapsed := time.perf_counter() - started) < timeout_s:
            ready, _, _ = select.select([controller], [], [], 0.05)
            if not ready:
                continue
            try:
                seen += os.read(controller, 65536)
            except OSError:
                break
            elapsed = time.perf_counter() - started
            if first_paint != first_paint and b"keys" in seen:
                first_paint = elapsed
            counts = [int(found) for found in re.findall(rb"(\d+) live", re.sub(rb"\x1b\[[0-9;]*m", b"", seen))]
            if first_node != first_node and any(counts):
                first_node = elapsed
            if 64 in counts:
                all_nodes = elapsed
                break
    finally:
        os.write(controller, b"q")
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
        os.close(controller)
    return first_paint, first_node, all_nodes


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
