"""A session over built snapshots, and a program that runs the console on it in a terminal of its own."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.analysis.history import History
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.mark import Mark
    from stethoscope.session.night import NightKeeper


class Remembering:
    """History and mark of a session over built snapshots."""

    mark: Mark | None = None

    @cached_property
    def history(self) -> History:
        """Return a history without samples."""
        from stethoscope.analysis.history import History

        return History(self.snapshot().catalogue)

    @cached_property
    def night(self) -> NightKeeper:
        """Return a list of the findings of now that is kept nowhere."""
        from stethoscope.session.night import NightKeeper

        night, now = NightKeeper(), self.snapshot()
        night.take(now.findings, now.wall)
        return night

    def snapshot(self) -> FleetSnapshot:
        """Return the state of this moment."""
        raise NotImplementedError

    def set_mark(self) -> Mark:
        """Set the mark."""
        from stethoscope.model.mark import Mark

        self.mark = Mark.of(self.snapshot())
        return self.mark

    def clear_mark(self) -> None:
        """Forget the mark."""
        self.mark = None


class StillSession(Remembering):
    """Gives out the snapshot that it was made with, at a clock that stands still."""

    def __init__(self, snapshot: FleetSnapshot) -> None:
        """Stand at the moment of `snapshot`."""
        from stethoscope.clock import FixedClock

        self.now = snapshot
        self.clock = FixedClock(snapshot.wall - snapshot.mono)
        self.clock.advance(snapshot.mono)

    async def run(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    def snapshot(self) -> FleetSnapshot:
        """Return the snapshot."""
        return self.now

    def take_notices(self) -> list[str]:
        """There is nothing to tell."""
        return []


class JitterSession(Remembering):
    """A fleet whose values tremble: every node sends once in two seconds."""

    def __init__(self, nodes: int) -> None:
        """Start a healthy fleet of `nodes` nodes."""
        import numpy as np

        from stethoscope.clock import SystemClock
        from tests.builders import fleet

        self.clock = SystemClock()
        self._random = np.random.default_rng(7)
        self._base = fleet(nodes)
        self._frames = [self.clock.monotonic() - 2 * index / nodes for index in range(nodes)]
        self._versions = [1] * nodes
        self._tables = dict(self._base.tables)
        self._made = self._make(range(nodes))

    async def run(self) -> None:
        """Let nodes send, each at its own moment."""
        while True:
            await asyncio.sleep(0.1)
            now = self.clock.monotonic()
            sent = [index for index, at in enumerate(self._frames) if now - at >= 2]
            for index in sent:
                self._frames[index] = now
                self._versions[index] += 1
            if sent:
                self._made = self._make(sent)

    def _make(self, sent: Iterable[int]) -> FleetSnapshot:
        import numpy as np

        from stethoscope.model.metric import Scope

        base = self._base
        nodes = tuple(
            replace(node, frame_mono=self._frames[node.index], version=self._versions[node.index])
            for node in base.nodes
        )
        for scope in Scope:
            values = self._tables[scope].values.copy()
            for index in sent:
                part = base.rows(nodes[index], scope)
                healthy = base.tables[scope].values[:, part.start : part.stop]
                noise = self._random.normal(1.0, 0.01, healthy.shape)
                values[:, part.start : part.stop] = np.where(healthy > 10, healthy * noise, healthy)
            self._tables[scope] = replace(self._tables[scope], values=values)
        return replace(
            base, nodes=nodes, tables=dict(self._tables), wall=self.clock.wall(), mono=self.clock.monotonic()
        )

    def snapshot(self) -> FleetSnapshot:
        """Return the latest state."""
        return self._made

    def take_notices(self) -> list[str]:
        """There is nothing to tell."""
        return []


class Reached:
    """What a session knows of how its nodes are reached over SSH."""

    def __init__(self, snapshot: FleetSnapshot) -> None:
        """Reach the nodes of `snapshot` through a jump host."""
        from stethoscope.collect.commands import Commands
        from stethoscope.specs.fleet import FleetNode

        self.nodes = tuple(FleetNode(node.name, user="kim", port=2222, jump="jump1") for node in snapshot.nodes)
        self.commands = Commands()
        self.ssh_config = None
        self.simulated = False


def main() -> None:
    """Run the console on `still`, `jitter` or `hostile`: consoles.py KIND [NODES] [--ascii] [--reached]."""
    sys.path.insert(0, __file__.rsplit("/tests/", 1)[0])
    from stethoscope.errors import StethoscopeError
    from stethoscope.ui.look import Look
    from stethoscope.ui.run import run_console

    kind = sys.argv[1]
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2].isdigit() else 64

    async def open_session() -> object:
        from tests.ui import scenes

        if kind == "jitter":
            return JitterSession(nodes)
        session = StillSession(getattr(scenes, kind)(nodes))
        if "--reached" in sys.argv:
            session.source = Reached(session.now)  # type: ignore[attr-defined]
        return session

    try:
        code = run_console(open_session, "demo", Look(ascii_only="--ascii" in sys.argv, title="--title" in sys.argv))
    except StethoscopeError as error:
        sys.stderr.write(f"stethoscope: {error}\n")
        code = error.exit_code
    sys.exit(code)


if __name__ == "__main__":
    main()
