"""The sync step by itself: the project's files as a snapshot on a host, without a job. And snapshots compared."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from remoterun.errors import HostError, UsageError
from remoterun.fleet.launching import LaunchRequest, find_base, keep_manifest, read_source
from remoterun.host.conversation import Conversation
from remoterun.host.look import look
from remoterun.host.project import find_project
from remoterun.host.remote import Remote
from remoterun.host.snapshot import Entry, Manifest, Payload, Tree, decode_manifest, difference
from remoterun.model.job import JobStatus

# A larger file is compared, not shown, in bytes.
_SHOWN = 1 << 20


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync sent or would send: sizes in bytes by path; ``files`` and ``bytes`` of the whole tree; ``base``: the
    older snapshot that it is built on."""

    host: str
    tree: str
    files: int
    bytes: int
    sending: Mapping[str, int]
    base: str | None
    there: bool


def sync(remote: Remote, request: LaunchRequest, *, dry_run: bool) -> Synced:
    """Make the snapshot of the project around ``request.folder`` on the host, or only say what would be sent."""
    project = find_project(request.folder, force=request.insist)
    source = read_source(project, request.state)
    for warning in source.warnings:
        request.notice(warning)
    with remote.converse() as conversation:
        facts = look(remote, conversation, project.key, None, gpus=False)
        base, entries = find_base(remote, conversation, source, facts, request.state)
        tree = source.tree
        there = entries is tree.entries
        change = None if there else difference(entries or {}, tree.entries)
        names = () if change is None else change.send
        sending = {os.fsdecode(path): tree.entries[path].size for path in names}
        if not dry_run and change is not None:
            payload = Payload(source.root, tree, change, ())
            words = [facts.workdir, project.key, tree.id, base or "", str(payload.size)]
            try:
                reply = conversation.ask(
                    "rr_sync", words, libraries=["lib", "start"], payload=payload.pieces(request.progress), timeout=None
                )
            finally:
                payload.close()
            remote.check(reply, f"syncing {project.name}")
            keep_manifest(request.state, tree)
        return Synced(remote.host.name, tree.id, len(tree.entries), tree.size, sending, base, there)


@dataclass(frozen=True, slots=True)
class Change:
    """One path that two snapshots do not share alike: ``kind`` is added, removed or changed; ``old`` and ``new`` are
    its contents, None where it is not there, or is too large or no file."""

    path: str
    kind: str
    old: bytes | None
    new: bytes | None


def compare_with_tree(remote: Remote, job: JobStatus, request: LaunchRequest) -> tuple[Change, ...]:
    """A job's snapshot against the project's files here."""
    project = find_project(request.folder, force=request.insist or str(request.folder))
    source = read_source(project, request.state)
    with remote.converse() as conversation:
        old = _manifest(remote, conversation, job)
        paths = _differing(old, source.tree.entries)
        contents = _contents(remote, conversation, job, old, paths)
    return tuple(
        Change(
            os.fsdecode(path),
            _kind(path, old, source.tree.entries),
            contents.get(path),
            _local(source.root, path, source.tree),
        )
        for path in paths
    )


def compare_jobs(one: tuple[Remote, JobStatus], two: tuple[Remote, JobStatus]) -> tuple[Change, ...]:
    """Two jobs' snapshots, on whichever hosts."""
    with one[0].converse() as first, two[0].converse() as second:
        old, new = _manifest(one[0], first, one[1]), _manifest(two[0], second, two[1])
        paths = _differing(old, new)
        before = _contents(one[0], first, one[1], old, paths)
        after = _contents(two[0], second, two[1], new, paths)
    return tuple(Change(os.fsdecode(path), _kind(path, old, new), before.get(path), after.get(path)) for path in paths)


def _differing(old: Manifest, new: Manifest) -> tuple[bytes, ...]:
    return tuple(sorted(path for path in {*old, *new} if old.get(path) != new.get(path)))


def _kind(path: bytes, old: Manifest, new: Manifest) -> str:
    return "added" if path not in old else "removed" if path not in new else "changed"


def _snapshot(job: JobStatus) -> tuple[str, str]:
    project, snapshot = job.record.get("project"), job.record.get("snapshot")
    if not isinstance(project, dict) or not isinstance(snapshot, dict):
        raise UsageError(f"{job.id} has no record of its snapshot")
    return str(project.get("key")), str(snapshot.get("tree"))


def _manifest(remote: Remote, conversation: Conversation, job: JobStatus) -> Manifest:
    key, tree = _snapshot(job)
    reply = conversation.ask("rr_manifest", [remote.host.workdir, key, tree], libraries=["lib", "facts"])
    if reply.status:
        raise HostError(
            f"the snapshot of {job.id} is no longer on {remote.host.name}", hint="gc removed it", host=remote.host.name
        )
    return decode_manifest(reply.out)


def _contents(
    remote: Remote, conversation: Conversation, job: JobStatus, manifest: Manifest, paths: tuple[bytes, ...]
) -> dict[bytes, bytes]:
    """Contents of files of a job's snapshot; links as their targets."""
    key, tree = _snapshot(job)
    found = {path: manifest[path].content for path in paths if path in manifest and manifest[path].kind == "l"}
    wanted = [path for path in paths if path in manifest and _is_shown(manifest[path])]
    if not wanted:
        return found
    names = b"".join(b"./" + path + b"\0" for path in wanted)
    words = [remote.host.workdir, key, tree, str(len(names))]
    reply = conversation.ask("rr_pack_tree", words, libraries=["lib", "files"], payload=[names], timeout=300)
    with tarfile.open(fileobj=io.BytesIO(reply.out), encoding="utf-8", errors="surrogateescape") as tar:
        for member in tar:
            source = tar.extractfile(member) if member.isreg() else None
            if source is not None:
                found[os.fsencode(member.name)[2:]] = source.read()
    return found


def _is_shown(entry: Entry) -> bool:
    return entry.kind == "f" and entry.size <= _SHOWN


def _local(root: Path, path: bytes, tree: Tree) -> bytes | None:
    entry = tree.entries.get(path)
    if entry is None:
        return None
    if entry.kind == "l":
        return entry.content
    return (root / os.fsdecode(path)).read_bytes() if _is_shown(entry) else None
