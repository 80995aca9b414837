"""Numbers as bars and graphs, in block characters or in ASCII. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*#@"


def bar(share: float | None, width: int, *, ascii_only: bool = False) -> str:
    """``share`` (0 to 1) of ``width`` columns; dots where it is not known."""
    if share is None:
        return "." * width if ascii_only else "·" * width
    filled = min(1.0, max(0.0, share)) * width
    if ascii_only:
        count = round(filled)
        return "#" * count + "-" * (width - count)
    whole = int(filled)
    rest = _EIGHTHS[int((filled - whole) * 8)] if whole < width else ""
    return ("█" * whole + rest).ljust(width)


def level(percent: float | None, *, ascii_only: bool = False) -> str:
    """One column as high as ``percent``; a blank where it is not known."""
    if percent is None:
        return " "
    marks = _ASCII_LEVELS if ascii_only else _LEVELS
    return marks[min(len(marks) - 1, max(0, int(percent * len(marks) / 100.001)))]


def spark(values: Sequence[float | None], width: int, *, ascii_only: bool = False) -> str:
    """The newest ``width`` values (per cent), the latest at the right."""
    shown = "".join(level(value, ascii_only=ascii_only) for value in values[-width:]) if width > 0 else ""
    return shown.rjust(width)


def graph(values: Sequence[float | None], width: int, height: int, *, ascii_only: bool = False) -> list[str]:
    """``height`` lines of a graph of per cent values, from the top; as many values as fit, each the mean of its share."""
    columns = thinned(values, width)
    lines = []
    for row in range(height, 0, -1):
        cells = []
        for value in columns:
            filled = 0.0 if value is None else value / 100 * height - (row - 1)
            if value is None or filled <= 0:
                cells.append(level(0, ascii_only=ascii_only) if row == 1 and value is not None else " ")
            elif filled >= 1:
                cells.append("#" if ascii_only else "█")
            else:
                cells.append(level(filled * 100, ascii_only=ascii_only))
        lines.append("".join(cells).rjust(width))
    return lines


def thinned(values: Sequence[float | None], count: int) -> list[float | None]:
    """At most ``count`` values: means of neighbours, unknown ones left out."""
    if len(values) <= count:
        return list(values)
    found: list[float | None] = []
    for number in range(count):
        part = values[number * len(values) // count : (number + 1) * len(values) // count]
        known = [value for value in part if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return found
