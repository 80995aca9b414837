"""Bringing a job's files back: only what is new, large files from where they were cut off, never over an edit here."""

from __future__ import annotations

import io
import os
import random
import tarfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from remoterun.errors import AuthError, ConnectError, HostKeyError, UsageError
from remoterun.fleet.following import read_status
from remoterun.host.conversation import Conversation
from remoterun.host.listing import Listing, RemoteFile, Wanted, choose, parse_listing, parse_path, twins
from remoterun.host.remote import Remote
from remoterun.host.target import Target
from remoterun.model.job import JobStatus

_LIBRARIES = ("lib", "files")
# Files above this size come one by one, so that a cut costs no more than what had not come yet.
_LARGE = 4 << 20
_BATCH_FILES, _BATCH_BYTES = 2000, 64 << 20
# A file that is written while it is read is read again, so many times at the most.
_PASSES = 3
_LONGEST_PAUSE_S = 20.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What to bring back and where to. Without ``paths``: ``out/`` and what the job made in ``code/``.

    ``force``: over files that were edited here. ``progress`` gets bytes done and bytes in all.
    """

    paths: tuple[str, ...] = ()
    to: Path | None = None
    force: bool = False
    progress: Progress = lambda done, total: None
    notice: Callable[[str], None] = lambda text: None


@dataclass(slots=True)
class PullReport:
    """What came of it: ``files`` and ``bytes`` that came; ``kept``: edited here, left alone; ``skipped``: with the
    reason; ``unsettled``: were still being written."""

    to: Path
    files: int = 0
    bytes: int = 0
    kept: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)


def pull(remote: Remote, job: JobStatus, request: PullRequest) -> PullReport:
    """Bring the files back once; goes on after a cut link. Raises UsageError, UnknownJob, HostError."""
    report = _report(job, request)
    pause = 0.5
    while True:
        before = report.bytes
        try:
            with remote.converse() as conversation:
                return _Pull(remote, conversation, job, request, report).run()
        except (AuthError, HostKeyError):
            raise
        except ConnectError as error:
            if report.bytes == before and pause > 5:
                raise
            request.notice(f"{error.message}; going on from here in a moment …")
        pause = 0.5 if report.bytes > before else min(2 * pause, _LONGEST_PAUSE_S)
        time.sleep(pause * random.uniform(0.5, 1.5))


def watch(remote: Remote, job: JobStatus, request: PullRequest, every_s: float) -> Iterator[PullReport]:
    """Pull again and again until the job has ended; the last time after its end."""
    while True:
        try:
            with remote.converse() as conversation:
                ended = read_status(remote, conversation, job.id).state.ended
        except (AuthError, HostKeyError):
            raise
        except ConnectError as error:
            request.notice(f"{error.message}; trying again …")
            time.sleep(every_s)
            continue
        yield pull(remote, job, request)
        if ended:
            return
        time.sleep(every_s)


def _report(job: JobStatus, request: PullRequest) -> PullReport:
    return PullReport(request.to if request.to is not None else Path("runs") / job.id)


@dataclass
class _Pull:
    """One pull over one conversation."""

    remote: Remote
    conversation: Conversation
    job: JobStatus
    request: PullRequest
    report: PullReport

    def run(self) -> PullReport:
        """List, compare, fetch; until nothing has changed meanwhile."""
        wanted = tuple(parse_path(path) for path in self.request.paths)
        target: Target | None = None
        for _ in range(_PASSES):
            listing = self._list(wanted)
            if not listing and wanted:
                raise UsageError(
                    f"{self.job.id} has no {', '.join(self.request.paths)}",
                    hint="PATH is relative to the job's folder: out/…, code/…, log",
                )
            if target is None:
                target = Target(self.report.to)
            todo = self._decide(listing, target)
            if not todo:
                return self.report
            try:
                self._fetch(todo, target)
            finally:
                target.save()
        listing = self._list(wanted)
        assert target is not None
        self.report.unsettled = [os.fsdecode(path) for path in self._decide(listing, target)]
        return self.report

    def _list(self, wanted: Sequence[Wanted]) -> Listing:
        arguments = [self.remote.host.workdir, self.job.id]
        if wanted:
            arguments += [f"./{one.root}" for one in wanted]
        else:
            project, snapshot = self.job.record.get("project"), self.job.record.get("snapshot")
            if isinstance(project, dict) and isinstance(snapshot, dict):
                arguments += ["tree", str(project.get("key")), str(snapshot.get("tree"))]
            arguments += ["./out", "./code"]
        reply = self.conversation.ask("rr_list", arguments, libraries=_LIBRARIES, timeout=300)
        self.remote.check(reply, f"listing the files of {self.job.id}", self.job.id)
        return choose(*parse_listing(reply.out), wanted)

    def _decide(self, listing: Listing, target: Target) -> Listing:
        """What has to come. Notes what is left alone, and why."""
        report = self.report
        report.kept, report.skipped = [], []
        same = {} if target.tells_case_apart() else twins(listing)
        todo: Listing = {}
        for path, entry in sorted(listing.items()):
            name = os.fsdecode(path)
            if entry.kind not in "fld":
                report.skipped.append(f"{name} is neither file, folder nor link")
            elif path in same:
                report.skipped.append(f"{name} is {os.fsdecode(same[path])} on this disk, which ignores case")
            else:
                state = target.state(path, entry)
                if state == "fetch" or (state == "edited" and self.request.force):
                    todo[path] = entry
                elif state == "edited":
                    report.kept.append(name)
        return todo

    def _fetch(self, todo: Listing, target: Target) -> None:
        total = sum(entry.size for entry in todo.values() if entry.kind == "f")
        self._done, self._total = 0, total
        batch: list[bytes] = []
        size = 0
        for path, entry in todo.items():
            if entry.kind == "d":
                target.folder(path)
            elif entry.kind == "l":
                target.link(path, entry)
                self.report.files += 1
            elif entry.size > _LARGE:
                self._fetch_large(path, entry, target)
            else:
                batch.append(path)
                size += entry.size
            if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
                self._fetch_small(batch, todo, target)
                batch, size = [], 0
        if batch:
            self._fetch_small(batch, todo, target)

    def _fetch_small(self, batch: Sequence[bytes], todo: Listing, target: Target) -> None:
        """Many files as one tar. One that changed on its way has another size or time in the next listing."""
        names = b"".join(b"./" + path + b"\0" for path in batch)
        number = self.conversation.post(
            "rr_pack", [self.remote.host.workdir, self.job.id, str(len(names))], libraries=_LIBRARIES, payload=[names]
        )
        stream = _Stream(self.conversation.stream(number, timeout=120))
        asked = set(batch)
        with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                path = os.fsencode(member.name)
                path = path[2:] if path.startswith(b"./") else path
                source = tar.extractfile(member) if member.isreg() else None
                if source is None or path not in asked or member.size != todo[path].size:
                    continue
                part = self._open_part(path, target)
                with open(part, "wb") as out:
                    while piece := source.read(1 << 16):
                        out.write(piece)
                os.chmod(part, 0o755 if member.mode & 0o100 else 0o644)
                self._arrived(path, todo[path], target, part, todo[path].size)
        stream.drain()

    def _fetch_large(self, path: bytes, entry: RemoteFile, target: Target) -> None:
        """One file, from where it was cut off."""
        begun, digest = target.begun(path, entry)
        words = [self.remote.host.workdir, self.job.id, "./" + os.fsdecode(path), str(begun), str(entry.size), digest]
        number = self.conversation.post("rr_part", words, libraries=_LIBRARIES)
        stream = _Stream(self.conversation.stream(number, timeout=300))
        line = stream.readline()
        if not line:
            stream.drain()
            return
        start = int(line)
        part = self._open_part(path, target)
        self._progress(start)
        with open(part, "r+b" if start else "wb") as out:
            out.seek(start)
            out.truncate()
            while piece := stream.read(1 << 20):
                out.write(piece)
                self.report.bytes += len(piece)
                self._progress(len(piece))
            whole = out.tell() == entry.size
        stream.drain()
        if whole:
            self._arrived(path, entry, target, part, 0)

    def _open_part(self, path: bytes, target: Target) -> bytes:
        part = target.part(path)
        os.makedirs(os.path.dirname(part), exist_ok=True)
        return part

    def _arrived(self, path: bytes, entry: RemoteFile, target: Target, part: bytes, size: int) -> None:
        target.keep(path, entry, part)
        self.report.files += 1
        self.report.bytes += size
        self._progress(size)

    def _progress(self, size: int) -> None:
        self._done += size
        self.request.progress(self._done, self._total)


class _Stream(io.RawIOBase):
    """An answer that comes in pieces, as a file."""

    def __init__(self, pieces: Generator[bytes, None, int]) -> None:
        self._pieces = pieces
        self._buffer = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        out = bytearray()
        while not self._ended and (size < 0 or len(out) < size):
            if not self._buffer:
                try:
                    self._buffer = next(self._pieces)
                except StopIteration:
                    self._ended = True
                    break
            want = len(self._buffer) if size < 0 else size - len(out)
            out += self._buffer[:want]
            self._buffer = self._buffer[want:]
        return bytes(out)

    def readline(self, size: int | None = -1, /) -> bytes:
        out = b""
        while not out.endswith(b"\n") and (sign := self.read(1)):
            out += sign
        return out

    def drain(self) -> None:
        """To the answer's end, so that the next one can be read."""
        while self.read(1 << 16):
            pass
