"""What one look at a host's GPUs tells. Unknown is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class GpuState(str, Enum):
    """What a GPU is good for at the moment of the look."""

    FREE = "free"
    BUSY = "busy"
    BUSY_UNSEEN = "busy-unseen"
    RESERVED = "reserved"
    MIG = "mig"
    DISPLAY = "display"
    UNSETTLED = "unsettled"
    ERROR = "error"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process seen on a GPU. ``memory_mib``, ``user`` and ``command`` are None where nobody tells."""

    pid: int
    user: str | None = None
    memory_mib: int | None = None
    command: str | None = None
    ppid: int | None = None
    session: int | None = None
    age_s: int | None = None


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG instance of a GPU: addressed by its own UUID."""

    uuid: str
    profile: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    state: GpuState = GpuState.UNKNOWN
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """A job's exclusive hold on a GPU, as the host's lock says."""

    job: str
    user: str | None = None
    since: str | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """A job that waits on the host for ``count`` GPUs of ``uuids``."""

    job: str
    user: str
    count: int
    since: str
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a host. Memory in MiB, temperature in C, power in W, utilisation in per cent."""

    index: int | None
    uuid: str | None
    bus_id: str | None = None
    name: str | None = None
    state: GpuState = GpuState.UNKNOWN
    reason: str | None = None
    pickable: bool = False
    utilization_pct: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    memory_free_mib: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    fan_pct: int | None = None
    pstate: str | None = None
    compute_mode: str | None = None
    persistence: bool | None = None
    display: bool | None = None
    mig_mode: bool | None = None
    compute_capability: str | None = None
    processes: tuple[GpuProcess, ...] = ()
    mig_devices: tuple[MigDevice, ...] = ()
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class GpuReport:
    """All of a host's GPUs at one moment.

    ``available`` says whether the tool that lists them ran at all; ``problem`` is one sentence when it did
    not work (no driver, library mismatch, no answer in time), None where the host simply has no GPU tool.
    ``warnings`` are host messages that empty no row. ``partial`` marks a cut answer. ``tier`` is the set of
    newer fields this driver accepted, to be handed to the next look. ``tickets`` are the jobs that wait, oldest first.
    """

    gpus: tuple[Gpu, ...] = ()
    available: bool = False
    problem: str | None = None
    warnings: tuple[str, ...] = ()
    driver: str | None = None
    partial: bool = False
    tier: int | None = None
    unified_memory_total_mib: int | None = None
    unified_memory_available_mib: int | None = None
    tickets: tuple[Ticket, ...] = ()


@dataclass(frozen=True, slots=True)
class HostLoad:
    """What a host is busy with beside its GPUs. Sizes in KiB; ``load`` over one minute; ``user`` is our login there."""

    user: str | None = None
    cpus: int | None = None
    load: float | None = None
    memory_total_kib: int | None = None
    memory_available_kib: int | None = None
    disk_total_kib: int | None = None
    disk_available_kib: int | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One refresh of a host: its load and its GPUs. ``took_s`` is what it cost the host, in seconds."""

    load: HostLoad
    gpus: GpuReport
    took_s: float | None = None
