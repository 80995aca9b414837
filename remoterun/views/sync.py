"""What a sync sends, and what differs between snapshots."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from remoterun.fleet.syncing import Change, Synced
from remoterun.plan.sizes import by_folder, ignore_lines
from remoterun.views.documents import SCHEMA
from remoterun.views.progress import size_words
from remoterun.views.tables import printable

_ROWS = 12


def sync_text(synced: Synced, *, dry_run: bool) -> str:
    """One host: how much, the heaviest folders, and lines for .remoterunignore."""
    verb = "would send" if dry_run else "sent"
    size = sum(synced.sending.values())
    lines = [
        f"{synced.host}: {verb} {len(synced.sending)} of {synced.files} files, {size_words(size)} of {size_words(synced.bytes)}"
        + ("; it has all of it" if synced.there else "")
    ]
    weights = by_folder(synced.sending)
    lines += [
        f"  {size_words(weight.bytes):>8}  {weight.files:>6} files  {printable(weight.name)}"
        for weight in weights[:_ROWS]
    ]
    if len(weights) > _ROWS:
        lines.append(f"  and {len(weights) - _ROWS} more")
    hints = ignore_lines(synced.sending)
    if hints:
        lines += [
            "  to leave the heavy part at home, add to .remoterunignore:",
            *(f"    {printable(hint)}" for hint in hints[:_ROWS]),
        ]
    return "".join(line + "\n" for line in lines)


def sync_document(found: Sequence[Synced], *, dry_run: bool) -> dict[str, Any]:
    """``sync --json``."""
    return {
        "schema": SCHEMA,
        "dry_run": dry_run,
        "hosts": [
            {
                "host": one.host,
                "snapshot": one.tree,
                "files": one.files,
                "bytes": one.bytes,
                "sent_files": len(one.sending),
                "sent_bytes": sum(one.sending.values()),
                "sending": [{"path": path, "bytes": size} for path, size in one.sending.items()],
                "ignore": list(ignore_lines(one.sending)),
            }
            for one in found
        ],
    }


def diff_text(changes: Iterable[Change], *, names_only: bool) -> str:
    """Changes as a unified diff, or one line each."""
    lines: list[str] = []
    for change in changes:
        path = printable(change.path)
        if names_only:
            lines.append(f"{change.kind[0].upper()}  {path}")
            continue
        old, new = _text(change.old), _text(change.new)
        if (old is None and change.kind != "added") or (new is None and change.kind != "removed"):
            lines.append(f"{change.kind}: {path} (not text, or large)")
            continue
        before = "/dev/null" if change.kind == "added" else f"a/{path}"
        after = "/dev/null" if change.kind == "removed" else f"b/{path}"
        lines += difflib.unified_diff(old or [], new or [], before, after, lineterm="")
    return "".join(line + "\n" for line in lines)


def _text(data: bytes | None) -> list[str] | None:
    """Lines of a text; None where it is none."""
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
