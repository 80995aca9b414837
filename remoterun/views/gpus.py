"""Readings of hosts → text in the manner of gpustat: a line for each host, one for each of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from remoterun.fleet.watching import Reading
from remoterun.model.gpu import Gpu, GpuState, HostLoad
from remoterun.plan.gpu_filter import GpuFilter
from remoterun.views.tables import cell_width, cut, printable, seconds

COLOUR = {
    GpuState.FREE: "32",
    GpuState.ERROR: "31",
    GpuState.LOST: "31",
    GpuState.UNKNOWN: "33",
    GpuState.UNSETTLED: "33",
    GpuState.RESERVED: "36",
}


def kept(reading: Reading, wanted: GpuFilter) -> list[Gpu]:
    """The GPUs of a host that a filter lets through."""
    if reading.round is None:
        return []
    return [gpu for gpu in reading.round.gpus.gpus if wanted.keeps(reading.host, gpu, reading.round.load.user)]


def filtered(reading: Reading, wanted: GpuFilter) -> Reading:
    """The reading with only those GPUs."""
    if wanted.empty or reading.round is None:
        return reading
    report = replace(reading.round.gpus, gpus=tuple(kept(reading, wanted)))
    return replace(reading, round=replace(reading.round, gpus=report))


def host_block(reading: Reading, wanted: GpuFilter, *, width: int, colour: bool) -> str:
    """One host, to its last line; empty where the filter leaves nothing of it."""
    lines: list[tuple[str, str]] = []
    found = reading.round
    if found is None:
        if wanted.empty:
            said = reading.error.message if reading.error else "no answer yet"
            lines.append((f"{reading.host}  unreachable: {said}", "33"))
        return _text(lines, width, colour)
    gpus = kept(reading, wanted)
    if not gpus and not wanted.empty:
        return ""
    lines.append(("  ".join([reading.host, *host_words(reading)]), "1"))
    for gpu in gpus:
        lines.append((gpu_line(gpu, gpus), COLOUR.get(gpu.state, "")))
        lines += [(f"      {mig_line(gpu, number)}", "2") for number in range(len(gpu.mig_devices))]
    lines += [(f"      {said}", "33") for said in (found.gpus.problem, *found.gpus.warnings) if said]
    return _text(lines, width, colour)


def host_words(reading: Reading) -> list[str]:
    """What is said of a host as a whole."""
    assert reading.round is not None
    gpus = reading.round.gpus
    words = [f"{len(gpus.gpus)} GPUs, {sum(gpu.pickable for gpu in gpus.gpus)} free" if gpus.gpus else "no GPU"]
    if gpus.driver:
        words.append(f"driver {gpus.driver}")
    return [*words, *load_words(reading.round.load)]


def load_words(load: HostLoad) -> list[str]:
    """Processors, memory and disk; what is not known is left out."""
    words = []
    if load.load is not None:
        words.append(f"load {load.load:.1f}/{load.cpus}" if load.cpus else f"load {load.load:.1f}")
    if load.memory_total_kib and load.memory_available_kib is not None:
        used = load.memory_total_kib - load.memory_available_kib
        words.append(f"mem {used / 1048576:.0f}/{load.memory_total_kib / 1048576:.0f}G")
    if load.disk_available_kib is not None:
        words.append(f"disk {load.disk_available_kib / 1048576:.0f}G free")
    return words


def gpu_line(gpu: Gpu, beside: Iterable[Gpu]) -> str:
    """One GPU; columns are as wide as its neighbours need."""
    names = max(cell_width(short_name(other)) for other in beside)
    name = short_name(gpu)
    return (
        f"  [{dash(gpu.index)}] {name}{' ' * (names - cell_width(name))} | {dash(gpu.temperature_c):>3} C, "
        f"{dash(gpu.utilization_pct):>3} %, {power(gpu):>7} W | {dash(gpu.memory_used_mib):>6} / "
        f"{dash(gpu.memory_total_mib):>6} MiB | {gpu.state.value:<9} | {who(gpu)}"
    ).rstrip(" |")


def mig_line(gpu: Gpu, number: int) -> str:
    """One MIG device."""
    device = gpu.mig_devices[number]
    memory = f"{dash(device.memory_used_mib)} / {dash(device.memory_total_mib)} MiB"
    return f"{device.profile or 'MIG'}  {memory}  {device.state.value}  {device.uuid}"


def short_name(gpu: Gpu) -> str:
    """Its model, without the maker's name."""
    return printable((gpu.name or "-").removeprefix("NVIDIA "))


def power(gpu: Gpu) -> str:
    """Watts drawn against the limit."""
    return f"{dash(gpu.power_w)}/{dash(gpu.power_limit_w)}"


def who(gpu: Gpu) -> str:
    """Whose it is: lease, processes, and why it cannot be used."""
    words = []
    if gpu.lease:
        words.append(f"job {gpu.lease.job}" + (f" ({gpu.lease.user})" if gpu.lease.user else ""))
    for process in gpu.processes:
        program = printable((process.command or "?").split(" ")[0].rpartition("/")[2] or "?")
        memory = f"({process.memory_mib}M)" if process.memory_mib is not None else ""
        words.append(f"{process.user or '?'}:{program}/{process.pid}{memory}")
    if gpu.reason and gpu.state not in (GpuState.FREE, GpuState.BUSY, GpuState.RESERVED):
        words.append(printable(gpu.reason))
    return " ".join(words)


def age_words(reading: Reading, now: float, beat_s: float) -> str:
    """What must be said of old values; empty while they are fresh."""
    age = reading.age_s(now)
    if reading.error is not None:
        since = f"values are {seconds(age)} old: " if age is not None else ""
        return f"{since}{reading.error.message}"
    if reading.problem is not None:
        return f"values are {seconds(age)} old: {reading.problem}"
    if age is None:
        return "connecting" if reading.silent_s(now) == 0 else "no answer yet"
    if reading.silent_s(now) > max(6.0, 2 * beat_s):
        return f"values are {seconds(age)} old: the host does not answer (nvidia-smi may hang)"
    return ""


def dash(value: float | None) -> str:
    """A number without decimals, ``-`` for unknown."""
    return "-" if value is None else f"{value:.0f}"


def _text(lines: Iterable[tuple[str, str]], width: int, colour: bool) -> str:
    shown = ((cut(line, width), code) for line, code in lines)
    return "".join(f"\033[{code}m{line}\033[0m\n" if colour and code else f"{line}\n" for line, code in shown)
