"""Values → tables for people. Plain text in columns; colour only where the terminal wants it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone

from remoterun.errors import RemoterunError
from remoterun.host.checks import Check
from remoterun.model.facts import Facts
from remoterun.model.job import JobState, JobStatus

_STATE_COLOUR = {
    JobState.RUNNING: "32",
    JobState.SUCCEEDED: "36",
    JobState.FAILED: "31",
    JobState.LOST: "31",
    JobState.UNKNOWN: "33",
    JobState.QUEUED: "33",
    JobState.STARTING: "33",
    JobState.STOPPED: "2",
}


def columns(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, width: int, colours: Sequence[str] | None = None
) -> str:
    """A table: the last column is cut to what fits. ``colours``: an SGR code for each row's state, or ""."""
    table = [list(head), *[[printable(cell) for cell in row] for row in rows]]
    sizes = [max(cell_width(row[index]) for row in table) for index in range(len(head))]
    lines = []
    for number, row in enumerate(table):
        cells = [cell + " " * (size - cell_width(cell)) for cell, size in zip(row, sizes, strict=True)]
        line = cut("  ".join(cells).rstrip(), width)
        code = "1" if number == 0 else (colours[number - 1] if colours else "")
        lines.append(f"\033[{code}m{line}\033[0m" if colours is not None and code else line)
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """``text`` without anything that could move the cursor, retitle or clear the screen."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def cell_width(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def cut(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns, an ellipsis at its end where it was longer."""
    if width <= 0 or cell_width(text) <= width:
        return text
    kept, used = [], 0
    for sign in text:
        used += cell_width(sign)
        if used > width - 1:
            break
        kept.append(sign)
    return "".join(kept) + "…"


def jobs_table(jobs: Sequence[JobStatus], *, now: datetime, width: int, colour: bool) -> str:
    """``ps``."""
    rows = [
        (
            job.id,
            job.host,
            job.state.value + (f" {job.exit_code}" if job.state is JobState.FAILED and job.exit_code else ""),
            str(len(job.gpus)) if job.gpus else "-",
            duration((job.ended or now) - job.started) if job.started else "-",
            seconds(job.log_idle_s),
            _last_words(job),
        )
        for job in jobs
    ]
    head = ("JOB", "HOST", "STATE", "GPUS", "TIME", "IDLE", "LAST LINE")
    return columns(head, rows, width=width, colours=[_STATE_COLOUR[job.state] for job in jobs] if colour else None)


def _last_words(job: JobStatus) -> str:
    if job.stalled_s is not None:
        return f"stalled for {seconds(job.stalled_s)}: log silent, GPUs idle (remoterun stacks {job.id})"
    if job.reason and job.state is not JobState.FAILED:
        return job.reason
    return job.last_line or job.reason or ""


def duration(delta: object) -> str:
    """A time span in two units."""
    total = getattr(delta, "total_seconds", lambda: 0.0)()
    return seconds(max(0.0, total))


def seconds(value: float | None) -> str:
    """Seconds in two units, ``-`` for unknown."""
    if value is None:
        return "-"
    whole = int(value)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{secs:02}s" if minutes else f"{secs}s"


def _or_dash(value: object, unit: str = "") -> str:
    return "-" if value is None else f"{value}{unit}"


def hosts_table(hosts: Sequence[tuple[str, Facts | None, RemoterunError | None]], *, width: int, colour: bool) -> str:
    """``hosts``."""
    rows: list[tuple[str, ...]] = []
    colours: list[str] = []
    for name, facts, error in hosts:
        if facts is None:
            rows.append((name, "no", "", "", "", "", "", error.message if error else ""))
            colours.append("33")
            continue
        free = sum(gpu.pickable for gpu in facts.gpus.gpus)
        torch = facts.python.torch if facts.python else None
        rows.append(
            (
                name,
                "yes",
                f"{free}/{len(facts.gpus.gpus)}",
                _or_dash(facts.cpus),
                "-" if facts.load is None else f"{facts.load:.2f}",
                _gib(facts.memory_available_kib),
                _gib(facts.disk_available_kib),
                facts.gpus.problem or (f"torch {torch}" if torch else "no torch"),
            )
        )
        colours.append("")
    head = ("HOST", "UP", "GPUS FREE", "CPUS", "LOAD", "MEM FREE", "DISK FREE", "")
    return columns(head, rows, width=width, colours=colours if colour else None)


def _gib(kib: int | None) -> str:
    return "-" if kib is None else f"{kib / 1048576:.0f}G"


def local_time(time: datetime | None) -> str:
    """A time in the reader's own zone."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S") if time else "-"


def now() -> datetime:
    """Now, in UTC."""
    return datetime.now(timezone.utc)


def doctor_text(found: Mapping[str, Sequence[Check]], *, colour: bool) -> str:
    """``doctor``: a line for each check, its fix beneath."""
    lines = []
    for name, checks in found.items():
        lines.append(name)
        for check in checks:
            mark, code = {True: ("ok  ", "32"), False: ("FAIL", "31"), None: ("note", "33")}[check.ok]
            shown = f"\033[{code}m{mark}\033[0m" if colour else mark
            lines.append(f"  {shown} {check.name}: {printable(check.found)}")
            if check.fix:
                lines.append(f"       {printable(check.fix)}")
    return "\n".join(lines) + "\n"
