"""Use cases over hosts and jobs: the only thing that the command line and Python users call."""

from remoterun.fleet.core import Fleet, Job

__all__ = ["Fleet", "Job"]
