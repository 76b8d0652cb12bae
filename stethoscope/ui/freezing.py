"""Freezes what the verdict on the screen rests on into a bundle, beside the event loop."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.errors import StethoscopeError
from stethoscope.paths import state_dir
from stethoscope.session.freeze import freeze, recorder_among, tape_of
from stethoscope.store.bundle import SUFFIX
from stethoscope.ui.defect import defect

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.verdict import Scene
    from stethoscope.session.freeze import Written
    from stethoscope.store.tape import Tape
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.guide import Guide

_TOLD_S = 15.0
_RUNNING: set[asyncio.Task[None]] = set()
"""A task that nobody holds may be taken away before it is done."""


def freeze_verdict(console: StethoscopeApp, guide: Guide, card: str) -> None:
    """Write the bundle of the verdict that is shown, and say where it is; `card` is the verdict as Markdown."""
    scene, asked, session = guide.scene, guide.asked, console.session
    if scene is None or asked is None or session is None:
        console.tell("there is no verdict yet")
        return
    if _RUNNING:
        console.tell("the evidence is being frozen")
        return
    tape: Tape | None = getattr(session, "tape", None)
    recorder = recorder_among(getattr(session, "taps", ()))
    path, found = bundle_path(scene, asked.found.verdict.root_cause), asked.found

    def work() -> Written:
        if recorder is None:
            return freeze(path, tape, scene.snapshot.mono, scene, found, card)
        recorded = tape_of(recorder)
        return freeze(path, recorded, recorded.at_wall(scene.now_s), scene, found, card)

    async def run() -> None:
        try:
            written = await asyncio.to_thread(work)
        except FileExistsError:
            console.tell(f"it was frozen already: {path}", seconds=_TOLD_S)
        except OSError as error:
            console.tell(f"not frozen: {path}: {error.strerror or error}", seconds=_TOLD_S)
        except StethoscopeError as error:
            console.tell(f"not frozen: {error}", seconds=_TOLD_S)
        except Exception as error:  # noqa: BLE001  a defect here must not end the console
            console.tell(str(defect("the evidence could not be frozen", error)), seconds=_TOLD_S)
        else:
            size = f"{written.size / 1e6:.1f} MB" if written.size >= 1e5 else f"{written.size / 1e3:.0f} kB"
            lacks = "" if is_recorded else ", without what nodes sent: nothing is recorded here (--no-record)"
            console.tell(f"frozen: {written.path} ({size}){lacks}", seconds=_TOLD_S)

    is_recorded = tape is not None or recorder is not None
    what = "recording, findings, logs, measurements" if is_recorded else "findings, logs, measurements"
    console.tell(f"freezing the evidence: {what}", seconds=60)
    task = asyncio.create_task(run())
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)


def bundle_path(scene: Scene, root_cause: str) -> Path:
    """Return where the bundle of a verdict is kept: by fleet, root cause and time."""
    at = datetime.fromtimestamp(scene.now_s, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{scene.snapshot.fleet[:60]}-{root_cause[:60]}").lstrip(".")
    return state_dir() / "bundles" / f"{words}-{at}{SUFFIX}"
