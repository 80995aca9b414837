"""What a run tells: one JSON line for each group of steps, in a file and on the screen."""

from __future__ import annotations

import json
import time
from pathlib import Path


class Metrics:
    """Appends to ``metrics.jsonl`` on the first rank; other ranks get one that says nothing."""

    def __init__(self, folder: Path, active: bool) -> None:
        self._file = folder / "metrics.jsonl" if active else None
        self._since, self._tokens = time.perf_counter(), 0

    def count(self, tokens: int) -> None:
        """Tokens seen by all ranks together."""
        self._tokens += tokens

    def write(self, **values: float | int | str | None) -> None:
        """One line; tokens per second since the last one."""
        now = time.perf_counter()
        rate = self._tokens / (now - self._since)
        self._since, self._tokens = now, 0
        if self._file is None:
            return
        line = {**values, "tokens_per_s": round(rate, 1)} if rate else values
        with open(self._file, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        print(" ".join(f"{name} {_short(value)}" for name, value in line.items()), flush=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
