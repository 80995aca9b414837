"""A project's files as a value (the manifest), and what must be sent to a host that has an older one."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

import msgspec

from remoterun.errors import HostError, UsageError
from remoterun.plan.launch import PlanFile

_SPOOL = 16 << 20
_PIECE = 1 << 18
# A file changed within this time of being read may change again with the same time stamp.
_RACY_NS = 2_000_000_000


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One name: ``kind`` f (file), l (link) or d (empty folder); ``content`` a SHA-256 or the link's target."""

    kind: str
    mode: int
    size: int
    content: bytes


Manifest = dict[bytes, Entry]


@dataclass(frozen=True, slots=True)
class Tree:
    """A manifest and its id (SHA-256 of the manifest, 32 hex digits)."""

    id: str
    entries: Manifest
    skipped: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries.values())

    @property
    def manifest(self) -> bytes:
        """The manifest as it is kept on the host."""
        return _encode(self.entries)


@dataclass(frozen=True, slots=True)
class Difference:
    """What turns one tree into another: names to send, names to remove first."""

    send: tuple[bytes, ...]
    remove: tuple[bytes, ...]


class HashCache:
    """SHA-256 of files that have not changed since they were last read, in one small file per project."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._new: dict[bytes, tuple[int, int, int, bytes]] = {}
        try:
            self._old = msgspec.msgpack.decode(file.read_bytes(), type=dict[bytes, tuple[int, int, int, bytes]])
        except (OSError, msgspec.MsgspecError):
            self._old = {}

    def digest(self, root: bytes, path: bytes, status: os.stat_result) -> bytes:
        """The file's SHA-256, read only if size, time or inode differ from last time."""
        sign = (status.st_size, status.st_mtime_ns, status.st_ino)
        known = self._old.get(path)
        if known is not None and known[:3] == sign:
            self._new[path] = known
            return known[3]
        hasher = hashlib.sha256()
        with open(os.path.join(root, path), "rb") as source:
            while piece := source.read(1 << 20):
                hasher.update(piece)
        if time.time_ns() - status.st_mtime_ns > _RACY_NS:
            self._new[path] = (*sign, hasher.digest())
        return hasher.digest()

    def save(self) -> None:
        """Keep what was learnt; a cache that cannot be written is no error."""
        if self._new == self._old:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            aside = self._file.with_suffix(f".{os.getpid()}")
            aside.write_bytes(msgspec.msgpack.encode(self._new))
            aside.replace(self._file)
        except OSError:
            return


def read_tree(root: Path, paths: Sequence[str], cache: HashCache) -> Tree:
    """The tree of ``paths`` under ``root`` as it is now. FIFOs, sockets and devices are skipped and named.

    Raises UsageError for a file that cannot be read.
    """
    entries: Manifest = {}
    skipped: list[str] = []
    base = os.fsencode(root)
    for name in paths:
        path = os.fsencode(name).rstrip(b"/")
        try:
            status = os.lstat(os.path.join(base, path))
            entry = _entry(base, path, status, cache)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise UsageError(
                f"cannot read {name}: {error.strerror}",
                hint="make it readable, or name it in .remoterunignore",
            ) from None
        if entry is None:
            skipped.append(f"{name} is neither file, folder nor link: not sent")
        else:
            entries[path] = entry
    cache.save()
    return Tree(hashlib.sha256(_encode(entries)).hexdigest()[:32], entries, tuple(skipped))


def _entry(base: bytes, path: bytes, status: os.stat_result, cache: HashCache) -> Entry | None:
    if stat.S_ISREG(status.st_mode):
        mode = 0o755 if status.st_mode & 0o100 else 0o644
        return Entry("f", mode, status.st_size, cache.digest(base, path, status))
    if stat.S_ISLNK(status.st_mode):
        return Entry("l", 0o777, 0, os.readlink(os.path.join(base, path)))
    if stat.S_ISDIR(status.st_mode):
        return Entry("d", 0o755, 0, b"")
    return None


def difference(old: Mapping[bytes, Entry], new: Mapping[bytes, Entry]) -> Difference:
    """What the host must get and lose to turn ``old`` into ``new``; folders that end are removed whole."""
    send = tuple(path for path, entry in new.items() if old.get(path) != entry or entry.kind == "d")
    gone_folders = _folders(old) - _folders(new)
    remove = {path for path in old if path not in new}
    remove |= {path for path in send if path in old}
    # Where a file stands now that was a folder.
    remove |= gone_folders
    return Difference(send, tuple(sorted(remove)))


