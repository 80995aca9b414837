"""Checkpoints: whole or absent, kept by count, enough to go on bit by bit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_NAME = re.compile(r"step-(\d{8})")
_FILE = "state.pt"


def save(folder: Path, step: int, state: Mapping[str, Any], keep: int) -> Path:
    """Write ``state`` aside, rename, then remove all but the ``keep`` newest."""
    final = folder / "checkpoints" / f"step-{step:08d}"
    aside = final.with_name(f".{final.name}.{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    with open(aside / _FILE, "wb") as out:
        torch.save(dict(state), out)
        out.flush()
        os.fsync(out.fileno())
    shutil.rmtree(final, ignore_errors=True)
    aside.rename(final)
    for _, old in every(folder)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def every(folder: Path) -> list[tuple[int, Path]]:
    """Whole checkpoints, newest first."""
    place = folder / "checkpoints"
    found = (
        [(int(match[1]), entry) for entry in place.iterdir() if (match := _NAME.fullmatch(entry.name))]
        if place.is_dir()
        else []
    )
    return sorted(((step, entry) for step, entry in found if (entry / _FILE).is_file()), reverse=True)


def newest(folder: Path) -> Path | None:
    """The newest one of the run, else the one that $REMOTERUN_CHECKPOINT names."""
    found = every(folder)
    if found:
        return found[0][1]
    named = os.environ.get("REMOTERUN_CHECKPOINT")
    return Path(named) if named and (Path(named) / _FILE).is_file() else None


def load(checkpoint: Path) -> dict[str, Any]:
    """A checkpoint's state, on the CPU."""
    state: dict[str, Any] = torch.load(checkpoint / _FILE, map_location="cpu", weights_only=True)
    return state
