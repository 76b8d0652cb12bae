"""`python -m benchmarks.corpus DIRECTORY` tries the readers of tools on a directory of their real outputs.

DIRECTORY has a folder for each kind of output. For each kind it prints how many files gave values, how many values and
unknown fields those were, and how many gave a named error; then each of those files with its error. Every file also
goes through every other reader: whatever a reader is given, it raises nothing but ToolError.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from stethoscope.model.metric import Missing
from stethoscope.model.report import REASONS, ToolError
from stethoscope.text import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.report import Report

READERS: dict[str, tuple[str, ...]] = {
    "nvidia-smi/xml": ("nvidia_smi_q",),
    "nvidia-smi/q-text": ("nvidia_smi_q",),
    "nvidia-smi/query-csv": ("nvidia_smi_csv", "nvidia_smi_q"),
    "nvidia-smi/query-compute-apps": ("nvidia_smi_csv",),
    "nvidia-smi/query-retired-pages": ("nvidia_smi_csv",),
    "nvidia-smi/nvlink": ("nvidia_smi_nvlink",),
    "nvidia-smi/topo": ("nvidia_smi_topo",),
    "nvidia-smi/table": ("nvidia_smi_table",),
    "nvidia-smi/list": ("nvidia_smi_lines",),
    "nvidia-smi/version": ("nvidia_smi_lines",),
    "nvidia-smi/pmon": ("nvidia_smi_lines",),
    "nvidia-smi/dmon": ("nvidia_smi_lines",),
    "nvidia-smi/errors": ("nvidia_smi_q", "nvidia_smi_csv", "nvidia_smi_table"),
    "dcgmi": ("dcgmi",),
    "lspci": ("lspci",),
    "ibstat": ("ibstat",),
    "ibstatus": ("ibstat",),
    "ibv_devinfo": ("ibstat",),
    "perfquery": ("perfquery",),
    "ibqueryerrors": ("ibqueryerrors",),
    "mlxlink": ("mlxlink",),
    "ethtool": ("ethtool",),
    "smartctl": ("smartctl",),
    "nvme-cli": ("nvme",),
    "ipmi": ("ipmitool",),
}
"""The readers of each kind; where a folder mixes outputs, the first one that finds values."""
NO_DEVICE = {
    "ethtool": "ethtool", "ibstat": "ibstat", "ibstatus": "ibstat", "ibv": "ibstat", "ipmitool": "ipmitool",
    "mstlink": "mlxlink", "nvme": "nvme", "smartctl": "smartctl",
}  # fmt: skip
"""The reader of each command that was run on a machine without the hardware."""


def main() -> int:
    """Print the table; return 1 when a reader raised something else than a named error."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.corpus DIRECTORY")
    root = Path(sys.argv[1])
    defects: list[str] = []
    failures: list[str] = []
    everything: list[str] = []
    print(f"{'kind':<32}{'files':>6}{'read':>6}{'values':>9}{'missing':>9}{'unknown':>9}{'errors':>8}")
    for kind, readers in READERS.items():
        counts: Counter[str] = Counter()
        unknown: set[str] = set()
        for path in sorted((root / kind).glob("*")):
            if not path.is_file():
                continue
            text = _text(path)
            everything.append(text)
            counts["files"] += 1
            report, error = _read(readers, text, 0, "", path, defects)
            if report is None:
                counts["errors"] += 1
                failures.append(f"{kind}/{path.name}: {error}")
                continue
            counts["read"] += 1
            counts["values"] += len(report.items)
            counts["missing"] += sum(isinstance(item.value, Missing) for item in report.items)
            unknown.update(report.unknown)
        if counts["files"]:
            print(
                f"{kind:<32}{counts['files']:>6}{counts['read']:>6}{counts['values']:>9,}{counts['missing']:>9,}"
                f"{len(unknown):>9}{counts['errors']:>8}"
            )
    for name, error in _without_devices(root / "no-device", defects):
        failures.append(f"no-device/{name}: {error}")
    _cross(everything, defects)
    print("\nwithout values:", *failures, sep="\n  ")
    print("\nraised something else:", *(defects or ["nothing"]), sep="\n  ")
    return 1 if defects else 0


def _text(path: Path) -> str:
    return clean_text(path.read_bytes())


def _read(
    readers: tuple[str, ...], text: str, status: int, err: str, where: object, defects: list[str]
) -> tuple[Report | None, str]:
    said = ""
    for name in readers:
        try:
            return import_module(f"stethoscope.parse.tools.{name}").read(text, exit=status, err=err), ""
        except ToolError as error:
            if error.reason not in REASONS:
                defects.append(f"{where}: {name} gave the reason {error.reason}")
            said = said or f"{error.reason}: {error}"
        except Exception as error:  # noqa: BLE001  what this script is for
            defects.append(f"{where}: {name}: {type(error).__name__}: {error}")
    return None, said


def _without_devices(folder: Path, defects: list[str]) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.json")):
        reader = next((reader for start, reader in NO_DEVICE.items() if path.stem.startswith(start)), None)
        if reader is None:
            continue
        run = json.loads(path.read_text())
        report, error = _read(
            (reader,), clean_text(run["stdout"]), run["rc"], clean_text(run["stderr"]), path.name, defects
        )
        yield path.name, error if report is None else f"values where there is no device: {report.items[:3]}"


def _cross(texts: list[str], defects: list[str]) -> None:
    names = sorted({name for readers in READERS.values() for name in readers})
    for position, text in enumerate(texts):
        for name in names:
            _read((name,), text, 0, "", f"text {position}", defects)


if __name__ == "__main__":
    sys.exit(main())
