"""The POSIX sh files that run on hosts, as text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent.parent / "sh"


@cache
def read(name: str) -> str:
    """The text of ``remoterun/sh/<name>.sh``."""
    return (_FOLDER / f"{name}.sh").read_text(encoding="utf-8")
