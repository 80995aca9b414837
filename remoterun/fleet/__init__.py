"""Use cases over hosts and jobs: the only thing that the command line and Python users call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remoterun.fleet.core import Fleet, Job

__all__ = ["Fleet", "Job"]


def __getattr__(name: str) -> object:
    # Completion wants the small modules of this package within a tenth of a second, so the large one comes when used.
    if name in __all__:
        from remoterun.fleet import core

        return getattr(core, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
