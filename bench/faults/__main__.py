"""``python -m bench.faults [--seed N] [--count N] [--hosts N]`` (as root: it makes its own hosts).

Prints the seed, the faults by kind, and every broken invariant with the round's number; exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter

from bench.faults.rounds import Field
from tests.fleet.yard import Yard, sweep


def main() -> int:
    """Rounds on several hosts side by side until so many faults were made."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--count", type=int, default=200, help="faults to make (default 200)")
    parser.add_argument("--hosts", type=int, default=6, help="hosts side by side (default 6)")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    sweep()
    yard = Yard()
    with contextlib.closing(yard), Field(yard, options.seed, options.hosts, os.environ.__setitem__) as field:
        # A run that is told to end reports what it did.
        signal.signal(signal.SIGTERM, lambda number, frame: field.stop())
        faults, broken, rounds = field.run(options.count)
    report(faults, broken, rounds, time.monotonic() - began)
    return 1 if broken else 0


def report(faults: Counter[str], broken: list[str], rounds: int, seconds: float) -> None:
    """The table of what was done, and what did not hold."""
    for kind, count in sorted(faults.items()):
        print(f"  {kind:<24} {count:6}")
    print(f"{sum(faults.values())} faults in {rounds} jobs, {seconds:.0f} s; {len(broken)} broken invariants")
    for line in broken:
        print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
