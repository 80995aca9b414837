"""Looking at many hosts at once: jobs, GPUs, facts. One slow or dead host never delays or empties another's row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar

from remoterun.errors import RemoterunError
from remoterun.fleet.local_state import LocalState
from remoterun.host.jobs import judge, parse_scan, parse_time
from remoterun.host.look import look
from remoterun.host.remote import Remote
from remoterun.model.facts import Facts
from remoterun.model.job import JobState, JobStatus

T = TypeVar("T")

# Logins at once: each costs some 10 ms of this machine's processor, and waits for the rest.
_AT_ONCE = 32
# `ps` without -a shows jobs that ended within this many minutes.
RECENT_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What one host said, or why it did not."""

    remote: Remote
    value: T | None
    error: RemoterunError | None = None


def ask_all(remotes: Sequence[Remote], question: Callable[[Remote], T]) -> Iterator[Answer[T]]:
    """Put ``question`` to all hosts side by side; answers in the order in which they come."""

    def one(remote: Remote) -> Answer[T]:
        try:
            return Answer(remote, question(remote))
        except RemoterunError as error:
            return Answer(remote, None, error)

    if len(remotes) == 1:
        yield one(remotes[0])
        return
    with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(remotes)))) as pool:
        for done in as_completed([pool.submit(one, remote) for remote in remotes]):
            yield done.result()


@dataclass(frozen=True, slots=True)
class JobList:
    """Jobs of several hosts, newest first, and the hosts that could not be asked."""

    jobs: tuple[JobStatus, ...]
    unreachable: tuple[tuple[str, RemoterunError], ...]

    def __iter__(self) -> Iterator[JobStatus]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


def list_jobs(
    remotes: Sequence[Remote],
    state: LocalState,
    *,
    every: bool = False,
    patterns: Iterable[str] = (),
) -> JobList:
    """Jobs not ended, those ended within a day, or ``every`` one; or those whose ids match ``patterns``.

    Jobs last seen on hosts that do not answer stand in the list as unknown.
    """
    since = "-1" if every else str(RECENT_MINUTES)
    arguments = [since, *patterns]

    def question(remote: Remote) -> list[JobStatus]:
        with remote.converse() as conversation:
            reply = conversation.ask("rr_scan", [remote.host.workdir, *arguments], libraries=["lib", "jobs"])
            remote.check(reply, "listing jobs")
            scan = parse_scan(reply.out)
            found = (judge(signs, scan, remote.host.name) for signs in scan.jobs)
            return [job for job in found if job is not None]

    jobs: list[JobStatus] = []
    unreachable: list[tuple[str, RemoterunError]] = []
    for answer in ask_all(remotes, question):
        if answer.error is not None:
            unreachable.append((answer.remote.host.name, answer.error))
        jobs += answer.value or []
    state.add_answered(
        remote.host.name for remote in remotes if remote.host.name not in {name for name, _ in unreachable}
    )
    once = _each_once(jobs)
    remember(state, once)
    dark = {name for name, _ in unreachable}
    seen = {job.id for job in once}
    if not patterns:
        once += [job for job in last_known(state) if job.host in dark and job.id not in seen]
    once.sort(key=lambda job: (job.created or _LONG_AGO, job.id), reverse=True)
    return JobList(tuple(once), tuple(sorted(unreachable)))


_LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _each_once(jobs: Iterable[JobStatus]) -> list[JobStatus]:
    """Hosts that share a home folder show the same jobs: the job's own host is believed."""
    best: dict[str, JobStatus] = {}
    for job in jobs:
        other = best.get(job.id)
        if other is None or (other.state is JobState.UNKNOWN and job.state is not JobState.UNKNOWN):
            best[job.id] = job
    return list(best.values())


def remember(state: LocalState, jobs: Iterable[JobStatus]) -> None:
    """Keep how jobs were seen, for the day when their host is dark."""
    state.remember(_memory(job) for job in jobs if job.state is not JobState.UNKNOWN)


def _memory(job: JobStatus) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "host": job.host,
        "state": job.state.value,
        "created": job.created.strftime("%Y-%m-%dT%H:%M:%SZ") if job.created else None,
        "seen": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "project": project_key(job),
    }


def project_key(job: JobStatus) -> str | None:
    """The project a job was launched from."""
    project = job.record.get("project")
    return str(project.get("key")) if isinstance(project, dict) else None


def last_known(state: LocalState) -> list[JobStatus]:
    """Jobs as they were last seen from here, each ``unknown`` now, with the age of that knowledge."""
    now = datetime.now(timezone.utc)
    found = []
    for memory in state.last_known().values():
        seen = parse_time(memory.get("seen"))
        known = str(memory.get("state"))
        if seen is None or known not in ("queued", "starting", "running"):
            continue
        age = max(0.0, (now - seen).total_seconds())
        job = JobStatus(
            id=str(memory["id"]),
            name=str(memory.get("name") or memory["id"]),
            host=str(memory.get("host")),
            state=JobState.UNKNOWN,
            created=parse_time(memory.get("created")),
            last_known_state=known,
            age_s=age,
        )
        found.append(replace(job, reason=f"its host cannot be reached; {known} when last seen"))
    return found


def look_at(remote: Remote, python: str | None = None) -> Facts:
    """A host's facts with its GPUs. Raises any of the project's errors."""
    with remote.converse() as conversation:
        return look(remote, conversation, "", python)
