"""How the diagnosis does on scenarios that nobody wrote: `python -m benchmarks.drills [--kinds A,B] [--n 3]`.

Makes `n` random scenarios of each kind (see benchmarks/drills_made.py), drills them, and prints what was missed and the
score of each kind. `--keep DIR` leaves the scenarios there, to be drilled again: `stethoscope drill DIR/FILE`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from benchmarks.drills_made import FORMS, made
from stethoscope.cli.drill import print_rows
from stethoscope.errors import did_you_mean
from stethoscope.session.drill import drill_all
from stethoscope.session.drill_score import NAMES, score
from stethoscope.sim.kinds.registry import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.session.drill_score import Row


def written(
    directory: Path, kinds: Sequence[str], forms: Sequence[str], count: int, seed: int, nodes: int
) -> list[str]:
    """Write scenarios into a directory and return their files: of each kind so many, in one form after the other."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for kind in kinds:
        for number in range(count):
            document = made(kind, forms[number % len(forms)], seed + number, nodes)
            path = directory / f"{document['id']}.yaml"
            path.write_text(yaml.safe_dump(document, sort_keys=False, width=150), encoding="utf-8")
            files.append(str(path))
    return files


def print_kinds(rows: Sequence[Row]) -> None:
    """Print the mean points of each kind, the worst first."""
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kind = row.id.rsplit("-", 2)[0].replace("-", "_")
        by_kind[kind].append(row)
    lines = []
    for kind, its in by_kind.items():
        total = score(its)
        cells = ["  - " if total[name] is None else f"{total[name]:4.0%}" for name in NAMES]
        known = [total[name] for name in NAMES if total[name] is not None]
        mean = sum(known) / len(known) if known else 0.0
        lines.append((mean, f"{kind:32} {mean:4.0%}  {'  '.join(cells)}  {total['false_alarms']:3d}"))
    print(f"\n{'kind':32} mean  scope  layer  cause  culpr  sever  time  false")
    for _, line in sorted(lines):
        print(line)


def main() -> int:
    """Make, drill, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drills", description=__doc__)
    parser.add_argument("--kinds", help="kinds with commas between, or parts of their names; without it all")
    parser.add_argument("--forms", default=",".join(FORMS), help=f"forms of them [{','.join(FORMS)}]")
    parser.add_argument("--n", type=int, default=3, help="scenarios of each kind [3]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=1, help="processes [1]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the scenarios there")
    options = parser.parse_args()
    kinds = list(KINDS)
    if options.kinds:
        wanted = options.kinds.split(",")
        for name in wanted:
            if not any(name in kind for kind in KINDS):
                parser.error(f'no kind is called "{name}"{did_you_mean(name, KINDS)}')
        kinds = [kind for kind in KINDS if kind in wanted or any(name not in KINDS and name in kind for name in wanted)]
    forms = options.forms.split(",")
    if unknown := set(forms) - set(FORMS):
        parser.error(f"no form {', '.join(sorted(unknown))}; there are {', '.join(FORMS)}")
    with tempfile.TemporaryDirectory() as scratch:
        files = written(options.keep or Path(scratch), kinds, forms, options.n, options.seed, options.nodes)
        rows = []
        for number, row in enumerate(drill_all(files, options.jobs), 1):
            rows.append(row)
            print(f"{number}/{len(files)} {row.id} {row.seconds:.1f} s", file=sys.stderr, flush=True)
    print_rows(rows)
    print_kinds(rows)
    return int(any(row.error for row in rows))


if __name__ == "__main__":
    sys.exit(main())
