"""Following a job at the terminal, and the exit statuses that come of it."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from remoterun.cli.terminal import advise, note
from remoterun.host.jobs import exit_words
from remoterun.model.job import JobState, JobStatus

if TYPE_CHECKING:
    from remoterun.fleet import Fleet, Job
    from remoterun.fleet.launching import Started


def until_end(fleet: Fleet, started: Started) -> int:
    """Show the log of a job that was just started, to its end."""
    from remoterun.fleet.following import Follower

    remote = fleet.remote(fleet.inventory.host(started.plan.host))
    follower = Follower(remote, started.plan.id, 0, fleet.notice)
    return show(follower.chunks(started.conversation, started.follow), started.plan.id)


def job_until_end(job: Job, offset: int, *, raw: bool = False) -> int:
    """Show a job's log from ``offset`` to its end."""
    return show(job.follow(offset), job.id, raw=raw)


def show(chunks: Generator[bytes, None, JobStatus], job_id: str, *, raw: bool = False) -> int:
    """Write the log to stdout as it comes; the job's own exit status, or 130 after Ctrl-C."""
    from remoterun.views.logtext import LogText

    text = LogText.for_stdout(raw=raw)
    try:
        while True:
            try:
                piece = next(chunks)
            except StopIteration as end:
                text.finish()
                return said(end.value)
            text.write(piece)
    except KeyboardInterrupt:
        text.finish()
        chunks.close()
        goes_on(job_id, "detached")
        return 130


def goes_on(job_id: str, done: str) -> None:
    """Say that the job runs on without this command, and what can be typed next."""
    if sys.stderr.isatty():
        # Not behind the terminal's own ^C.
        sys.stderr.write("\n")
    note(f"{done}: {job_id} goes on")
    advise(f"remoterun logs -f {job_id}", "follows its log again")
    advise(f"remoterun attach {job_id}", "goes into its session")
    advise(f"remoterun stop {job_id}", "ends it")


def said(status: JobStatus) -> int:
    """Say how a job ended; the exit status that this command takes from it."""
    if status.state is JobState.SUCCEEDED:
        note(f"{status.id} succeeded")
        return 0
    words = f": {status.reason}" if status.reason else ""
    note(f"{status.id} {status.state.value} on {status.host}{words}")
    if status.state is not JobState.STOPPED:
        advise(f"remoterun why {status.id}", "says what failed first")
    return exit_status(status)


def exit_status(status: JobStatus) -> int:
    """The job's own status; 255 where it has none to give (lost, or its end was not seen)."""
    return 255 if status.exit_code is None else status.exit_code


def report_start(status: JobStatus, *, as_json: bool) -> int:
    """``launch -d``: the id on stdout. A job that died at once is no success."""
    if as_json:
        from remoterun.views.documents import job_document, write

        write(job_document(status))
    else:
        sys.stdout.write(f"{status.id}\n")
        sys.stdout.flush()
    if status.state is JobState.FAILED:
        note(f"{status.id} ended at once: {exit_words(exit_status(status))}; its last words: {status.last_line or '-'}")
        advise(f"remoterun why {status.id}", "says what failed first")
        return exit_status(status)
    if not as_json:
        note(f"{status.id} {status.state.value} on {status.host}")
        advise(f"remoterun logs -f {status.id}", "follows its log")
    return 0


def write_bytes(pieces: Iterator[bytes], *, raw: bool) -> None:
    """A log that is there already, to stdout."""
    from remoterun.views.logtext import LogText

    text = LogText.for_stdout(raw=raw)
    for piece in pieces:
        text.write(piece)
    text.finish()
