"""Reading nvidia-smi: the sections of sh/gpus.sh as a :class:`GpuReport`. Pure; never raises, never invents.

nvidia-smi quotes nothing, mixes messages into its rows, and says "no value", "broken" and "not allowed" in
brackets. A row counts only if it looks like one; every number is a value or None, and None is never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from remoterun.host.gpu_health import judge, messages
from remoterun.model.gpu import Gpu, GpuProcess, GpuReport, Lease, MigDevice

CORE = [
    "index",
    "uuid",
    "bus",
    "driver",
    "util",
    "util_memory",
    "total",
    "used",
    "free",
    "temp",
    "power",
    "power_limit",
    "fan",
    "pstate",
    "compute",
    "persistence",
    "display",
    "mig",
    "name",
]
_UUID = re.compile(r"GPU-[0-9A-Za-z-]+")
_NO_NAME = ("[Not Found]", "[N/A]", "[Not Supported]", "[Insufficient Permissions]", "-", "")
HIGHEST_TIER = 3


@dataclass(frozen=True, slots=True)
class Section:
    """One command's answer."""

    text: str
    err: str
    status: int | None

    @property
    def lines(self) -> list[str]:
        """Its lines, without carriage returns and a byte order mark."""
        return [line.strip("\r\ufeff ") for line in self.text.split("\n") if line.strip("\r\ufeff ")]


@dataclass(frozen=True, slots=True)
class Look:
    """The whole answer, taken apart. ``whole`` is whether its end mark came; ``absent``: no nvidia-smi."""

    sections: Mapping[str, Section]
    whole: bool
    absent: bool


def take_apart(output: bytes, nonce: str) -> Look:
    """The sections of an answer. A section that was cut is left out."""
    text = output.decode("utf-8", "replace")
    sections: dict[str, Section] = {}
    mark = re.escape(nonce)
    found = re.compile(
        rf"(?:^|\n){mark} begin (?P<name>\w+)\n(?P<text>.*?)(?:\n{mark} err\n(?P<err>.*?))?\n{mark} rc (?P<rc>\d+)(?=\n|$)",
        re.DOTALL,
    )
    for match in found.finditer(text):
        if f"{nonce} begin" not in match["text"]:
            sections[match["name"]] = Section(match["text"], match["err"] or "", int(match["rc"]))
    return Look(sections, f"\n{nonce} end" in f"\n{text}", f"\n{nonce} none" in f"\n{text}")


def parse(output: bytes, nonce: str, leases: Mapping[str, Lease] | None = None) -> GpuReport:
    """The report of one look. ``leases`` by UUID are those held on the host now."""
    look = take_apart(output, nonce)
    if look.absent:
        return GpuReport()
    core = look.sections.get("core")
    if core is None:
        return GpuReport(available=True, partial=True, problem="nvidia-smi's answer was cut off")
    rows, said = _rows(core)
    problem, warnings = messages(core, said, bool(rows))
    extension, tier = _extension(look.sections)
    processes = _processes(look.sections)
    mig = _mig_devices(look.sections.get("list"))
    memory = _meminfo(look.sections.get("mem"))
    held = leases or {}
    gpus: list[Gpu] = []
    driver = None
    for row in rows:
        gpu = _gpu(row)
        driver = driver or value(row["driver"])
        gpu = replace(
            gpu, processes=tuple(processes.get(gpu.uuid or "", ())), mig_devices=tuple(mig.get(gpu.uuid or "", ()))
        )
        gpus.append(judge(gpu, row, extension.get(gpu.uuid or "", {}), held.get(gpu.uuid or "")))
    unified = bool(gpus) and any(gpu.memory_total_mib is None and not gpu.mig_mode for gpu in gpus)
    return GpuReport(
        gpus=tuple(_odd_one_out(gpus)),
        available=True,
        problem=problem,
        warnings=tuple(warnings),
        driver=driver,
        partial=not look.whole or core.status in (15, 124, 137),
        tier=tier,
        unified_memory_total_mib=memory.get("MemTotal") if unified else None,
        unified_memory_available_mib=memory.get("MemAvailable") if unified else None,
    )


def jobs_of(output: bytes, nonce: str) -> dict[int, str]:
    """pid → job id, for the GPU processes whose environment names one."""
    section = take_apart(output, nonce).sections.get("jobs")
    found = {}
    for line in section.lines if section else ():
        pid, _, job = line.partition(" ")
        if pid.isdigit() and job:
            found[int(pid)] = job
    return found


def _rows(core: Section) -> tuple[list[dict[str, str]], list[str]]:
    """Rows that look like one, and all other lines."""
    rows, said = [], []
    for line in core.lines:
        cells = [cell.strip() for cell in line.split(",", len(CORE) - 1)]
        looks = (
            len(cells) == len(CORE)
            and cells[0].isdigit()
            and (_UUID.fullmatch(cells[1]) or (cells[1].startswith("[") and re.match(r"[0-9A-Fa-f]{4,8}:", cells[2])))
        )
        if looks:
            rows.append(dict(zip(CORE, cells, strict=True)))
        else:
            said.append(line)
    return rows, said


