"""What must be true after every fault, found out without remoterun where that can be had."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.faults.kinds import Scene
from remoterun.model.job import JobState, JobStatus
from tests.fleet.yard import with_environment

LINES = 40
# What the job's script does not say of itself within this long is a hang, in seconds.
PATIENCE_S = 60


@dataclass(frozen=True)
class Outcome:
    """One round as it ended: the jobs of its name, the client's exit status (None: killed) and output. ``narrow``: its
    host lets two logins in at once, and drops others."""

    scene: Scene
    jobs: tuple[JobStatus, ...]
    status: int | None
    output: bytes
    errors: bytes
    followed: bool
    code: int
    narrow: bool


def broken_invariants(outcome: Outcome) -> Iterator[str]:
    """Each invariant that does not hold, in words."""
    scene = outcome.scene
    if len(outcome.jobs) > 1:
        yield f"{len(outcome.jobs)} jobs of one launch"
    told = outcome.status == 0 or b"runs on" in outcome.errors
    if not told and outcome.status == 255 and not outcome.narrow and not scene.broken & {"client", "link", "disk"}:
        yield f"the launch failed, and nothing that it needs was broken: {outcome.errors[-300:]!r}"
    if not outcome.jobs:
        if told and "removed" not in scene.broken:
            yield "a launch that was told as done has no job"
        yield from _remains(scene, None)
        return
    job = outcome.jobs[0]
    yield from _state_is_true(outcome, job)
    yield from _log_is_whole(outcome, job)
    yield from _remains(scene, job)


def _state_is_true(outcome: Outcome, job: JobStatus) -> Iterator[str]:
    broken, folder = outcome.scene.broken, outcome.scene.folder()
    if folder is None:
        yield "the job is listed and has no folder"
        return
    if not job.state.ended:
        yield f"still {job.state.value} ({job.reason})"
        return
    said = (folder / "code" / "ended").exists()
    if job.state is JobState.SUCCEEDED and not (said and outcome.code == 0):
        yield "called succeeded, and did not come to its end"
    if job.state is JobState.FAILED:
        killed = {"main"} & broken
        if not killed and not (said and job.exit_code == outcome.code) and "disk" not in broken:
            yield f"called failed with {job.exit_code}, and would have ended with {outcome.code}"
    if job.state is JobState.LOST and "supervisor" not in broken:
        yield f"called lost ({job.reason}), and nobody killed its supervisor"
    if job.state is JobState.STOPPED and "stop" not in broken and "deadline" not in broken:
        yield "called stopped, and nobody stopped it"
    if outcome.followed and outcome.status is not None and b"runs on" in outcome.errors and "removed" not in broken:
        expected = 255 if job.exit_code is None else job.exit_code
        if outcome.status != expected:
            yield f"its follower ended with {outcome.status}, the job with {job.exit_code}: {outcome.errors[-300:]!r}"


def _log_is_whole(outcome: Outcome, job: JobStatus) -> Iterator[str]:
    folder = outcome.scene.folder()
    if folder is None:
        return
    log = (folder / "log").read_bytes()
    count = log.count(b"\n")
    whole = b"".join(b"line %d\n" % n for n in range(1, count + 1))
    if log != whole and "disk" not in outcome.scene.broken:
        yield f"its log is not what it wrote: {log[-80:]!r}"
    if job.state is JobState.SUCCEEDED and count != LINES and "disk" not in outcome.scene.broken:
        yield f"its log has {count} of {LINES} lines"
    if not outcome.followed or "disk" in outcome.scene.broken:
        return
    if outcome.status is None:
        if not log.startswith(outcome.output):
            yield "what its killed follower showed is no beginning of the log"
    elif b"runs on" in outcome.errors and outcome.output != log and "removed" not in outcome.scene.broken:
        yield f"its follower showed {len(outcome.output)} bytes of {len(log)}: {outcome.output[-60:]!r}"


def _remains(scene: Scene, job: JobStatus | None) -> Iterator[str]:
    """Processes, leases and temporary files that outlive the job."""
    folder = scene.folder()
    until = time.monotonic() + 15
    while left := list(_processes(scene, job)):
        if time.monotonic() > until:
            yield f"left running: {left}"
            break
        time.sleep(0.2)
    # A killed writer leaves its own; whoever was not killed leaves none.
    if folder is not None and not scene.broken & {"supervisor", "client", "link", "removed", "disk"}:
        temporary = [file.name for file in folder.glob("*.tmp*")]
        if temporary:
            yield f"temporary files: {temporary}"


def _processes(scene: Scene, job: JobStatus | None) -> Iterator[str]:
    if job is not None:
        for pid in with_environment(f"REMOTERUN_JOB={job.id}"):
            yield f"{pid} of the job"
    folder = scene.folder()
    for pid, words in scene.host.login_processes().items():
        with contextlib.suppress(OSError):
            if "supervise.sh" in words and folder is not None and os.readlink(f"/proc/{pid}/cwd") == str(folder):
                yield f"{pid} {words[-60:]}"
