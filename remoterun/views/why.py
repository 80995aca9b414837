"""A post-mortem for people, and as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from remoterun.host.postmortem import PostMortem
from remoterun.model.job import JobState
from remoterun.views.documents import SCHEMA, job_object
from remoterun.views.tables import printable


def why_text(found: PostMortem) -> str:
    """The likeliest cause first, then the evidence, then what to type next."""
    job = found.status
    ended = f" ({job.reason})" if job.reason else ""
    lines = [f"{job.id} on {job.host}: {job.state.value}{printable(ended)}"]
    if not found.findings:
        lines.append("  nothing went wrong" if job.state is JobState.SUCCEEDED else "  nothing has gone wrong so far")
    for finding in found.findings:
        lines.append(f"  * {printable(finding.cause)}")
        if finding.advice:
            lines.append(f"      {printable(finding.advice)}")
    if found.rank is not None:
        lines.append(f"\nfailed first: rank {found.rank}")
    lines += [
        f"attempt {attempt['attempt']} ended {attempt['ended']} with exit status {attempt['rank_code']}"
        for attempt in found.attempts
    ]
    if found.traceback:
        lines += ["\nfirst traceback:", *(f"  {line}" for line in found.traceback.splitlines())]
    if found.kernel:
        lines += ["\nthe kernel said meanwhile:", *(f"  {printable(line)}" for line in found.kernel[-10:])]
    elif not found.kernel_readable and job.state in (JobState.FAILED, JobState.LOST):
        lines.append(
            "\nthe kernel's log is not readable by this login there: out-of-memory and Xid lines are not known"
        )
    if found.last_lines and job.state is not JobState.SUCCEEDED:
        lines += ["\nlast lines:", *(f"  {line}" for line in found.last_lines)]
    lines.append(f"\nnext: {_next(found)}")
    return "\n".join(lines) + "\n"


def _next(found: PostMortem) -> str:
    job = found.status
    if job.state in (JobState.FAILED, JobState.LOST, JobState.STOPPED):
        return f"remoterun logs {job.id} | remoterun rerun {job.id} | remoterun rerun --resume {job.id}"
    if job.state is JobState.SUCCEEDED:
        return f"remoterun logs {job.id}"
    return f"remoterun logs -f {job.id} | remoterun stacks {job.id}"


def why_document(found: PostMortem) -> dict[str, Any]:
    """``why --json``."""
    return {
        "schema": SCHEMA,
        "job": job_object(found.status),
        "findings": [asdict(finding) for finding in found.findings],
        "rank": found.rank,
        "traceback": found.traceback,
        "last_lines": list(found.last_lines),
        "kernel": list(found.kernel) if found.kernel_readable else None,
        "events": list(found.events),
        "attempts": list(found.attempts),
    }