def _gpu(row: Mapping[str, str]) -> Gpu:
    display = value(row["display"])
    mig = value(row["mig"])
    persistence = value(row["persistence"])
    return Gpu(
        index=int(row["index"]),
        uuid=row["uuid"] if _UUID.fullmatch(row["uuid"]) else None,
        bus_id=value(row["bus"]),
        name=value(row["name"]),
        utilization_pct=whole(row["util"]),
        memory_used_mib=whole(row["used"]),
        memory_total_mib=whole(row["total"]),
        memory_free_mib=whole(row["free"]),
        # A virtual GPU says 0 degrees where it has no sensor.
        temperature_c=whole(row["temp"]) or None,
        power_w=number(row["power"]),
        power_limit_w=number(row["power_limit"]),
        fan_pct=whole(row["fan"]),
        pstate=value(row["pstate"]),
        compute_mode=value(row["compute"]),
        persistence=None if persistence is None else persistence == "Enabled",
        display=None if display is None else display == "Enabled",
        mig_mode=None if mig is None else mig == "Enabled",
    )


def value(cell: str) -> str | None:
    """A cell's text, None for "no value", "broken" and "not allowed"."""
    return None if cell.startswith("[") or cell in ("", "N/A", "ERR!") else cell


def number(cell: str) -> float | None:
    """A cell's number, with or without its unit."""
    found = re.fullmatch(r"(-?\d{1,12}(?:\.\d{1,6})?)(?:\s*(?:MiB|W|%|C|MHz))?", cell)
    return float(found[1]) if found else None


def whole(cell: str) -> int | None:
    """A cell's number, rounded."""
    found = number(cell)
    return None if found is None else round(found)


def _extension(sections: Mapping[str, Section]) -> tuple[dict[str, dict[str, str]], int | None]:
    """Newer fields by UUID, and the tier that this driver accepted (None: it was not asked)."""
    asked = [tier for tier in range(1, HIGHEST_TIER + 1) if f"ext{tier}" in sections]
    for tier in asked:
        section = sections[f"ext{tier}"]
        if "not a valid field" in section.text:
            continue
        names = ["uuid", "reserved", "capability", "fabric", "fabric_status", "recovery"][: {3: 6, 2: 5, 1: 3}[tier]]
        found = {}
        for line in section.lines:
            cells = [cell.strip() for cell in line.split(",", len(names) - 1)]
            if len(cells) == len(names) and _UUID.fullmatch(cells[0]):
                found[cells[0]] = dict(zip(names, cells, strict=True))
        return found, tier
    return {}, 0 if asked else None


def _processes(sections: Mapping[str, Section]) -> dict[str, list[GpuProcess]]:
    apps, table = sections.get("apps"), _process_table(sections.get("ps"))
    found: dict[str, dict[int, GpuProcess]] = {}
    for line in apps.lines if apps else ():
        cells = [cell.strip() for cell in line.split(",", 3)]
        if len(cells) < 4 or not _UUID.fullmatch(cells[0]) or not re.fullmatch(r"\d{1,10}", cells[1]):
            continue
        pid = int(cells[1])
        known = table.get(pid)
        name = cells[3] if cells[3] not in _NO_NAME else None
        process = replace(known, memory_mib=whole(cells[2])) if known else GpuProcess(pid, None, whole(cells[2]), name)
        if process.command is None:
            process = replace(process, command=name)
        of_gpu = found.setdefault(cells[0], {})
        # A pid that stands twice is one process.
        if pid not in of_gpu or of_gpu[pid].memory_mib is None:
            of_gpu[pid] = process
    return {uuid: sorted(of_gpu.values(), key=lambda process: process.pid) for uuid, of_gpu in found.items()}


def _process_table(section: Section | None) -> dict[int, GpuProcess]:
    found = {}
    for line in section.lines if section else ():
        full = re.fullmatch(r"(\d+) +(\d+) +(\d+) +(\S+) +(\d+) +(.*)", line)
        short = re.fullmatch(r"(\d+) +(\S+) +(.*)", line)
        if full:
            pid, ppid, session, user, age, command = full.groups()
            found[int(pid)] = GpuProcess(int(pid), user, None, command, int(ppid), int(session), int(age))
        elif short:
            found[int(short[1])] = GpuProcess(int(short[1]), short[2], None, short[3])
    return found


def _mig_devices(section: Section | None) -> dict[str, list[MigDevice]]:
    """MIG devices of ``nvidia-smi -L`` by their GPU's UUID; their use is not told there."""
    found: dict[str, list[MigDevice]] = {}
    parent = None
    for line in section.lines if section else ():
        gpu = re.match(r"GPU \d+: .*\(UUID: (GPU-[0-9A-Za-z-]+)\)", line)
        device = re.match(r"MIG (\S+) +Device +\d+: \(UUID: (MIG-[0-9A-Za-z/-]+)\)", line)
        if gpu:
            parent = gpu[1]
        elif device and parent:
            found.setdefault(parent, []).append(MigDevice(device[2], device[1]))
    return found


def _meminfo(section: Section | None) -> dict[str, int]:
    """The machine's memory in MiB, for GPUs that share it."""
    return {
        match[1]: int(match[2]) // 1024
        for line in (section.lines if section else ())
        if (match := re.match(r"(MemTotal|MemAvailable): +(\d{1,15}) kB", line))
    }


def _odd_one_out(gpus: Sequence[Gpu]) -> list[Gpu]:
    """A card far smaller than its siblings is there for a display, not for a job."""
    sizes = sorted(gpu.memory_total_mib for gpu in gpus if gpu.memory_total_mib)
    largest = sizes[-1] if sizes else 0
    return [
        replace(gpu, pickable=False, reason="far smaller than the others: a display card")
        if gpu.pickable and gpu.memory_total_mib and gpu.memory_total_mib * 4 < largest
        else gpu
        for gpu in gpus
    ]
