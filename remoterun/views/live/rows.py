"""Readings → the lines of the live view, as text with names of styles. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from remoterun.fleet.watching import Reading
from remoterun.model.gpu import Gpu, GpuState
from remoterun.plan.gpu_filter import GpuFilter
from remoterun.views.gpus import age_words, dash, host_words, kept, mig_line, power, short_name, who
from remoterun.views.live.marks import bar, level, spark
from remoterun.views.tables import cell_width, cut, printable

SORTS = ("host", "util", "memory", "temp", "user", "state")
Spans = tuple[tuple[str, str], ...]
STYLE = {
    GpuState.FREE: "green",
    GpuState.ERROR: "red",
    GpuState.LOST: "red",
    GpuState.UNKNOWN: "yellow",
    GpuState.UNSETTLED: "yellow",
    GpuState.RESERVED: "cyan",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line. ``key`` names what it is about, so that the cursor stays with it."""

    key: tuple[str, str]
    spans: Spans
    host: str = ""
    uuid: str | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """How the view is looked at."""

    width: int
    now: float
    beat_s: float
    wanted: GpuFilter = GpuFilter()
    sort: str = "host"
    grid: bool = False
    ascii_only: bool = False
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)


def rows(readings: Sequence[Reading], look: Look) -> list[Row]:
    """All lines of the view."""
    found = _groups(readings, look)
    if look.grid:
        return found + [row for reading in readings for row in _grid(reading, look)]
    if look.sort == "host":
        return found + [row for reading in readings for row in _host(reading, look)]
    pairs = [(reading, gpu) for reading in readings for gpu in kept(reading, look.wanted)]
    pairs.sort(key=lambda pair: _order(pair[1], look.sort))
    names = max((len(reading.host) for reading, _ in pairs), default=0)
    found += [_gpu(reading, gpu, look, host_width=min(names, 24)) for reading, gpu in pairs]
    return found + [_dark(reading, look) for reading in readings if reading.round is None and look.wanted.empty]


def totals(readings: Sequence[Reading]) -> str:
    """Sums over hosts in words."""
    answered = [reading.round for reading in readings if reading.round is not None]
    gpus = [gpu for found in answered for gpu in found.gpus.gpus]
    busy = [gpu.utilization_pct for gpu in gpus if gpu.utilization_pct is not None]
    memory = [(gpu.memory_used_mib, gpu.memory_total_mib) for gpu in gpus]
    known = [(used, total) for used, total in memory if used is not None and total is not None]
    drawn = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    words = [f"{len(readings)} host" + ("s" if len(readings) != 1 else "")]
    if dark := sum(reading.error is not None for reading in readings):
        words.append(f"{dark} dark")
    words.append(f"{len(gpus)} GPUs, {sum(gpu.pickable for gpu in gpus)} free")
    if busy:
        words.append(f"util {sum(busy) / len(busy):.0f}%")
    if known:
        words.append(f"mem {sum(used for used, _ in known) / 1024:.0f}/{sum(total for _, total in known) / 1024:.0f}G")
    if drawn:
        words.append(f"{sum(drawn) / 1000:.1f} kW")
    return "  ".join(words)


def _groups(readings: Sequence[Reading], look: Look) -> list[Row]:
    found = []
    for name, members in look.groups.items():
        inside = [reading for reading in readings if reading.host in members]
        if inside and look.wanted.empty:
            found.append(Row(("group", name), ((f"@{name}  {totals(inside)}", "bold"),)))
    return found


def _host(reading: Reading, look: Look) -> list[Row]:
    if reading.round is None:
        return [_dark(reading, look)] if look.wanted.empty else []
    gpus = kept(reading, look.wanted)
    if not gpus and not look.wanted.empty:
        return []
    old = age_words(reading, look.now, look.beat_s)
    head: list[tuple[str, str]] = [(reading.host, "dim" if old else "bold")]
    head.append(("  " + "  ".join(host_words(reading)), "dim" if old else ""))
    if old:
        head.insert(1, (f"  {printable(old)}", "yellow"))
    found = [Row(("host", reading.host), tuple(head), reading.host)]
    for gpu in gpus:
        found.append(_gpu(reading, gpu, look))
        for number, device in enumerate(gpu.mig_devices):
            found.append(Row((reading.host, device.uuid), ((f"      {mig_line(gpu, number)}", "dim"),), reading.host))
    said = [text for text in (reading.round.gpus.problem, *reading.round.gpus.warnings) if text]
    return found + [Row((reading.host, text), ((f"     {printable(text)}", "yellow"),), reading.host) for text in said]


