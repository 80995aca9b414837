"""Readings of hosts → the Prometheus text format, version 0.0.4 (prometheus.io, "Exposition formats").

Base units, as its conventions ask for: bytes, ratios, seconds. What is not known has no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from remoterun.fleet.watching import Reading
from remoterun.model.gpu import Gpu, GpuState, HostLoad

_MIB, _KIB = 1 << 20, 1 << 10


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


_GPU: tuple[tuple[str, str, Callable[[Gpu], float | None]], ...] = (
    ("utilization_ratio", "How busy the GPU is, 0 to 1.", lambda gpu: _scaled(gpu.utilization_pct, 0.01)),
    ("memory_used_bytes", "Its memory in use.", lambda gpu: _scaled(gpu.memory_used_mib, _MIB)),
    ("memory_total_bytes", "Its memory.", lambda gpu: _scaled(gpu.memory_total_mib, _MIB)),
    ("temperature_celsius", "Its temperature.", lambda gpu: gpu.temperature_c),
    ("power_watts", "What it draws.", lambda gpu: gpu.power_w),
    ("power_limit_watts", "What it may draw.", lambda gpu: gpu.power_limit_w),
    ("free", "1 where a job would be given it unasked.", lambda gpu: float(gpu.pickable)),
    ("processes", "Processes seen on it.", lambda gpu: len(gpu.processes)),
)
_HOST: tuple[tuple[str, str, Callable[[HostLoad], float | None]], ...] = (
    ("load1", "Load over one minute.", lambda load: load.load),
    ("cpus", "Its processors.", lambda load: load.cpus),
    ("memory_total_bytes", "Its memory.", lambda load: _scaled(load.memory_total_kib, _KIB)),
    ("memory_available_bytes", "Memory that can be had.", lambda load: _scaled(load.memory_available_kib, _KIB)),
    ("disk_available_bytes", "Room on the workdir's disk.", lambda load: _scaled(load.disk_available_kib, _KIB)),
)


def exposition(readings: Sequence[Reading], now: float) -> str:
    """All hosts' samples, each metric with its help and type once. ``now`` is of the monotonic clock."""
    lines: list[str] = []
    up = [({"host": each.host}, float(each.round is not None and each.error is None)) for each in readings]
    lines += _metric("remoterun_host_up", "1 where the host answers.", up)
    ages = [({"host": each.host}, each.age_s(now)) for each in readings]
    lines += _metric("remoterun_host_age_seconds", "How old its values are.", ages)
    known = [(each.host, each.round) for each in readings if each.round is not None]
    for name, text, read in _HOST:
        lines += _metric(f"remoterun_host_{name}", text, [({"host": host}, read(it.load)) for host, it in known])
    gpus = [(host, gpu) for host, found in known for gpu in found.gpus.gpus]
    for name, text, of in _GPU:
        lines += _metric(f"remoterun_gpu_{name}", text, [(_labels(host, gpu), of(gpu)) for host, gpu in gpus])
    states = [
        ({**_labels(host, gpu), "state": state.value}, float(gpu.state is state))
        for host, gpu in gpus
        for state in GpuState
    ]
    lines += _metric("remoterun_gpu_state", "1 for the state that it is in.", states)
    jobs = [
        ({**_labels(host, gpu), "job": gpu.lease.job, "user": gpu.lease.user or ""}, 1.0)
        for host, gpu in gpus
        if gpu.lease
    ]
    lines += _metric("remoterun_gpu_lease", "1 for the job that holds it.", jobs)
    return "".join(f"{line}\n" for line in lines)


def _labels(host: str, gpu: Gpu) -> dict[str, str]:
    index = "" if gpu.index is None else str(gpu.index)
    return {"host": host, "gpu": index, "uuid": gpu.uuid or "", "name": gpu.name or ""}


def _metric(name: str, text: str, samples: Iterable[tuple[Mapping[str, str], float | None]]) -> list[str]:
    shown = [(labels, value) for labels, value in samples if value is not None]
    if not shown:
        return []
    head = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    return head + [f"{name}{{{_pairs(labels)}}} {value:.15g}" for labels, value in shown]


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
