"""job.json: a plan as it is kept with its job, and the launch that can be read back from it. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from remoterun.errors import PlanError
from remoterun.model.facts import Facts
from remoterun.model.host import EMPTY
from remoterun.model.job import JobSpec, Project, Snapshot
from remoterun.plan.guards import parse_notify

if TYPE_CHECKING:
    from remoterun.plan.launch import LaunchPlan

SCHEMA = 1


def job_record(plan: LaunchPlan, facts: Facts, now: datetime, launcher: Mapping[str, str]) -> dict[str, object]:
    """job.json. Names of secrets stand in it, never their values."""
    spec, project, python = plan.spec, plan.project, facts.python
    return {
        "schema": SCHEMA,
        "id": plan.id,
        "name": spec.name,
        "created": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": plan.host,
        "host_id": facts.host_id,
        "hostname": facts.hostname,
        "nodes": 1,
        "launcher": dict(launcher),
        "rerun_of": plan.rerun_of,
        "project": msgspec.to_builtins(project),
        "snapshot": {"tree": plan.snapshot.tree, "files": plan.snapshot.files, "bytes": plan.snapshot.size},
        "runtime": plan.runtime,
        "runtime_reason": plan.runtime_reason,
        "argv": list(plan.argv),
        "folder": plan.paths.folder,
        "working_folder": plan.working_folder,
        "nproc_per_node": plan.nproc,
        "gpus": list(plan.gpus.uuids),
        "gpu_indices": list(plan.gpus.indices),
        "mounts": msgspec.to_builtins(plan.mounts),
        "environment": dict(plan.environment),
        "secret_names": list(plan.secrets),
        "notify": [parse_notify(target)[0] for target in spec.notify],
        "spec": msgspec.to_builtins(replace(spec, env={}, notify=())),
        "python": {"path": python.path, "version": python.version, "torch": python.torch} if python else None,
        "driver": facts.gpus.driver,
        "kernel": facts.kernel,
    }


def read_record(record: Mapping[str, object]) -> tuple[JobSpec, Project, Snapshot]:
    """What was asked for, of which code, as job.json keeps it; secrets (env, notify) are empty.

    Raises PlanError for a record that does not hold them.
    """
    try:
        spec = msgspec.convert(record["spec"], JobSpec)
        project = msgspec.convert(record["project"], Project)
        tree: Any = record["snapshot"]
        snapshot = Snapshot(str(tree["tree"]), None, int(tree["files"]), int(tree["bytes"]))
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise PlanError(
            f"the record of {record.get('id')} does not say what was launched: {error}",
            hint="it was made by another version of remoterun; launch it anew",
        ) from None
    return replace(spec, env=EMPTY), project, snapshot