def _dark(reading: Reading, look: Look) -> Row:
    said = printable(age_words(reading, look.now, look.beat_s))
    return Row(
        ("host", reading.host),
        ((reading.host, "dim"), (f"  {said}", "yellow" if reading.error else "dim")),
        reading.host,
    )


def _gpu(reading: Reading, gpu: Gpu, look: Look, host_width: int = 0) -> Row:
    """A GPU's line: what there is room for."""
    width, plain = look.width, look.ascii_only
    old = bool(age_words(reading, look.now, look.beat_s))
    style = "dim" if old else STYLE.get(gpu.state, "")
    wide = 6 if width < 100 else 10 if width < 160 else 16
    spans: list[tuple[str, str]] = []
    if host_width:
        spans.append((_fit(reading.host, host_width) + " ", "dim" if old else "bold"))
    spans.append((f"{dash(gpu.index):>3} ", style))
    if width >= 120:
        spans.append((_fit(short_name(gpu), 18) + " ", "dim" if old else ""))
    busy = None if gpu.utilization_pct is None else gpu.utilization_pct / 100
    spans.append((bar(busy, wide, ascii_only=plain), "dim" if old else "cyan"))
    spans.append((f"{dash(gpu.utilization_pct):>4}% ", "dim" if old else ""))
    used, total = gpu.memory_used_mib, gpu.memory_total_mib
    spans.append(
        (bar(used / total if used is not None and total else None, wide, ascii_only=plain), "dim" if old else "magenta")
    )
    spans.append((f"{_gib(used):>4}/{_gib(total)}".ljust(9), "dim" if old else ""))
    if width >= 100:
        past = reading.history.get(gpu.uuid or "", ())
        spans.append((spark(past, 12 if width < 160 else 24, ascii_only=plain) + " ", "dim" if old else "green"))
    spans.append((f"{dash(gpu.temperature_c):>3}C ", "dim" if old else "red" if (gpu.temperature_c or 0) >= 85 else ""))
    if width >= 90:
        spans.append((f"{power(gpu):>8}W ", "dim" if old else ""))
    spans.append((f"{gpu.state.value:<9} ", style))
    spans.append((who(gpu), "dim" if old else ""))
    job = gpu.lease.job if gpu.lease and gpu.lease.job != "-" else None
    return Row((reading.host, gpu.uuid or str(gpu.index)), tuple(spans), reading.host, gpu.uuid, job)


def _grid(reading: Reading, look: Look) -> list[Row]:
    """A host in as few lines as may be: one column for each GPU."""
    if reading.round is None:
        return [_dark(reading, look)] if look.wanted.empty else []
    gpus = kept(reading, look.wanted)
    if not gpus and not look.wanted.empty:
        return []
    old = bool(age_words(reading, look.now, look.beat_s))
    free = sum(gpu.pickable for gpu in gpus)
    head = f"{_fit(reading.host, 20)} {free:>3}/{len(gpus):<3} "
    room = max(8, look.width - cell_width(head) - 1)
    found = []
    for start in range(0, max(1, len(gpus)), room):
        cells = tuple(
            (_cell(gpu, look), "dim" if old else STYLE.get(gpu.state, "")) for gpu in gpus[start : start + room]
        )
        first = (head if start == 0 else " " * cell_width(head), "dim" if old else "bold")
        found.append(Row(("host" if start == 0 else f"host{start}", reading.host), (first, *cells), reading.host))
    return found


def _cell(gpu: Gpu, look: Look) -> str:
    marks = {GpuState.ERROR: "!", GpuState.LOST: "x", GpuState.MIG: "m", GpuState.UNKNOWN: "?", GpuState.DISPLAY: "d"}
    if gpu.state is GpuState.FREE:
        return "." if look.ascii_only else "·"
    return marks.get(gpu.state) or level(gpu.utilization_pct or 0, ascii_only=look.ascii_only)


def _order(gpu: Gpu, sort: str) -> tuple[bool, float | str]:
    """The busiest first; what is not known, last."""
    if sort == "user":
        user = gpu.lease.user if gpu.lease else None
        user = user or next((process.user for process in gpu.processes if process.user), None)
        return user is None, user or ""
    if sort == "state":
        return False, gpu.state.value
    value = {"util": gpu.utilization_pct, "memory": gpu.memory_used_mib, "temp": gpu.temperature_c}[sort]
    return value is None, -(value or 0)


def _gib(mib: int | None) -> str:
    return "-" if mib is None else f"{mib / 1024:.0f}G" if mib >= 10240 or mib == 0 else f"{mib / 1024:.1f}"


def _fit(text: str, width: int) -> str:
    short = cut(printable(text), width)
    return short + " " * (width - cell_width(short))
