"""Names and ids of jobs: the only place they are made or taken apart. PURE."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import PurePath

from remoterun.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_ID = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)-(?P<stamp>\d{4}-\d{6})-(?P<salt>[0-9a-f]{4})", re.ASCII)


def check_name(name: str) -> str:
    """``name`` if it may name a job (contract §5); else UsageError."""
    if not _NAME.fullmatch(name):
        shown = name if len(name) <= 80 else name[:77] + "…"
        raise UsageError(
            f"{shown!r} cannot name a job",
            hint="1 to 64 letters, digits, '.', '_', '-', beginning with a letter or digit",
        )
    return name


def default_name(target: str) -> str:
    """A name made of a script's, module's or program's own."""
    stem = PurePath(target).name
    for ending in (".py", ".sh"):
        stem = stem.removesuffix(ending)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem, flags=re.ASCII).lstrip("._-")[:64].rstrip("-")
    return stem or "job"


def slug(name: str) -> str:
    """How a name stands in an id: lower case, every other sign ``-``."""
    return re.sub(r"[^a-z0-9]", "-", name.lower())


def make_id(name: str, now: datetime, salt: str) -> str:
    """``<name>-<MMDD>-<HHMMSS>-<4 hex>``; ``now`` in the user's own time, ``salt`` four hex digits."""
    return f"{slug(check_name(name))}-{now:%m%d-%H%M%S}-{salt}"


def is_id(text: str) -> bool:
    """Whether ``text`` has the form of a whole id."""
    return _ID.fullmatch(text) is not None


def patterns(reference: str) -> tuple[str, ...]:
    """Shell patterns of the ids that ``reference`` (an id, a name, a prefix past the name) can mean.

    They may match more than is meant; :func:`matches` decides. Raises UsageError when it can mean no job.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", reference, re.ASCII):
        raise UsageError(f"{reference!r} is neither a job's id nor its name", hint="remoterun ps -a")
    plain = slug(reference)
    return (f"{plain}-[0-9][0-9][0-9][0-9]-*", f"{plain}*")


def matches(reference: str, job_id: str, name: str) -> int:
    """How ``reference`` fits a job: 3 its id, 2 its name as typed, 1 a prefix of the id past the name, 0 not."""
    if reference == job_id:
        return 3
    if reference == name:
        return 2
    if job_id.startswith(reference) and len(reference) > len(slug(name)) + 1:
        return 1
    return 0
