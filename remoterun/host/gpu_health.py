"""What a GPU is good for, and what nvidia-smi's messages mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from remoterun.model.gpu import Gpu, GpuState, Lease

# Words in a cell that mean "broken", not merely "no value".
_BROKEN = ("[Unknown Error]", "[GPU requires reset]", "[GPU is lost]", "ERR!")
_HEALTH_CELLS = ("util", "temp", "pstate", "total", "used", "free", "uuid")
_NO_ACTION = ("None", "", "N/A", "[N/A]", "[Not Supported]")
# Memory that an idle card may show: drivers keep a few to a few hundred MiB (P40 on R515: 306).
_IDLE_MIB, _IDLE_SHARE = 500, 0.02


class Answer(Protocol):
    """The core section, as far as it is needed here."""

    @property
    def err(self) -> str:
        """Its error output."""

    @property
    def status(self) -> int | None:
        """nvidia-smi's exit status."""


# (what the message holds, what it means, what to do); the first that fits is taken.
_MESSAGES = (
    ("Driver/library version mismatch", "the driver was upgraded while the old one is loaded", "reboot, or reload the nvidia kernel modules"),
    ("couldn't communicate with the NVIDIA driver", "the NVIDIA driver is not loaded", "modprobe nvidia, or install the driver for this kernel"),
    ("No devices were found", "the driver finds no GPU", "lspci | grep -i nvidia shows whether the machine sees one"),
    ("Failed to initialize NVML", "NVML cannot be initialised", "a reloaded daemon or a missing device node; see nvidia-smi on the host"),
    ("Insufficient Permissions", "this login may not ask the driver", "permissions of /dev/nvidia*"),
)  # fmt: skip
_WARNINGS = (
    (r"Unable to determine the device handle for GPU ?([0-9A-Fa-f:.]+)?.*", "GPU {0} is lost: it fell off the bus; reboot, then have it checked"),
    (r"WARNING: infoROM is corrupted at gpu ([0-9A-Fa-f:.]+)", "infoROM of GPU {0} is corrupted; the card works"),
)  # fmt: skip
_BY_STATUS = {
    6: "the driver finds no GPU",
    9: "the NVIDIA driver is not loaded",
    12: "the NVML library is missing",
    13: "the NVML library is too old for this nvidia-smi",
    18: "the driver was upgraded while the old one is loaded: reboot, or reload the nvidia kernel modules",
    124: "nvidia-smi does not answer: the driver hangs",
    126: "nvidia-smi cannot be run by this login",
    137: "nvidia-smi does not answer: the driver hangs",
}


def messages(core: Answer, said: Sequence[str], has_rows: bool) -> tuple[str | None, list[str]]:
    """The one problem that leaves no GPU to show, and warnings that empty no row."""
    warnings = []
    for line in [*said, *core.err.splitlines()]:
        text = line.strip()
        if not text:
            continue
        for part, meaning, cure in _MESSAGES:
            if part in text:
                if has_rows:
                    warnings.append(f"{meaning}: {cure}")
                    break
                return f"{meaning}: {cure}", warnings
        else:
            warnings.append(_warning(text))
    if not has_rows and core.status in _BY_STATUS:
        return _BY_STATUS[core.status or 0], []
    if not has_rows and core.status:
        return f"nvidia-smi failed with status {core.status}: {warnings[0] if warnings else 'it said nothing'}", []
    return None, warnings


def _warning(text: str) -> str:
    for pattern, meaning in _WARNINGS:
        found = re.match(pattern, text)
        if found:
            return meaning.format(found[1] or "?")
    shown = "".join(sign for sign in text if sign.isprintable())
    return f"nvidia-smi said: {shown[:200]}"


def judge(gpu: Gpu, row: Mapping[str, str], extension: Mapping[str, str], lease: Lease | None) -> Gpu:
    """``gpu`` with its state, the reason for it, and whether it may be chosen unasked."""
    capability = extension.get("capability")
    gpu = replace(gpu, lease=lease, compute_capability=capability if capability and capability[:1].isdigit() else None)
    state, reason = _state(gpu, row, extension)
    if lease is not None and state in (GpuState.FREE, GpuState.UNSETTLED):
        state, reason = GpuState.RESERVED, f"held by job {lease.job}"
    return replace(gpu, state=state, reason=reason, pickable=state is GpuState.FREE)


def _state(gpu: Gpu, row: Mapping[str, str], extension: Mapping[str, str]) -> tuple[GpuState, str | None]:
    broken = [name for name in _HEALTH_CELLS if row[name] in _BROKEN]
    if broken:
        return GpuState.ERROR, f"{', '.join(broken)} read {row[broken[0]]}"
    recovery = extension.get("recovery", "")
    if recovery not in _NO_ACTION:
        return GpuState.ERROR, f"the driver asks for recovery: {recovery}"
    fabric = extension.get("fabric", "")
    if fabric and fabric not in ("Completed", "N/A", "[N/A]", "[Not Supported]"):
        return GpuState.ERROR, f"NVLink fabric registration: {fabric}; CUDA would not start"
    if extension.get("fabric_status", "").lower() in ("failure", "failed"):
        return GpuState.ERROR, "NVLink fabric registration failed"
    if gpu.mig_mode:
        return GpuState.MIG, "split into MIG devices; never given as a whole"
    if gpu.compute_mode == "Prohibited":
        return GpuState.UNKNOWN, "compute mode Prohibited"
    computing = [process for process in gpu.processes if process.command is None or not _is_desktop(process.command)]
    if gpu.display and not computing:
        return GpuState.DISPLAY, "drives a display"
    if gpu.processes:
        return GpuState.BUSY, None
    if gpu.memory_used_mib is None:
        return GpuState.UNKNOWN, "its memory cannot be read"
    if gpu.memory_used_mib >= max(_IDLE_MIB, _IDLE_SHARE * (gpu.memory_total_mib or 0)):
        return GpuState.BUSY_UNSEEN, "memory in use by processes that this login cannot see"
    if gpu.utilization_pct is None:
        return GpuState.UNKNOWN, "its utilisation cannot be read"
    if gpu.utilization_pct >= 50:
        return GpuState.UNSETTLED, f"{gpu.utilization_pct} % busy without a process; look again"
    return GpuState.FREE, None


def _is_desktop(command: str) -> bool:
    return any(name in command for name in ("Xorg", "gnome-shell", "kwin", "Xwayland", "plasmashell", "cinnamon"))
