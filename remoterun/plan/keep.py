"""Which ended jobs and snapshots may go. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from remoterun.errors import UsageError
from remoterun.model.host import Keep
from remoterun.plan.durations import parse_duration

# A snapshot this young may be the base of a launch that is on its way, in seconds.
YOUNG_S = 3600
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class StoredJob:
    """One job as it lies on its host: ``ended`` whether nothing more comes of it, ``at`` when (seconds since 1970),
    ``kib`` its size; ``project`` and ``tree`` name its snapshot; ``needs`` another job that it may still read from."""

    id: str
    ended: bool
    at: int
    kib: int
    project: str
    tree: str
    needs: str | None = None


@dataclass(frozen=True, slots=True)
class StoredTree:
    """One pristine snapshot: when it was last used (seconds since 1970), and its size."""

    project: str
    tree: str
    at: int
    kib: int


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes, in KiB and by name."""

    jobs: tuple[StoredJob, ...]
    trees: tuple[StoredTree, ...]

    @property
    def kib(self) -> int:
        """How much that frees, at the least."""
        return sum(job.kib for job in self.jobs) + sum(tree.kib for tree in self.trees)


def parse_size(text: str, what: str) -> int:
    """Bytes of ``200g``, ``1.5t``, ``500m``. Raises UsageError."""
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,3})?)\s*([bkmgt]?)(?:i?b)?\s*", text.lower(), re.ASCII)
    if not found:
        raise UsageError(f"{what}: {text!r} is no size", hint="such as 500m, 200g or 1.5t")
    return int(float(found[1]) * _UNITS[found[2]])


def choose_removals(jobs: Sequence[StoredJob], trees: Iterable[StoredTree], keep: Keep | None, now: int) -> Removal:
    """Ended jobs beyond what ``keep`` keeps (all of its limits hold; None keeps every job), and snapshots that no
    remaining job has, but for the newest of each project and young ones.

    A job that is not ended never goes, nor one that such a job may still read its checkpoint from.
    """
    needed = {job.needs for job in jobs if not job.ended and job.needs}
    age = None if keep is None or keep.age is None else parse_duration(keep.age, "age")
    most = None if keep is None or keep.bytes is None else parse_size(keep.bytes, "bytes")
    going: list[StoredJob] = []
    kept_bytes = 0
    ended = sorted((job for job in jobs if job.ended), key=lambda job: (job.at, job.id), reverse=True)
    for number, job in enumerate(ended):
        kept_bytes += job.kib << 10
        beyond = keep is not None and (
            (keep.count is not None and number >= keep.count)
            or (age is not None and now - job.at > age)
            or (most is not None and kept_bytes > most)
        )
        if beyond and job.id not in needed:
            going.append(job)
    gone = {job.id for job in going}
    used = {(job.project, job.tree) for job in jobs if job.id not in gone}
    return Removal(tuple(going), tuple(_unused(trees, used, now)))


def _unused(trees: Iterable[StoredTree], used: set[tuple[str, str]], now: int) -> Iterable[StoredTree]:
    newest: set[str] = set()
    for tree in sorted(trees, key=lambda tree: tree.at, reverse=True):
        first = tree.project not in newest
        newest.add(tree.project)
        # The newest is what the next launch is compared with.
        if not first and (tree.project, tree.tree) not in used and now - tree.at > YOUNG_S:
            yield tree
