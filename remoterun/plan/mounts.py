"""``--data`` words + a host's ``data`` → the mounts of a job. PURE."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from difflib import get_close_matches

from remoterun.errors import UsageError
from remoterun.model.host import DataSource, Host, Mount

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def choose_mounts(asked: Sequence[str], host: Host, home: str) -> tuple[Mount, ...]:
    """The mounts that ``asked`` names: NAME of the host's ``data``, or SRC:DST[:ro|rw] with SRC a path on the host.

    ``home`` is the login's home there, which ``~`` stands for. Raises UsageError for a word that means nothing, for
    two mounts of one name or place, and for a kind of data that cannot be had yet.
    """
    found: list[Mount] = []
    for word in asked:
        source = _ad_hoc(word) if ":" in word else _named(word, host)
        if source.kind != "path":
            raise UsageError(
                f"data {source.name} is of kind {source.kind}, which this version cannot give to a job",
                hint=f"bring it to {host.name} or mount it there yourself, and name that folder: --data /its/path:{source.mount}",
                host=host.name,
            )
        mount = Mount(source.name, _expanded(source.source, home), source.mount, source.mode)
        for other in found:
            if mount.variable == other.variable or mount.path == other.path:
                same = mount.variable if mount.variable == other.variable else mount.path
                raise UsageError(f"two --data have the same place in the job: {same}", hint="give one another DST")
        found.append(mount)
    return tuple(found)


def unbound(mounts: Sequence[Mount]) -> tuple[str, ...]:
    """What a user of runtime none must know: without root nothing can be bound to another path there."""
    return tuple(
        f"runtime none cannot bind: the job finds data {mount.name} at {mount.source} (${mount.variable}), not at {mount.path}"
        for mount in mounts
        if mount.source != mount.path
    )


def _named(name: str, host: Host) -> DataSource:
    for source in host.data:
        if source.name == name:
            return source
    known = [source.name for source in host.data]
    near = get_close_matches(name, known, 1)
    raise UsageError(
        f"{host.name} has no data {name!r}",
        hint=f"did you mean {near[0]}?"
        if near
        else f"known: {', '.join(known) or 'none'}; a folder of the host: --data /its/path:/path/in/the/job",
        host=host.name,
    )


def _ad_hoc(word: str) -> DataSource:
    source, *rest = word.split(":")
    mode = rest.pop() if len(rest) == 2 else "ro"
    if len(rest) != 1 or mode not in ("ro", "rw") or any(ord(sign) < 32 or ord(sign) == 127 for sign in word):
        raise UsageError(f"--data {word!r} is neither NAME nor SRC:DST[:ro|rw]")
    target = rest[0]
    if not (source.startswith(("/", "~/")) or source == "~"):
        raise UsageError(
            f"--data {word}: {source!r} is no path on the host",
            hint="it begins with / or ~/; data from elsewhere is described in hosts.yaml",
        )
    if not target.startswith("/") or posixpath.normpath(target) in ("/", "//"):
        raise UsageError(f"--data {word}: the place in the job must be an absolute path below /, not {target!r}")
    target = "/" + posixpath.normpath(target).lstrip("/")
    name = posixpath.basename(target)
    if not _NAME.fullmatch(name):
        name = re.sub(r"[^A-Za-z0-9_-]", "_", name, flags=re.ASCII)
    return DataSource(name, "path", source, target, mode)


def _expanded(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return posixpath.normpath(path)
