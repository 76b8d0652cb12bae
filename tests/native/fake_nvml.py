"""The fake NVIDIA driver library of the tests, and what makes it answer as wanted."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests import needs

LIBRARY = "libnvidia-ml.so.1"


def build(directory: Path, *, old: bool = False) -> None:
    """Compile the library into `directory`; an old one lacks functions that came later."""
    source = Path(__file__).parent / "nvml.c"
    compiler = needs.tool("cc", "gcc", "clang")
    subprocess.run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            *(["-DOLD"] if old else []),
            f"-Wl,-soname,{LIBRARY}",
            "-o",
            str(directory / LIBRARY),
            str(source),
        ],
        check=True,
    )


@dataclass
class FakeNvml:
    """A library directory, and the control file that its functions read again at each call."""

    directory: Path
    control: Path
    settings: dict[str, int] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that make a program find this library."""
        return {"LD_LIBRARY_PATH": str(self.directory), "FAKE_NVML_CONTROL": str(self.control)}

    def set(self, **settings: int) -> None:
        """Change settings; keys are those of nvml.c with `__` for the dot: `value__power__3=412000`."""
        self.settings.update({key.replace("__", "."): value for key, value in settings.items()})
        self._write()

    def unset(self, *keys: str) -> None:
        """Forget settings, as `set` names them."""
        for key in keys:
            self.settings.pop(key.replace("__", "."), None)
        self._write()

    def _write(self) -> None:
        # In one step: a hanging call reads it all the time.
        new = self.control.with_suffix(".new")
        new.write_text("".join(f"{key} {value}\n" for key, value in self.settings.items()))
        os.replace(new, self.control)
