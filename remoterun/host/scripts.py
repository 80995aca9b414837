"""The POSIX sh files that run on hosts, as text."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def read(name: str) -> str:
    """The text of ``remoterun/sh/<name>.sh``."""
    return files("remoterun").joinpath("sh").joinpath(f"{name}.sh").read_text(encoding="utf-8")
