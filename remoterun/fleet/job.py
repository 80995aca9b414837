"""``Job``: one job on its host."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remoterun.errors import ConnectError, UsageError
from remoterun.fleet import control, listing, logs
from remoterun.fleet.following import Follower, read_status
from remoterun.fleet.logs import Excerpt
from remoterun.host.remote import Remote
from remoterun.model.job import JobState, JobStatus

if TYPE_CHECKING:
    from remoterun.fleet import launching, pulling, rerunning
    from remoterun.fleet.core import Fleet
    from remoterun.host.history import History
    from remoterun.host.postmortem import PostMortem


@dataclass
class Job:
    """One job on its host. ``status`` is what was last seen; methods ask the host."""

    fleet: Fleet
    remote: Remote
    status: JobStatus

    def __repr__(self) -> str:
        return f"<Job {self.id} on {self.remote.host.name}: {self.status.state.value}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self.status.id

    @property
    def state(self) -> JobState:
        """The state now; UNKNOWN when the host cannot be reached."""
        try:
            return self.refresh().state
        except ConnectError:
            return JobState.UNKNOWN

    def refresh(self) -> JobStatus:
        """The job as its host tells it now. Raises ConnectError, UnknownJob."""
        with self.remote.converse() as conversation:
            self.status = read_status(self.remote, conversation, self.id)
        return self.status

    def follow(self, offset: int = 0) -> Generator[bytes, None, JobStatus]:
        """The log from ``offset`` until the job has ended; returns the last status."""
        self.status = yield from Follower(self.remote, self.id, offset, self.fleet.notice).chunks()
        return self.status

    def logs(self, *, follow: bool = False, lines: int = -1, excerpt: Excerpt | None = None) -> Iterator[bytes]:
        """The log so far (its last ``lines`` lines, or another ``excerpt``), or followed to the job's end."""
        if follow:
            yield from self.follow()
        else:
            yield from logs.read_log(self.remote, self.id, excerpt or logs.Excerpt(lines))

    def follow_from(self, excerpt: Excerpt) -> Generator[bytes, None, JobStatus]:
        """A part of the log so far, then on to the job's end."""
        size = self.status.log_size or 0
        yield from logs.read_log(self.remote, self.id, logs.before(excerpt, size))
        rest = self.follow(size)
        if excerpt.grep is None:
            return (yield from rest)
        return (yield from logs.matching_lines(rest, excerpt.grep))

    def rank_log(self, rank: int, lines: int = -1) -> Iterator[bytes]:
        """What one rank wrote. Raises UsageError for a rank that the job does not have."""
        count = self.status.ranks
        if count is not None and rank >= count:
            raise UsageError(
                f"{self.id} has no rank {rank}",
                hint="it has one: --rank 0" if count == 1 else f"its ranks are 0 to {count - 1}",
            )
        yield from logs.read_log(self.remote, self.id, logs.Excerpt(lines), file=f"ranks/{rank}.log")

    def tmux_command(self) -> str | None:
        """What to type on the host itself to see the job's session."""
        return control.tmux_hint(self.status)

    def wait(self) -> JobStatus:
        """Until it has ended; survives cut links. Returns the last status."""
        follower = self.follow(self.status.log_size or 0)
        while True:
            try:
                next(follower)
            except StopIteration:
                return self.status

    def stop(self, *, signal: str = "TERM", grace: int = 30) -> control.Stopped:
        """Signal, grace, kill; proves that no process is left. Raises HostError when one is."""
        notice = (lambda text: None) if self.status.state.ended else self.fleet.notice
        stopped = control.stop_job(self.remote, self.id, signal=signal, grace=grace, notice=notice)
        self.status = stopped.status
        return stopped

    def why(self) -> PostMortem:
        """What is known of why it ended (or of how it goes). Raises ConnectError, UnknownJob."""
        return control.post_mortem(self.remote, self.id)

    def history(self) -> History:
        """What its GPUs did so far, and its loss. Raises ConnectError, UnknownJob."""
        return control.read_history(self.remote, self.id)

    def stacks(self) -> str:
        """The Python stacks of its processes, as text for people. Raises UsageError when it has none."""
        return control.read_stacks(self.remote, self.id)

    def pull(self, *paths: str, to: str | os.PathLike[str] | None = None, force: bool = False) -> pulling.PullReport:
        """Bring its files back into ``to`` (default ``runs/<id>``); see :class:`remoterun.fleet.pulling.PullRequest`."""
        from remoterun.fleet import pulling

        request = pulling.PullRequest(paths, None if to is None else Path(to), force, notice=self.fleet.notice)
        return pulling.pull(self.remote, self.refresh(), request)

    @contextmanager
    def again(self, again: rerunning.Again) -> Iterator[launching.Started]:
        """The same job anew, with the connection kept open inside the ``with`` for the log to be followed."""
        from remoterun.fleet import rerunning

        with rerunning.rerun(self.remote, self.id, again, self.fleet.state) as started:
            listing.remember(self.fleet.state, [started.status])
            yield started

    def rerun(self, *, resume: bool = False, name: str | None = None, gpus: int | str | None = None) -> Job:
        """The same job anew, of the same snapshot; returns once it runs."""
        from remoterun.fleet.rerunning import Again

        wanted = Again(resume, name, None if gpus is None else str(gpus), detach=True)
        with self.again(wanted) as started:
            return Job(self.fleet, self.remote, started.status)

    def remove(self) -> None:
        """Remove the ended job's files."""
        control.remove_job(self.remote, self.id)
        self.fleet.state.forget(self.id)

    def attach_argv(self) -> list[str]:
        """The argv that hands the terminal to the job's tmux session."""
        return control.attach_argv(self.remote, self.id)
