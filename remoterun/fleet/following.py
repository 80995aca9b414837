"""Following a job's log to its end: every byte once, over any number of cuts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

from remoterun.errors import AuthError, ConnectError, HostKeyError, UnknownJob
from remoterun.host.conversation import Conversation
from remoterun.host.jobs import judge, parse_scan
from remoterun.host.remote import Remote
from remoterun.model.job import JobState, JobStatus

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 20.0


@dataclass(slots=True)
class Follower:
    """Reads one job's log from ``offset`` on; reconnects for as long as it takes.

    Iterate ``chunks()``; it returns the job's last status. ``offset`` is at any moment the number of the
    log's bytes that were given out (or skipped at the beginning).
    """

    remote: Remote
    job_id: str
    offset: int = 0
    notice: Callable[[str], None] = lambda text: None

    def chunks(
        self, conversation: Conversation | None = None, posted: int | None = None
    ) -> Generator[bytes, None, JobStatus]:
        """The log's bytes as they come, until the job has ended.

        ``conversation`` and ``posted``: one that is open already, with the request for the log (from
        ``offset``) on its way.
        """
        pause = _FIRST_PAUSE_S
        cut_at: float | None = None
        while True:
            before = self.offset
            try:
                if conversation is not None:
                    return (yield from self._read(conversation, posted))
                with self.remote.converse() as fresh:
                    if cut_at is not None:
                        self.notice(f"connected to {self.remote.host.name} again")
                        cut_at = None
                    return (yield from self._read(fresh, None))
            except (AuthError, HostKeyError):
                raise
            except ConnectError as error:
                if cut_at is None:
                    cut_at = time.monotonic()
                    self.notice(f"{error.message}; the job goes on there, reconnecting …")
                if self.offset > before:
                    pause = _FIRST_PAUSE_S
            conversation = posted = None
            # Many clients cut at once do not come back at once.
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _read(self, conversation: Conversation, posted: int | None) -> Generator[bytes, None, JobStatus]:
        waited_for: str | None = None
        while True:
            if posted is None:
                arguments = [self.remote.host.workdir, self.job_id, str(self.offset)]
                posted = conversation.post("rr_follow", arguments, libraries=["lib", "jobs"])
            stream = conversation.stream(posted)
            posted = None
            while True:
                try:
                    piece = next(stream)
                except StopIteration as end:
                    code = end.value
                    break
                self.offset += len(piece)
                yield piece
            if code == 6:
                self.notice(
                    f"the log of {self.job_id} was cut short on {self.remote.host.name}; from its beginning again"
                )
                self.offset = 0
                continue
            if code == 3:
                raise UnknownJob(f"job {self.job_id} is no longer on {self.remote.host.name}")
            status = read_status(self.remote, conversation, self.job_id)
            if status.state.ended and (status.log_size is None or status.log_size <= self.offset):
                return status
            if status.state is JobState.UNKNOWN:
                return status
            if status.state is JobState.QUEUED:
                if status.reason != waited_for:
                    waited_for = status.reason
                    self.notice(f"{self.job_id} {waited_for}")
                time.sleep(2)
            time.sleep(0.2)


def read_status(remote: Remote, conversation: Conversation, job_id: str) -> JobStatus:
    """The job as its host tells it now. Raises UnknownJob."""
    reply = conversation.ask("rr_scan", [remote.host.workdir, "-1", job_id], libraries=["lib", "jobs"])
    remote.check(reply, f"reading job {job_id}")
    scan = parse_scan(reply.out)
    for signs in scan.jobs:
        status = judge(signs, scan, remote.host.name)
        if status is not None and status.id == job_id:
            return status
    raise UnknownJob(f"no job {job_id} on {remote.host.name}", hint="remoterun ps -a", host=remote.host.name)
