"""What recording and replaying cost: `python -m benchmarks.recordings [nodes] [tick_s] [seconds]`.

Prints the CPU of a recorder, both its threads together, as a share of a core at one line per node and tick and the
parts of what is read rarely at their pace, the bytes of a line on disk and how much of that are parts, the time to open
and seek, and the CPU that a replay takes. The floor beside them is zstandard on the same lines in blocks of 256 KiB.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import zstandard

from benchmarks.fold import START_WALL, Probe, Spec
from benchmarks.parts import CHANGING, STANDING, WHOLE_S, PartProbe, every_s
from stethoscope.clock import FixedClock
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.session.open import session_maker
from stethoscope.session.player import LEAD_S, Player
from stethoscope.session.recorder import Recorder
from stethoscope.session.replay import MOST_S, RECORDS
from stethoscope.specs.metric import load_catalogue
from stethoscope.store.outlets import FileOutlet
from stethoscope.store.recordings import Recording
from stethoscope.store.tape import Tape

MANY = 250
"""Probes that are played; the other nodes say the same: far enough away that no block has a line twice."""


class Told:
    """A source whose lines are told by hand."""

    simulated = True

    def __init__(self, nodes: int, tick_s: float) -> None:
        """Have `nodes` nodes."""
        self.fleet = "bench"
        self.nodes = tuple(Spec(f"gpu-{number:04}", tick_s=tick_s) for number in range(nodes))

    async def run(self, sink: object) -> None:
        """Nothing comes by itself."""

    def ask_full(self, node: str | None = None) -> None:
        """Nothing is asked for."""


def lines(nodes: int, tick_s: float, seconds: float) -> list[Frame]:
    """Return what the fleet sends, in order."""
    probes = [Probe(number) for number in range(min(MANY, nodes))]
    frames = []
    ticks = int(seconds / tick_s)
    said: list[list[bytes]] = []
    for tick in range(ticks):
        mono = tick * tick_s
        full = tick % int(60 / tick_s) == 0
        said.append([probe.full(mono) if full else probe.delta(mono) for probe in probes])
    for tick in range(ticks):
        for number in range(nodes):
            mono = tick * tick_s + number / nodes * tick_s
            raw = said[tick][number % len(probes)]
            frames.append(Frame(f"gpu-{number:04}", START_WALL + mono, mono, raw))
    frames += rare(nodes, tick_s, seconds)
    frames.sort(key=lambda frame: frame.received_mono)
    return frames


def rare(nodes: int, tick_s: float, seconds: float) -> list[Frame]:
    """Return the parts that the fleet sends: all of them behind the first frames, then each at its pace, those that
    stand as "the same" but once in WHOLE_S."""
    catalogue = load_catalogue()
    probes = [PartProbe(number, catalogue) for number in range(min(MANY, nodes))]
    frames = []
    for place, group in enumerate((*CHANGING, *STANDING)):
        often_s = every_s(group, nodes)
        for turn in range(int(seconds / often_s) + 1):
            for number in range(nodes):
                # Nodes are not in step: each group of a node comes somewhere in its interval.
                at = tick_s + (number * 7 + place * 131) % nodes / nodes * (tick_s if turn == 0 else often_s)
                mono = at + max(0, turn - 1) * often_s
                if mono >= seconds:
                    continue
                whole = turn == 0 or group in CHANGING or (number + turn) % round(WHOLE_S / often_s) == 0
                raw = probes[number % len(probes)].part(group, 0, mono, s=often_s, same=not whole)
                frames.append(Frame(f"gpu-{number:04}", START_WALL + mono, mono, raw))
    return frames


def main() -> None:
    """Measure and print."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    tick_s = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
    frames = lines(nodes, tick_s, seconds)
    raw = sum(len(frame.raw) for frame in frames)
    parts = [len(frame.raw) for frame in frames if b'"t":"part"' in frame.raw[:12]]
    print(
        f"{nodes:,} nodes, a frame each every {tick_s:g} s and {len(parts):,} parts, {len(frames):,} lines of "
        f"{raw / len(frames):,.0f} bytes; {sum(parts) / raw:.0%} of the bytes are parts"
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.sthr"
        _record(frames, path, nodes, tick_s, seconds)
        _replay(path, nodes, seconds)


def _record(frames: list[Frame], path: Path, nodes: int, tick_s: float, seconds: float) -> None:
    compressor = zstandard.ZstdCompressor(level=3)
    joined = b"".join(frame.raw for frame in frames)
    started = time.process_time()
    packed = sum(len(compressor.compress(joined[at : at + 262_144])) for at in range(0, len(joined), 262_144))
    floor_s = time.process_time() - started
    clock = FixedClock(START_WALL)
    recorder = Recorder(Told(nodes, tick_s), clock, FileOutlet(path))
    recorder.open()
    for node in range(nodes):
        recorder.on_link(f"gpu-{node:04}", Link(LinkState.LIVE, START_WALL))
    loop_s = thread_s = 0.0
    due, at = 1.0, time.process_time()
    for frame in frames:
        if frame.received_mono >= due:
            now = time.process_time()
            loop_s += now - at
            recorder._drain()
            at = time.process_time()
            thread_s += at - now
            due += 1.0
        recorder.on_frame(frame)
    recorder._drain()
    assert recorder._writer is not None
    recorder._writer.close()
    size = path.stat().st_size
    share = (loop_s + thread_s) / seconds
    print(
        f"record   {share:.2%} of a core ({loop_s / seconds:.2%} on the loop), zstd alone {floor_s / seconds:.2%}\n"
        f"size     {size / len(frames):,.0f} bytes a line (zstd alone {packed / len(frames):,.0f}); "
        f"{size / seconds * 86_400 / 1024**3:.1f} GiB a day, 2 GiB hold {2 * 1024**3 / (size / seconds) / 3600:.1f} h"
    )


def _replay(path: Path, nodes: int, seconds: float) -> None:
    started = time.perf_counter()
    recording = Recording(path)
    opened = time.perf_counter()
    for number in range(1000):
        recording.find_wall(START_WALL + number / 1000 * seconds)
    sought = time.perf_counter()
    print(f"open     {(opened - started) * 1000:.1f} ms; seek {(sought - opened) * 1000:.1f} us")
    tape = Tape([recording])
    player = Player(tape, session_maker())
    started = time.process_time()
    player.play(tape.end)
    took = time.process_time() - started
    print(f"replay   {seconds / took:.1f} times as fast as it happened, rules included")
    started = time.process_time()
    player.begin(tape.lead_in(tape.end - 10, LEAD_S, RECORDS, MOST_S))
    player.play(tape.end - 10)
    took = time.process_time() - started
    print(f"back 10 s {took:.2f} s, for which {tape.end - 10 - player.began:.0f} s are played")


if __name__ == "__main__":
    main()
