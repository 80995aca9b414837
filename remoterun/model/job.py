"""A job: what was asked, what was planned of it, what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import PurePosixPath

from remoterun.model.guards import Guards
from remoterun.model.host import EMPTY


class JobState(str, Enum):
    """Contract §5. ``unknown`` is what cannot be reached; it is never written on a host."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.LOST)


@dataclass(frozen=True, slots=True)
class Command:
    """What the user wants to run: ``kind`` is script (a path in the project), module or plain."""

    kind: str
    target: str
    arguments: tuple[str, ...] = ()

    @property
    def torchrun(self) -> bool:
        """Whether it runs under torchrun: Python scripts and modules do."""
        return self.kind == "module" or (self.kind == "script" and self.target.endswith(".py"))


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One launch as it was asked for, before any host was looked at.

    ``notify`` holds targets as typed (they may be secret); ``checkpoint`` a shell pattern of the job's checkpoints,
    relative to its folder; ``tty`` whether it gets a terminal of its own;
    ``wait`` whether it may wait on its host until GPUs are free; ``data`` the words of --data.
    """

    name: str
    command: Command
    gpus: str | None = None
    nproc_per_node: int | None = None
    runtime: str | None = None
    image: str | None = None
    python: str | None = None
    setup: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    max_restarts: int = 0
    guards: Guards = field(default_factory=Guards)
    notify: tuple[str, ...] = ()
    checkpoint: str | None = None
    tty: bool = False
    wait: bool = False
    detach: bool = False
    data: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """Where the code comes from: ``key`` is the same for one project on every laptop.

    ``root`` is the local folder, ``folder`` the launch's folder in it (relative, "" for the root itself).
    """

    key: str
    name: str
    root: str
    folder: str = ""
    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tree a job gets: ``tree`` its content's id; ``base`` an older tree on the host it is made from."""

    tree: str
    base: str | None = None
    files: int = 0
    size: int = 0
    sent_files: int = 0
    sent_bytes: int = 0


@dataclass(frozen=True, slots=True)
class JobPaths:
    """Every file name of a job, on its host, under ``workdir`` (absolute)."""

    workdir: str
    id: str

    @property
    def folder(self) -> str:
        """The job's own folder."""
        return str(PurePosixPath(self.workdir, "jobs", self.id))

    def file(self, name: str) -> str:
        """A file in the job's folder."""
        return str(PurePosixPath(self.folder, name))


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What is known of one job at one moment. Times are UTC; unknown values are None, never 0 or "".

    ``host`` is the name in the inventory under which it was found. ``record`` is its job.json.
    ``log_idle_s`` is how long its log has been silent, ``stalled_s`` how long its GPUs have been idle too; ``age_s`` is how old this knowledge is when the
    state is unknown.
    """

    id: str
    name: str
    host: str
    state: JobState
    nodes: int = 1
    reason: str | None = None
    exit_code: int | None = None
    gpus: tuple[str, ...] = ()
    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    attempt: int = 1
    runtime: str | None = None
    last_line: str | None = None
    log_idle_s: float | None = None
    stalled_s: float | None = None
    log_size: int | None = None
    last_known_state: str | None = None
    age_s: float | None = None
    stop: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    record: Mapping[str, object] = field(default_factory=dict)

    @property
    def ranks(self) -> int | None:
        """How many ranks it has (a job that is not under torchrun: one), None where its record does not say."""
        spec, count = self.record.get("spec"), self.record.get("nproc_per_node")
        command = spec.get("command") if isinstance(spec, Mapping) else None
        if not isinstance(command, Mapping) or not isinstance(count, int):
            return None
        run = Command(str(command.get("kind")), str(command.get("target")))
        return count * self.nodes if run.torchrun else 1
