"""The local side of a pull: files here, what was pulled before, and writing without ever losing an edit."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from remoterun.errors import UsageError
from remoterun.host.listing import RemoteFile
from remoterun.host.project import PULLED as RECORD

_PART = ".remoterun-part"


class Pulled(msgspec.Struct, frozen=True, array_like=True):
    """One file as it was pulled: the remote's size and time, and size and time here right afterwards."""

    size: int
    mtime_ns: int
    here_size: int
    here_mtime_ns: int


@dataclass
class Target:
    """A local folder that a job's files are pulled into. Raises UsageError where it cannot be one."""

    root: Path
    _known: dict[bytes, Pulled] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot make the folder {self.root}: {error.strerror}", hint="name another with -o"
            ) from None
        try:
            self._known = msgspec.msgpack.decode((self.root / RECORD).read_bytes(), type=dict[bytes, Pulled])
        except (OSError, msgspec.MsgspecError):
            self._known = {}

    def save(self) -> None:
        """Keep what was pulled, for the next time."""
        aside = self.root / f"{RECORD}.{os.getpid()}"
        aside.write_bytes(msgspec.msgpack.encode(self._known))
        aside.replace(self.root / RECORD)

    def place(self, path: bytes) -> bytes:
        """Where a file goes. Raises UsageError where a link here would lead it out of the target."""
        full = os.path.join(os.fsencode(self.root), path)
        root = os.path.realpath(os.fsencode(self.root))
        parent = os.path.realpath(os.path.dirname(full))
        if parent != root and not parent.startswith(root + b"/"):
            raise UsageError(
                f"{os.fsdecode(path)} would be written outside of {self.root}, through a link that is there"
            )
        return full

    def state(self, path: bytes, remote: RemoteFile) -> str:
        """``same`` (nothing to do), ``fetch``, or ``edited``: what is here is not what was pulled."""
        full = self.place(path)
        try:
            here = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return "fetch"
        if remote.kind == "d":
            return "same" if os.path.isdir(full) else "edited"
        if remote.kind == "l":
            if os.path.islink(full) and os.readlink(full) == remote.target:
                return "same"
            known = self._known.get(path)
            return "fetch" if known is not None and os.path.islink(full) else "edited"
        known = self._known.get(path)
        untouched = known is not None and (known.here_size, known.here_mtime_ns) == (here.st_size, here.st_mtime_ns)
        if known is not None and untouched:
            return "same" if (known.size, known.mtime_ns) == (remote.size, remote.mtime_ns) else "fetch"
        # Not from us: the same file all the same?
        return "same" if (here.st_size, here.st_mtime_ns) == (remote.size, remote.mtime_ns) else "edited"

    def part(self, path: bytes) -> bytes:
        """The name of a large file while it is on its way."""
        full = self.place(path)
        return os.path.join(os.path.dirname(full), b"." + os.path.basename(full)[:200] + _PART.encode())

    def begun(self, path: bytes, remote: RemoteFile) -> tuple[int, str]:
        """How much of a large file is here already (cut off, or an older state of it), and its SHA-256.

        The host compares it with the beginning of the file as it is now, and goes on behind it if they agree.
        """
        part = self.part(path)
        if not os.path.exists(part) and path in self._known:
            # A log or a table that has grown: what is here is its beginning.
            full = self.place(path)
            if os.path.isfile(full) and 0 < os.path.getsize(full) < remote.size:
                os.makedirs(os.path.dirname(part), exist_ok=True)
                with open(full, "rb") as source, open(part, "wb") as out:
                    while piece := source.read(1 << 20):
                        out.write(piece)
        try:
            size = os.path.getsize(part)
        except OSError:
            return 0, ""
        if not 0 < size <= remote.size:
            return 0, ""
        with open(part, "rb") as source:
            return size, hashlib.file_digest(source, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _sum(
                source
            )

    def keep(self, path: bytes, remote: RemoteFile, written: bytes) -> None:
        """A whole file that stands aside takes its place, with the remote's time."""
        full = self.place(path)
        os.utime(written, ns=(remote.mtime_ns, remote.mtime_ns))
        if os.path.isdir(full) and not os.path.islink(full):
            raise UsageError(
                f"{os.fsdecode(full)} is a folder here and a file there", hint="pull into another folder: -o"
            )
        os.replace(written, full)
        here = os.lstat(full)
        self._known[path] = Pulled(remote.size, remote.mtime_ns, here.st_size, here.st_mtime_ns)

    def link(self, path: bytes, remote: RemoteFile) -> None:
        """A link, with the target it has there."""
        full = self.place(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        aside = self.part(path)
        if os.path.lexists(aside):
            os.unlink(aside)
        os.symlink(remote.target, aside)
        os.replace(aside, full)
        self._known[path] = Pulled(remote.size, remote.mtime_ns, 0, 0)

    def folder(self, path: bytes) -> None:
        """A folder."""
        os.makedirs(os.path.join(self.place(path)), exist_ok=True)

    def tells_case_apart(self) -> bool:
        """Whether this disk holds both ``a`` and ``A``."""
        with tempfile.NamedTemporaryFile(prefix=".remoterun-Case", dir=self.root) as probe:
            return not os.path.exists(probe.name.replace("-Case", "-case"))


def _sum(source: object) -> str:
    digest = hashlib.sha256()
    while piece := source.read(1 << 20):  # type: ignore[attr-defined]
        digest.update(piece)
    return digest.hexdigest()
