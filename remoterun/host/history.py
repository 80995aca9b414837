"""How a job has gone so far: what its GPUs did, and its loss. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from remoterun.host.jobs import Signs


@dataclass(frozen=True, slots=True)
class History:
    """``utilization``: per cent over time by GPU UUID, None where it was not known (the host's watcher looks every
    20 s); ``losses``: of the newest metrics file in ``out/``, in its order."""

    utilization: Mapping[str, tuple[float | None, ...]]
    losses: tuple[float, ...] = ()


def parse_history(signs: Signs) -> History:
    """The answer of ``rr_history``. Lines that are not whole are left out."""
    found: dict[str, list[float | None]] = {}
    for line in signs.files.get("gpu.csv", b"").decode("utf-8", "replace").splitlines():
        # timestamp, index, uuid, utilisation, … (sh/watch.sh)
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) >= 7:
            used = cells[3]
            found.setdefault(cells[2], []).append(float(used) if used.isascii() and used.isdigit() else None)
    losses = []
    for text in signs.files.get("metrics", b"").splitlines():
        try:
            value = json.loads(text).get("loss")
        except (ValueError, AttributeError):
            continue
        if isinstance(value, (int, float)) and math.isfinite(value):
            losses.append(float(value))
    return History({uuid: tuple(values) for uuid, values in found.items()}, tuple(losses))
