"""`python -m benchmarks [name ...]` runs the measurements of docs/performance.md, or those named."""

from __future__ import annotations

import importlib
import sys

NAMES = ("startup", "fold", "history", "rules", "links", "recordings", "probe", "logs", "incidents", "console")


def main() -> int:
    """Run each benchmark's `main` and return 1 when one missed a budget that it checks."""
    wanted = sys.argv[1:] or NAMES
    if unknown := set(wanted) - set(NAMES):
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    sys.argv[1:] = []
    worst = 0
    for name in wanted:
        print(f"== {name}", flush=True)
        worst |= importlib.import_module(f"benchmarks.{name}").main() or 0
    return worst


if __name__ == "__main__":
    sys.exit(main())
