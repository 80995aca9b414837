"""What ``gc`` would free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from remoterun.fleet.listing import Answer
from remoterun.fleet.space import Space
from remoterun.views.documents import SCHEMA, error_object
from remoterun.views.progress import size_words


def space_text(answers: Sequence[Answer[Space]]) -> str:
    """A part for each host: what goes, how much that is, what is taken and free."""
    lines = []
    for answer in answers:
        name, space = answer.remote.host.name, answer.value
        if space is None:
            lines.append(f"{name}: {answer.error.message if answer.error else 'no answer'}")
            continue
        free = "?" if space.free_kib is None else size_words(space.free_kib << 10)
        lines.append(
            f"{name}: would free {size_words(space.removal.kib << 10)} of {size_words(space.used_kib << 10)} "
            f"that remoterun has there; {free} are free"
        )
        lines += [f"  job {job.id}  {size_words(job.kib << 10)}" for job in space.removal.jobs]
        lines += [
            f"  snapshot {tree.project}/{tree.tree[:12]}  {size_words(tree.kib << 10)}" for tree in space.removal.trees
        ]
    return "".join(line + "\n" for line in lines)


def space_document(answers: Sequence[Answer[Space]], *, removed: bool) -> dict[str, Any]:
    """``gc --json``: sizes in bytes."""
    hosts: list[dict[str, Any]] = []
    for answer in answers:
        space = answer.value
        hosts.append(
            {
                "host": answer.remote.host.name,
                "error": error_object(answer.error) if answer.error else None,
                "jobs": [job.id for job in space.removal.jobs] if space else None,
                "snapshots": [tree.tree for tree in space.removal.trees] if space else None,
                "frees_bytes": space.removal.kib << 10 if space else None,
                "used_bytes": space.used_kib << 10 if space else None,
                "free_bytes": None if space is None or space.free_kib is None else space.free_kib << 10,
            }
        )
    return {"schema": SCHEMA, "removed": removed, "hosts": hosts}
