"""Parts of a job's log: cut on the host, so that ten lines of fifty gigabytes are ten lines on the wire."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from remoterun.errors import HostError, UsageError
from remoterun.host.remote import Remote
from remoterun.plan.durations import parse_duration

T = TypeVar("T")
# A line without end must not fill the memory: it is judged by its first MiB.
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which part of a log is wanted: the last ``lines`` lines (-1: all) of what fits the rest.

    ``since``: from then on, in seconds since 1970, or seconds before the host's now when negative (to within the
    pause of the host's watcher); ``attempt``: of one attempt; ``grep``: lines that match an extended regular
    expression; ``until``: of the first so many bytes.
    """

    lines: int = -1
    since: int | None = None
    attempt: int | None = None
    grep: str | None = None
    until: int | None = None

    def words(self, file: str) -> list[str]:
        """The arguments of ``rr_log`` behind the job's id."""
        until, since, attempt = (
            "" if value is None else str(value) for value in (self.until, self.since, self.attempt)
        )
        return [str(self.lines), file, until, since, attempt, self.grep or ""]


def parse_since(text: str) -> int:
    """``10m`` (so long ago) or a time such as 2026-01-31T10:00 (in the reader's own zone, or with one)."""
    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())
    except ValueError:
        return -parse_duration(text, "--since")


def read_log(remote: Remote, job_id: str, excerpt: Excerpt, *, file: str = "log") -> Iterator[bytes]:
    """A part of one of the job's logs, piece by piece. Raises UsageError for what it does not have."""
    with remote.converse() as conversation:
        number = conversation.post(
            "rr_log", [remote.host.workdir, job_id, *excerpt.words(file)], libraries=["lib", "jobs"]
        )
        stream = conversation.stream(number, timeout=60)
        while True:
            try:
                yield next(stream)
            except StopIteration as end:
                if end.value:
                    raise _refusal(end.value, remote, job_id, excerpt, file) from None
                return


def _refusal(status: int, remote: Remote, job_id: str, excerpt: Excerpt, file: str) -> HostError | UsageError:
    """A status of ``rr_log`` in words."""
    if status == 2:
        return UsageError(f"--grep: {excerpt.grep!r} is no extended regular expression")
    if status == 4 and file.startswith("ranks/"):
        rank = file.removeprefix("ranks/").removesuffix(".log")
        return UsageError(f"rank {rank} of {job_id} has written nothing", hint=f"remoterun logs {job_id}")
    if status == 4:
        return UsageError(f"{job_id} has no {file}", hint=f"remoterun status {job_id}")
    if status == 8:
        return UsageError(f"{job_id} has no attempt {excerpt.attempt}", hint=f"remoterun why {job_id}")
    said = "no such job" if status == 3 else f"status {status}"
    return HostError(f"reading {file} of {job_id} failed on {remote.host.name}: {said}")


def matching_lines(pieces: Generator[bytes, None, T], pattern: str) -> Generator[bytes, None, T]:
    """Only the lines that match, as they are finished; returns what ``pieces`` returns. Raises UsageError."""
    try:
        wanted = re.compile(pattern.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise UsageError(f"--grep: {pattern!r} is no regular expression: {error}") from None
    held, passing = b"", False
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            if held and wanted.search(held):
                yield held
            result: T = end.value
            return result
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            if passing or wanted.search(line):
                yield line + b"\n"
            passing = False
        if len(held) > _LONGEST:
            passing = passing or wanted.search(held) is not None
            if passing:
                yield held
            held = b""


def before(excerpt: Excerpt, size: int) -> Excerpt:
    """The same of the log's first ``size`` bytes: what follows is read as it comes."""
    return replace(excerpt, until=size)
