"""Variables for a job, from the command line and from files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from remoterun.errors import UsageError
from remoterun.plan.shell import check_variable


def read_environment(pairs: Iterable[str], files: Iterable[str]) -> dict[str, str]:
    """``K=V`` pairs over the files' lines; ``K`` alone takes the value from this environment.

    A file's lines are K=V, taken as they stand (no quotes are removed, as docker does it); empty lines and
    those beginning with # are passed over. Raises UsageError naming file and line.
    """
    values: dict[str, str] = {}
    for name in files:
        try:
            text = Path(name).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from None
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                values.update([_pair(line, f"{name}:{number}: ")])
    for pair in pairs:
        values.update([_pair(pair, "--env: ")])
    return values


def _pair(text: str, where: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    key = key.strip().removeprefix("export ").strip()
    try:
        check_variable(key)
    except UsageError as error:
        raise UsageError(where + error.message, hint="K=V") from None
    if not found:
        if key not in os.environ:
            raise UsageError(f"{where}{key} is not set here", hint=f"{key}=VALUE")
        value = os.environ[key]
    if key.startswith("REMOTERUN_"):
        raise UsageError(f"{where}{key} is remoterun's own")
    return key, value
