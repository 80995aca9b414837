"""Values → the JSON documents of contract §2. Unknown is null, never 0 or ""."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from remoterun.errors import RemoterunError
from remoterun.fleet.watching import Reading
from remoterun.host.checks import Check
from remoterun.host.history import History
from remoterun.model.facts import Facts
from remoterun.model.gpu import Gpu
from remoterun.model.job import JobStatus

SCHEMA = 1
Document = dict[str, Any]


def write(document: Mapping[str, Any]) -> None:
    """One document, one line, on stdout."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def error_document(error: RemoterunError) -> Document:
    """A failure."""
    return {"schema": SCHEMA, "error": error_object(error)}


def error_object(error: RemoterunError) -> Document:
    """The error object by itself."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint or None,
        "host": error.host,
    }


def iso(time: datetime | None) -> str | None:
    """ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ") if time else None


def job_object(job: JobStatus) -> Document:
    """A job's fixed keys, and what stands beside them."""
    return {
        "id": job.id,
        "name": job.name,
        "host": job.host,
        "nodes": job.nodes,
        "state": job.state.value,
        "reason": job.reason,
        "exit_code": job.exit_code,
        "gpus": list(job.gpus),
        "created": iso(job.created),
        "started": iso(job.started),
        "ended": iso(job.ended),
        "attempt": job.attempt,
        "runtime": job.runtime,
        "last_line": job.last_line,
        "log_idle_s": job.log_idle_s,
        "stalled_s": job.stalled_s,
        "log_bytes": job.log_size,
        "last_known_state": job.last_known_state,
        "age_s": job.age_s,
    }


def job_document(job: JobStatus, **more: object) -> Document:
    """``status`` and ``launch -d``: the job with its plan."""
    record = {key: value for key, value in job.record.items() if key not in ("schema", "id", "name", "host", "gpus")}
    return {
        "schema": SCHEMA,
        "job": {**job_object(job), "plan": record or None, "stop": dict(job.stop) or None, **more},
    }


def history_object(history: History | None) -> Document | None:
    """What a job's GPUs did (per cent, null where it was not known) and its losses, oldest first."""
    if history is None:
        return None
    return {
        "utilization_pct": {uuid: list(used) for uuid, used in history.utilization.items()},
        "loss": list(history.losses),
    }


def jobs_document(jobs: Iterable[JobStatus], unreachable: Sequence[tuple[str, RemoterunError]]) -> Document:
    """``ps``."""
    return {
        "schema": SCHEMA,
        "jobs": [job_object(job) for job in jobs],
        "unreachable": [{"host": name, "error": error_object(error)} for name, error in unreachable],
    }


def gpu_object(gpu: Gpu) -> Document:
    """One GPU."""
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "state": gpu.state.value,
        "reason": gpu.reason,
        "utilization_pct": gpu.utilization_pct,
        "memory_used_mib": gpu.memory_used_mib,
        "memory_total_mib": gpu.memory_total_mib,
        "temperature_c": gpu.temperature_c,
        "power_w": gpu.power_w,
        "power_limit_w": gpu.power_limit_w,
        "job": gpu.lease.job if gpu.lease else None,
        "lease": {"job": gpu.lease.job, "user": gpu.lease.user, "since": gpu.lease.since} if gpu.lease else None,
        "mig_devices": [
            {
                "uuid": device.uuid,
                "profile": device.profile,
                "state": device.state.value,
                "memory_used_mib": device.memory_used_mib,
                "memory_total_mib": device.memory_total_mib,
            }
            for device in gpu.mig_devices
        ],
        "processes": [
            {
                "pid": process.pid,
                "user": process.user,
                "memory_mib": process.memory_mib,
                "command": process.command,
            }
            for process in gpu.processes
        ],
    }


def gpus_host(reading: Reading, now: float) -> Document:
    """One host of ``gpus``. ``now`` is of the monotonic clock. Values that are old stand with their age."""
    found, error = reading.round, reading.error
    report = found.gpus if found else None
    load = found.load if found else None
    return {
        "host": reading.host,
        "reachable": found is not None and error is None,
        "error": error.message if error else reading.problem or (report.problem if report else None),
        "age_s": None if reading.at is None else round(reading.age_s(now) or 0.0, 1),
        "driver": report.driver if report else None,
        "warnings": list(report.warnings) if report else [],
        "cpus": load.cpus if load else None,
        "load": load.load if load else None,
        "memory_total_mib": _mib(load.memory_total_kib) if load else None,
        "memory_available_mib": _mib(load.memory_available_kib) if load else None,
        "disk_available_mib": _mib(load.disk_available_kib) if load else None,
        "gpus": [gpu_object(gpu) for gpu in report.gpus] if report else [],
    }


def gpus_document(hosts: Iterable[Document]) -> Document:
    """``gpus``."""
    return {"schema": SCHEMA, "hosts": list(hosts)}


def host_object(name: str, facts: Facts | None, error: RemoterunError | None, extra: Mapping[str, Any]) -> Document:
    """One host of ``hosts``."""
    return {
        "host": name,
        "reachable": facts is not None,
        "error": error_object(error) if error else None,
        **extra,
        "hostname": facts.hostname if facts else None,
        "user": facts.user if facts else None,
        "cpus": facts.cpus if facts else None,
        "load": facts.load if facts else None,
        "memory_total_mib": _mib(facts.memory_total_kib) if facts else None,
        "memory_available_mib": _mib(facts.memory_available_kib) if facts else None,
        "disk_available_mib": _mib(facts.disk_available_kib) if facts else None,
        "workdir": facts.workdir if facts else None,
        "gpus": len(facts.gpus.gpus) if facts else None,
        "gpus_free": sum(gpu.pickable for gpu in facts.gpus.gpus) if facts else None,
        "tools": dict(facts.tools) if facts else None,
        "python": facts.python.path if facts and facts.python else None,
        "torch": facts.python.torch if facts and facts.python else None,
    }


def _mib(kib: int | None) -> int | None:
    return None if kib is None else kib // 1024


def doctor_document(found: Mapping[str, Sequence[Check]]) -> Document:
    """``doctor``."""
    hosts = [
        {
            "host": name,
            "ok": all(check.ok is not False for check in checks),
            "checks": [
                {"name": check.name, "ok": check.ok, "found": check.found, "fix": check.fix or None} for check in checks
            ],
        }
        for name, checks in found.items()
    ]
    return {"schema": SCHEMA, "hosts": hosts}
