"""`python -m benchmarks.corpus DIRECTORY` tries the readers of tools and the probe on a directory of real outputs.

DIRECTORY has a folder for each kind of output. For each kind it prints how many files gave values, how many values and
unknown fields those were, and how many gave a named error; then each of those files with its error. Every file also
goes through every other reader: whatever a reader is given, it raises nothing but ToolError.

Trees of /sys and /proc (`*.tree.json`: path -> content, or {"symlink": target}) are put below a folder of their own;
the probe's own code reads them there, as its fast frames and its rare groups do, and the console's readers read that.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stethoscope import paths
from stethoscope.collect import watchlist
from stethoscope.model import wire
from stethoscope.model.metric import REASON_WORDS, Missing
from stethoscope.model.report import REASONS, ToolError
from stethoscope.parse.parts import read_part
from stethoscope.parse.stream import parse
from stethoscope.text import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.facts import Facts
    from stethoscope.model.report import Report
    from stethoscope.model.wire import Cell

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
    _trees(root, defects)
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


def _trees(root: Path, defects: list[str]) -> None:
    """Print a line for each tree: devices that were found, values, values that are missing, and why."""
    print(f"\n{'tree':<60}{'groups':>8}{'devices':>9}{'values':>8}{'missing':>9}{'failed':>8}")
    for path in sorted(root.glob("*/*.tree.json")):
        counts: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                _unpack(json.loads(path.read_text()), Path(folder))
                for facts in _read_tree(folder):
                    counts["groups"] += bool(_cells(facts))
                    counts["devices"] += sum(len(devices.names) for devices in facts.devices.values())
                    for cell in _cells(facts):
                        counts["values" if not isinstance(cell, str) else "missing"] += 1
                        counts["failed"] += cell in _FAILED
                fast = _fast_ports(folder)
                counts["devices"] += len(fast)
                for cell in (cell for port in fast for cell in port):
                    counts["missing" if cell is None or cell in _REASONS else "values"] += 1
            except Exception as error:  # noqa: BLE001  what this script is for
                defects.append(f"{path.name}: {type(error).__name__}: {error}")
        numbers = "".join(f"{counts[name]:>{width}}" for name, width in _COLUMNS)
        print(f"{path.parent.name + '/' + path.name:<60}{numbers}")


def _fast_ports(root: str) -> list[list[Cell]]:
    """Return the values of each port under /sys/class/infiniband, as the fast frames have them."""
    with _probe_on(root):
        identities, columns = import_module("fabric").Ports().read()
    return [[column[place] for column in columns.values()] for place in range(len(identities))]


_DRIVERS = {"0x10de": "nvidia", "0x15b3": "mlx5_core"}
_OF_THE_KERNEL = ("ethtool",)
"""What asks the kernel of this machine, not a file."""
_COLUMNS = (("groups", 8), ("devices", 9), ("values", 8), ("missing", 9), ("failed", 8))
_REASONS = frozenset(REASON_WORDS.values())
_FAILED = frozenset(word for reason, word in REASON_WORDS.items() if reason.name in ("ERROR", "HUNG", "PERMISSION"))


def _unpack(tree: dict[str, str | dict[str, str]], root: Path) -> None:
    """Write a tree below `root`; where a link's target is not part of the tree it leads nowhere, as it does there."""
    for name, content in tree.items():
        place = root / name.lstrip("/")
        with contextlib.suppress(OSError):  # A file where a folder is: the tree was shortened.
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                place.write_text(content, errors="replace")
            else:
                target = content.get("symlink", "")
                place.symlink_to(root / target.lstrip("/") if target.startswith("/") else target)

    _bind(root)


def _bind(root: Path) -> None:
    """Give the devices of a tree that has no drivers the links that their drivers have to them."""
    devices, drivers = root / "sys/bus/pci/devices", root / "sys/bus/pci/drivers"
    for device in sorted(devices.glob("*")) if not drivers.exists() else ():
        vendor, kind = (_word(device / name) for name in ("vendor", "class"))
        driver = "nvme" if kind.startswith("0x0108") else _DRIVERS.get(vendor, "pcieport")
        link = drivers / driver / device.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(device)


def _word(file: Path) -> str:
    return file.read_text().strip() if file.is_file() else ""


@contextlib.contextmanager
def _probe_on(root: str) -> Iterator[None]:
    """Let the probe's own modules read below `root`."""
    folder = str(paths.bundled("probes"))
    sys.path.insert(0, folder)
    files: Any = import_module("files")
    before, files.ROOT = files.ROOT, root
    try:
        yield
    finally:
        files.ROOT = before
        sys.path.remove(folder)


def _read_tree(root: str) -> Iterator[Facts]:
    """Yield what each group of the manifest says of a tree; its commands are not run."""
    with _probe_on(root):
        keep = import_module("keep")
        keep.known.clear()
        for group in watchlist.watch_groups(sudo=False):
            part = wire.Part(seq=1, mono=1.0, wall=1.0, name=group["name"], s=group["s"])
            found: dict[str, dict[str, str]] = {"files": part.files, "failed": part.failed}
            keep.heads.clear()
            for braced, kept in group.get("read", ()):
                for pattern in wire.expand(braced) if kept not in _OF_THE_KERNEL else ():
                    keep.read(pattern, kept, found, lambda *_: None)
            message = parse(wire.encode(part))
            if isinstance(message, wire.Part):
                yield read_part(message)


def _cells(facts: Facts) -> list[Cell]:
    return [
        *facts.node.values(),
        *(cell for devices in facts.devices.values() for column in devices.values.values() for cell in column),
    ]


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
