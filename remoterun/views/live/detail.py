"""One GPU, or one job with its GPUs, in full. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from remoterun.fleet.watching import Reading
from remoterun.model.gpu import Gpu
from remoterun.views.gpus import age_words, dash, power
from remoterun.views.live.marks import graph
from remoterun.views.live.rows import Look, Row
from remoterun.views.tables import printable, seconds

_HEIGHT = 6


def gpu_rows(reading: Reading, uuid: str, look: Look, history: str) -> list[Row]:
    """The screen of one GPU. ``history``: lines of its job's gpu.csv."""
    gpu = _find(reading, uuid)
    if gpu is None:
        return [_row(f"{uuid} is not there any more", "yellow")]
    found = [_row(f"{reading.host}  GPU {dash(gpu.index)}  {gpu.name or '-'}", "bold")]
    if old := age_words(reading, look.now, look.beat_s):
        found.append(_row(printable(old), "yellow"))
    facts = {
        "state": gpu.state.value + (f": {gpu.reason}" if gpu.reason else ""),
        "uuid": gpu.uuid,
        "bus": gpu.bus_id,
        "memory": f"{dash(gpu.memory_used_mib)} of {dash(gpu.memory_total_mib)} MiB used, {dash(gpu.memory_free_mib)} free",
        "power": f"{power(gpu)} W",
        "temperature": f"{dash(gpu.temperature_c)} C, fan {dash(gpu.fan_pct)} %, {gpu.pstate or '-'}",
        "modes": f"compute {gpu.compute_mode or '-'}, persistence {_yes(gpu.persistence)}, display {_yes(gpu.display)}, MIG {_yes(gpu.mig_mode)}",
        "job": _lease(gpu),
    }
    found += [_row(f"  {key:<12} {printable(str(value))}") for key, value in facts.items() if value]
    found.append(_row(""))
    found += [
        _process(process.pid, process.user, process.memory_mib, process.age_s, process.command)
        for process in gpu.processes
    ]
    found += _graph("utilisation, seen from here", reading.history.get(uuid, ()), look)
    if gpu.lease:
        found += _graph(f"utilisation over job {gpu.lease.job}", _column(history, uuid, 3), look)
    return found


def job_rows(reading: Reading, job: str, look: Look, history: str) -> list[Row]:
    """The screen of one job: each of its GPUs over its whole run."""
    gpus = [gpu for gpu in (reading.round.gpus.gpus if reading.round else ()) if gpu.lease and gpu.lease.job == job]
    found = [_row(f"{job}  on {reading.host}", "bold")]
    if old := age_words(reading, look.now, look.beat_s):
        found.append(_row(printable(old), "yellow"))
    if not gpus:
        return [*found, _row("it holds no GPU here any more", "yellow")]
    lease = gpus[0].lease
    if lease:
        found.append(_row(f"  of {lease.user or '-'}, since {lease.since or '-'}, {len(gpus)} GPUs"))
    if not history:
        found.append(_row("  no history can be read: the job is another login's, or has just begun", "dim"))
    for gpu in gpus:
        now = f"now {dash(gpu.utilization_pct)} %, {dash(gpu.memory_used_mib)} MiB, {dash(gpu.temperature_c)} C, {power(gpu)} W"
        past = _column(history, gpu.uuid or "", 3) or reading.history.get(gpu.uuid or "", ())
        found += _graph(f"GPU {dash(gpu.index)}  {now}", past, look)
        found += [_process(each.pid, each.user, each.memory_mib, each.age_s, each.command) for each in gpu.processes]
    return found


def _graph(title: str, values: Sequence[float | None], look: Look) -> list[Row]:
    lines = graph(values, max(10, look.width - 8), _HEIGHT, ascii_only=look.ascii_only)
    marks = {0: "100%", _HEIGHT - 1: "  0%"}
    return [_row(f"  {title}", "bold")] + [
        Row(("graph", ""), ((f"{marks.get(number, ''):>5} ", "dim"), (line, "cyan")))
        for number, line in enumerate(lines)
    ]


def _column(history: str, uuid: str, column: int) -> list[float | None]:
    """One number of each line of gpu.csv that is about this GPU (sh/watch.sh: timestamp, index, uuid, utilisation …)."""
    values: list[float | None] = []
    for line in history.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) > column and cells[2] == uuid:
            values.append(float(cells[column]) if cells[column].isascii() and cells[column].isdigit() else None)
    return values


def _process(pid: int, user: str | None, memory: int | None, age: int | None, command: str | None) -> Row:
    words = f"  {pid:>8}  {user or '-':<10} {dash(memory):>7} MiB  {seconds(age):>7}  {printable(command or '-')}"
    return _row(words)


def _lease(gpu: Gpu) -> str | None:
    if gpu.lease is None:
        return None
    return f"{gpu.lease.job} of {gpu.lease.user or '-'}, since {gpu.lease.since or '-'}"


def _find(reading: Reading, uuid: str) -> Gpu | None:
    gpus = reading.round.gpus.gpus if reading.round else ()
    return next((gpu for gpu in gpus if gpu.uuid == uuid), None)


def _yes(value: bool | None) -> str:
    return "-" if value is None else "on" if value else "off"


def _row(text: str, style: str = "") -> Row:
    return Row(("text", ""), ((text, style),))
