"""remoterun: any Linux machine that answers SSH, as a place to train.

>>> from remoterun import Fleet
>>> fleet = Fleet.load()
>>> job = fleet.launch("train.py", hosts=["a100-1"], gpus=4)
>>> for chunk in job.logs(follow=True): ...

Importing this package is cheap; the parts that need SSH come with the first use of ``Fleet``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remoterun import errors
from remoterun.errors import RemoterunError

if TYPE_CHECKING:
    from remoterun.fleet import Fleet, Job
    from remoterun.model.guards import Guards, Restart
    from remoterun.model.job import Command, JobSpec

__version__ = "0.1.0"
__all__ = ["Command", "Fleet", "Guards", "Job", "JobSpec", "RemoterunError", "Restart", "errors"]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("Fleet", "Job"):
        from remoterun import fleet

        return getattr(fleet, name)
    if name in ("Guards", "Restart"):
        from remoterun.model import guards

        return getattr(guards, name)
    if name in ("Command", "JobSpec"):
        from remoterun.model import job

        return getattr(job, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