def _folders(entries: Iterable[bytes]) -> set[bytes]:
    found: set[bytes] = set()
    for path in entries:
        cut = path.rfind(b"/")
        while cut > 0 and path[:cut] not in found:
            found.add(path[:cut])
            cut = path.rfind(b"/", 0, cut)
    return found


def decode_manifest(data: bytes) -> Manifest:
    """The entries of a manifest kept on a host or in the cache. Raises HostError if it is damaged."""
    try:
        return dict(msgspec.msgpack.decode(gzip.decompress(data), type=list[tuple[bytes, Entry]]))
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise HostError(f"a snapshot's manifest cannot be read: {error}") from None


def _encode(entries: Manifest) -> bytes:
    return gzip.compress(msgspec.msgpack.encode(sorted(entries.items())), 1, mtime=0)


class Payload:
    """The compressed tar that makes a job on a host (layout: remoterun/sh/start.sh). Made once, read once."""

    def __init__(
        self,
        root: Path,
        tree: Tree | None,
        change: Difference | None,
        files: Iterable[PlanFile],
    ) -> None:
        """``change`` is None when the host has the tree already; then ``tree`` may be, too."""
        self.sent_bytes = 0
        self._file: IO[bytes] = SpooledTemporaryFile(_SPOOL)  # noqa: SIM115 - closed by close()
        with (
            gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(
                fileobj=packed,
                mode="w|",
                format=tarfile.GNU_FORMAT,
                encoding="utf-8",
                errors="surrogateescape",
                bufsize=_PIECE,
            ) as tar,
        ):
            if change is not None and tree is not None:
                self._add_tree(tar, root, tree, change)
            for file in files:
                _add_bytes(tar, f"job/{file.name}", file.content.encode("utf-8", "surrogateescape"), file.mode)
            _add_bytes(tar, "whole", b"", 0o600)
        self.size = self._file.tell()

    def _add_tree(self, tar: tarfile.TarFile, root: Path, tree: Tree, change: Difference) -> None:
        _add_folder(tar, "tree")
        for path in change.send:
            entry = tree.entries[path]
            self._add_entry(tar, root, path, entry)
            self.sent_bytes += entry.size
        _add_bytes(tar, "removed", b"".join(path + b"\0" for path in change.remove), 0o600)
        _add_bytes(tar, "manifest", tree.manifest, 0o600)

    def _add_entry(self, tar: tarfile.TarFile, root: Path, path: bytes, entry: Entry) -> None:
        info = tarfile.TarInfo(os.fsdecode(b"tree/" + path))
        info.mode = entry.mode
        full = os.path.join(os.fsencode(root), path)
        if entry.kind == "l":
            info.type = tarfile.SYMTYPE
            info.linkname = os.fsdecode(entry.content)
            tar.addfile(info)
        elif entry.kind == "d":
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        else:
            info.size = entry.size
            try:
                with open(full, "rb") as source:
                    info.mtime = int(os.fstat(source.fileno()).st_mtime)
                    checked = _Checked(source)
                    tar.addfile(info, checked)
                    if source.read(1) or checked.digest != entry.content:
                        raise ChangedWhileRead(os.fsdecode(path))
            except (FileNotFoundError, OSError) as error:
                raise ChangedWhileRead(os.fsdecode(path)) from error

    def pieces(self, progress: Callable[[int, int], None] = lambda done, total: None) -> Iterator[bytes]:
        """The payload's bytes. ``progress`` gets how many are on their way, and how many there are."""
        self._file.seek(0)
        done = 0
        while piece := self._file.read(_PIECE):
            yield piece
            done += len(piece)
            progress(done, self.size)

    def close(self) -> None:
        """Let go of the spool."""
        self._file.close()


class ChangedWhileRead(Exception):
    """A file is no longer what the tree says; read the tree again."""


class _Checked(io.RawIOBase):
    """A file that is hashed as it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._hasher = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(size)
        self._hasher.update(data)
        return data

    @property
    def digest(self) -> bytes:
        return self._hasher.digest()


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = mode
    tar.addfile(info, io.BytesIO(data))


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    info.mode = 0o755
    tar.addfile(info)
