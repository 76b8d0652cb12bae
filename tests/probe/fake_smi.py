"""A fake nvidia-smi of the tests: a program of that name that prints what a control file says, as the real one would.

Formats are those of drivers 460 to 610: `--help-query-gpu` lists the field names in quotes, with one unknown name the
whole question is refused with exit status 2, cells without a value are words in brackets.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FIELDS = [
    "timestamp",
    "index",
    "name",
    "uuid",
    "pci.bus_id",
    "clocks.sm",
    "utilization.gpu",
    "utilization.memory",
    "power.draw",
    "enforced.power.limit",
    "temperature.gpu",
    "temperature.gpu.tlimit",
    "temperature.memory",
    "clocks_event_reasons.active",
    "clocks_throttle_reasons.active",
    "memory.used",
    "memory.total",
]

PROGRAM = r"""#!%s -IS
import json, os, signal, sys, time
def control():
    with open(%r) as file:
        return json.load(file)
now = control()
if now["stubborn"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
else:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with open(%r, "a") as file:
    file.write("%%d %%s\n" %% (os.getpid(), " ".join(sys.argv[1:])))
if sys.argv[1] == "--help-query-gpu":
    print("List of valid properties to query for the switch \"--query-gpu=\":\n")
    for name in now["fields"]:
        print("\"%%s\"\nWords about it.\n" %% name)
    sys.exit(0)
names = sys.argv[1].partition("=")[2].split(",")
pause = int(sys.argv[sys.argv.index("-lms") + 1]) / 1000 if "-lms" in sys.argv else None
if sys.argv[1].startswith("--query-compute-apps="):
    for row in now["apps"]:
        print(row)
    sys.exit(0)
for name in names:
    if name not in now["fields"]:
        print("Field \"%%s\" is not a valid field to query.\n" %% name)
        sys.exit(2)
while True:
    now = control()
    while now["hang"] or pause is None and now["hang_once"]:
        time.sleep(0.05)
        now = control()
    for line in now["say"]:
        print(line)
    if now["exit"] is None:
        for gpu in now["gpus"]:
            print(", ".join(gpu.get(name, "[N/A]") for name in names))
    sys.stdout.flush()
    if pause is None or now["exit"] is not None:
        sys.exit(now["exit"] or 0)
    time.sleep(pause)
"""


def h100(index: int, **cells: str) -> dict[str, str]:
    """Return the cells of a busy H100, as a driver of the 590 branch prints them without units."""
    return {
        "index": str(index),
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": f"GPU-00000000-0000-0000-0000-00000000000{index}",
        "pci.bus_id": f"00000000:{0x1A + index:02X}:00.0",
        "clocks.sm": "1980",
        "utilization.gpu": "100",
        "utilization.memory": "11",
        "power.draw": "631.95",
        "enforced.power.limit": "700.00",
        "temperature.gpu": "59",
        "temperature.gpu.tlimit": "26",
        "temperature.memory": "54",
        "clocks_event_reasons.active": "0x0000000000000004",
        "clocks_throttle_reasons.active": "0x0000000000000004",
        "memory.used": "19818",
        "memory.total": "81559",
        **{name.replace("__", "."): cell for name, cell in cells.items()},
    }


def none_is_left(base: Path) -> bool:
    """Tell whether none of those below `base` runs: one that is still on its way out keeps a probe from starting
    another for half a minute."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            said = entry.read_text("utf-8", "replace")
            if f"{base}/" in said and "/smi/nvidia-smi" in said:
                return False
    return True


@dataclass
class FakeSmi:
    """A directory with the program in it, and what it shall print."""

    directory: Path
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        program = self.directory / "nvidia-smi"
        program.write_text(PROGRAM % (sys.executable, str(self._control), str(self.directory / "calls")))
        program.chmod(0o755)
        self.set(fields=FIELDS, gpus=[h100(index) for index in range(8)], say=[], exit=None, hang=False, stubborn=False)
        self.set(apps=[], hang_once=False)

    @property
    def _control(self) -> Path:
        return self.directory / "control.json"

    @property
    def calls(self) -> list[str]:
        """Return the process id and arguments of every start."""
        file = self.directory / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def set(self, **state: Any) -> None:
        """Change what it prints from now on."""
        self.state.update(state)
        new = self._control.with_suffix(".new")
        new.write_text(json.dumps(self.state))
        os.replace(new, self._control)
