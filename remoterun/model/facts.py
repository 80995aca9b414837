"""What one look at a host tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from remoterun.model.gpu import GpuReport
from remoterun.model.host import EMPTY


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """An interpreter on the host. ``torch`` is its version, None when it is not installed there."""

    path: str
    version: str | None = None
    torch: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A host at one moment. Sizes in KiB, ``time`` in seconds since 1970 by the host's clock.

    ``workdir`` is absolute; ``path`` the PATH commands and jobs get; ``login_shell`` the shell that gives a
    job its environment, None when it did not answer in time; ``kills_at_logout`` whether systemd there ends all processes
    of a login when it logs out; ``tools`` name → path and version of those
    found; ``trees`` the newest snapshots of this project that lie there.
    """

    home: str
    workdir: str
    user: str
    hostname: str
    host_id: str
    boot: str
    path: str
    kernel: str | None = None
    arch: str | None = None
    cpus: int | None = None
    memory_total_kib: int | None = None
    memory_available_kib: int | None = None
    load: float | None = None
    disk_available_kib: int | None = None
    disk_total_kib: int | None = None
    login_shell: str | None = None
    kills_at_logout: bool = False
    tools: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    python: PythonFacts | None = None
    python_asked: str | None = None
    trees: tuple[str, ...] = ()
    gpus: GpuReport = GpuReport()
