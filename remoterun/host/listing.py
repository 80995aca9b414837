"""What lies in a job's folder on its host, and which of it is wanted here. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from remoterun.errors import UsageError
from remoterun.host.project import LEFT_OUT


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file (``kind`` f), link (l), folder (d) or other thing: ``size`` in bytes, ``mtime_ns`` since 1970.

    Two that are equal are taken for the same content, as rsync does.
    """

    kind: str
    size: int
    mtime_ns: int
    target: bytes = b""


Listing = dict[bytes, RemoteFile]


def parse_listing(output: bytes) -> tuple[Listing, Listing]:
    """The answer of ``rr_list``: files of the job's folder, and of the pristine snapshot, by path."""
    fields = output.split(b"\0")
    job: Listing = {}
    tree: Listing = {}
    for at in range(0, len(fields) - 4, 5):
        kind, size, time, path, target = fields[at : at + 5]
        try:
            entry = RemoteFile(kind.decode("ascii"), int(size), _nanoseconds(time), target)
        except ValueError:
            continue
        if path.startswith(b"tree/"):
            tree[_plain(path[5:])] = entry
        else:
            job[_plain(path)] = entry
    return job, tree


def _plain(path: bytes) -> bytes:
    return path[2:] if path.startswith(b"./") else path


def _nanoseconds(time: bytes) -> int:
    whole, _, fraction = time.partition(b".")
    return int(whole) * 10**9 + int((fraction[:9] or b"0").ljust(9, b"0"))


def made_by_job(job: Listing, tree: Listing) -> Listing:
    """``out/``, and what the job created or changed in ``code/`` (caches left out, as they are on the way there)."""
    wanted: Listing = {}
    for path, entry in job.items():
        if path.startswith(b"out/"):
            wanted[path] = entry
        elif path.startswith(b"code/") and entry.kind != "d":
            inside = path[5:]
            if tree.get(inside) != entry and not _left_out(inside):
                wanted[path] = entry
    return wanted


def _left_out(path: bytes) -> bool:
    parts = path.decode("utf-8", "surrogateescape").split("/")
    return path.endswith(b".pyc") or any(part in LEFT_OUT for part in parts)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A path or glob of a job's folder, as typed: ``root`` is its part without wildcards, which the host lists."""

    root: str
    pattern: re.Pattern[str] | None

    def fits(self, path: bytes) -> bool:
        """Whether a listed path is wanted: it matches, or lies in a folder that does."""
        return self.pattern is None or self.pattern.match(path.decode("utf-8", "surrogateescape")) is not None


def parse_path(text: str) -> Wanted:
    """``out/model.pt``, ``out``, ``out/**/*.pt``, ``log``. Raises UsageError for one that leads out of the job's folder."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or ".." in parts or not parts or "\0" in text:
        raise UsageError(
            f"{text!r} is no path in a job's folder",
            hint="such as out/checkpoints, 'out/*.pt', code/results.csv or log",
        )
    plain = []
    for part in parts:
        if re.search(r"[*?\[]", part):
            break
        plain.append(part)
    if len(plain) == len(parts):
        return Wanted("/".join(parts), None)
    expression = "/".join(_segment(part) for part in parts).replace("(?:.*/)?/", "(?:.*/)?")
    return Wanted("/".join(plain) or ".", re.compile(rf"{expression}(?:/.*)?\Z", re.DOTALL))


def _segment(part: str) -> str:
    """One part of a glob: ``*`` and ``?`` stay within it, ``**`` does not."""
    if part == "**":
        return "(?:.*/)?"
    out, at = "", 0
    while at < len(part):
        sign = part[at]
        at += 1
        end = part.find("]", at + 1) if sign == "[" else -1
        if sign == "*":
            out += "[^/]*"
        elif sign == "?":
            out += "[^/]"
        elif end > 0:
            inside = part[at:end].replace("\\", "\\\\").replace("[", "\\[")
            out += f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]"
            at = end + 1
        else:
            out += re.escape(sign)
    return out


def choose(job: Listing, tree: Listing, wanted: Iterable[Wanted]) -> Listing:
    """What is wanted of all that was listed; without paths what the job made."""
    asked = tuple(wanted)
    if not asked:
        return made_by_job(job, tree)
    return {path: entry for path, entry in job.items() if any(_under(one, path) for one in asked)}


def _under(wanted: Wanted, path: bytes) -> bool:
    root = wanted.root.encode("utf-8", "surrogateescape")
    inside = wanted.root == "." or path == root or path.startswith(root + b"/")
    return inside and wanted.fits(path)


def twins(paths: Iterable[bytes]) -> Mapping[bytes, bytes]:
    """Paths that are one and the same on a disk that ignores case or the composition of accents: later → first."""
    import unicodedata

    first: dict[str, bytes] = {}
    found: dict[bytes, bytes] = {}
    for path in paths:
        key = unicodedata.normalize("NFC", path.decode("utf-8", "surrogateescape")).casefold()
        if key in first:
            found[path] = first[key]
        else:
            first[key] = path
    return found
