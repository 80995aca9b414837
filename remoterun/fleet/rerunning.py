"""Running a job again on its host: its own snapshot, command and settings; on request from its newest checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from remoterun.errors import HostError, UsageError
from remoterun.fleet.following import read_status
from remoterun.fleet.launching import Prepared, Started, plan_job, start
from remoterun.fleet.local_state import LocalState
from remoterun.host.conversation import Conversation
from remoterun.host.look import look
from remoterun.host.remote import Remote
from remoterun.host.snapshot import Payload
from remoterun.model.host import EMPTY
from remoterun.model.job import JobSpec
from remoterun.plan.launch import LaunchPlan
from remoterun.plan.record import read_record


@dataclass(frozen=True, slots=True)
class Again:
    """What is to be other than the last time. ``resume``: from the newest checkpoint of that job."""

    resume: bool = False
    name: str | None = None
    gpus: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    detach: bool = False


@contextmanager
def rerun(remote: Remote, job_id: str, again: Again, state: LocalState) -> Iterator[Started]:
    """Launch ``job_id`` anew; the conversation stays open inside the ``with``, for the log to be followed.

    Raises UsageError where it has no checkpoint to resume from, any of the project's errors; then no job was made.
    """
    with remote.converse() as conversation:
        plan = _plan(remote, conversation, job_id, again)
        payload = Payload(Path(), None, None, plan.files)
        try:
            started = start(remote, conversation, Prepared(plan, payload))
        except HostError as error:
            raise _in_words(error, job_id) from None
        finally:
            payload.close()
        state.add_host(remote.host.name)
        yield started


def _plan(remote: Remote, conversation: Conversation, job_id: str, again: Again) -> LaunchPlan:
    record = read_status(remote, conversation, job_id).record
    spec, project, snapshot = read_record(record)
    facts = look(remote, conversation, project.key, spec.python)
    return plan_job(remote, _changed(spec, again), facts, project, snapshot, rerun_of=job_id, resume=again.resume)


def _changed(spec: JobSpec, again: Again) -> JobSpec:
    return replace(
        spec,
        name=again.name or spec.name,
        gpus=again.gpus if again.gpus is not None else spec.gpus,
        env=again.env,
        detach=again.detach,
    )


def _in_words(error: HostError, job_id: str) -> HostError | UsageError:
    if "no checkpoint is in the folder" in error.message:
        return UsageError(
            f"{job_id} left no checkpoint that is found by its name",
            hint=f"remoterun rerun {job_id} begins anew; launch --checkpoint GLOB says where checkpoints are",
        )
    if "is no longer there" in error.message:
        return HostError(error.message, hint="launch it anew from its project", host=error.host)
    return error
