"""Spans of time as people type them. PURE."""

from __future__ import annotations

import re

from remoterun.errors import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN = re.compile(r"(?:\d{1,9}(?:\.\d{1,6})?[smhdw])+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)


def parse_duration(text: str, what: str) -> int:
    """Whole seconds (at least 1) of ``90``, ``90s``, ``30m``, ``1h30m``, ``2d``; a bare number is seconds.

    ``what`` names the option in the error. Raises UsageError.
    """
    typed = text.strip().lower()
    total: float
    if re.fullmatch(r"\d{1,9}", typed, re.ASCII):
        total = float(typed)
    elif _SPAN.fullmatch(typed):
        total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(typed))
    else:
        raise UsageError(f"{what}: {text!r} is no span of time", hint="such as 90s, 30m, 2h, 1h30m or 2d")
    if total < 1:
        raise UsageError(f"{what}: {text!r} is less than a second", hint="such as 90s, 30m, 2h, 1h30m or 2d")
    if total > 10 * 366 * 86400:
        raise UsageError(f"{what}: {text!r} is more than ten years")
    return round(total)


def in_words(seconds: float) -> str:
    """A span in its two largest units, as :func:`parse_duration` reads it: ``1h30m``, ``45s``."""
    left, parts = round(seconds), []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
