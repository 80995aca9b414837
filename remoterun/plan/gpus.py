"""Choosing GPUs: what --gpus asks for, from what a look at the host found. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from remoterun.errors import GpusTaken, PlanError, UsageError
from remoterun.model.gpu import Gpu, GpuReport, GpuState

_TAKEN = (GpuState.BUSY, GpuState.BUSY_UNSEEN, GpuState.RESERVED, GpuState.UNSETTLED)


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What was asked: ``count`` of any, ``names`` (indices or UUIDs), all that are healthy (both None), or none."""

    text: str | None = None
    count: int | None = None
    names: tuple[str, ...] | None = None
    none: bool = False

    @property
    def everything(self) -> bool:
        """All of the host's healthy GPUs."""
        return self.count is None and self.names is None and not self.none


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The GPUs of a job, by UUID and index. ``hidden``: the job shall see none although there may be some.

    ``count`` of ``candidates`` (UUIDs, the better first) is what a job waits for whose GPUs are chosen on its host.
    """

    uuids: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    hidden: bool = False
    count: int = 0
    candidates: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many GPUs the job has, or will have."""
        return self.count or len(self.uuids)


def parse_request(text: str | None) -> GpuRequest:
    """``N``, ``all``, ``none``, ``0,3``, ``0-3`` or UUIDs; None is all. A list of one index is ``0,``.

    Raises UsageError.
    """
    if text is None or text.strip() == "all":
        return GpuRequest(text)
    word = text.strip()
    if word in ("none", "0"):
        return GpuRequest(text, none=True)
    if re.fullmatch(r"\d{1,4}", word):
        return GpuRequest(text, count=int(word))
    names: list[str] = []
    for part in word.split(","):
        part = part.strip()
        span = re.fullmatch(r"(\d{1,4})-(\d{1,4})", part)
        if span and int(span[1]) <= int(span[2]):
            names += [str(index) for index in range(int(span[1]), int(span[2]) + 1)]
        elif re.fullmatch(r"\d{1,4}", part) or re.fullmatch(r"(GPU|MIG)-[0-9A-Za-z/-]+", part):
            names.append(part)
        elif part or not names:
            raise UsageError(
                f"--gpus {text!r} is not understood",
                hint="a number, all, none, indices (0,3 or 0-3; one alone: 0,) or UUIDs",
            )
    if len(set(names)) != len(names):
        raise UsageError(f"--gpus {text!r} names a GPU twice")
    return GpuRequest(text, names=tuple(names))


def choose(request: GpuRequest, report: GpuReport, *, seed: int) -> GpuChoice:
    """The GPUs that ``request`` gets of what ``report`` shows. ``seed`` decides among equals, so that not
    everybody takes the first. Raises GpusTaken naming the holders, PlanError for what is broken or absent.
    """
    if request.none:
        return GpuChoice(hidden=True)
    if not report.gpus:
        if request.everything:
            return GpuChoice()
        why = report.problem or ("it has none" if report.available else "there is no nvidia-smi on it")
        raise PlanError(f"--gpus {request.text}: no GPU can be used, {why}", hint="--gpus none runs on the CPU")
    if request.names is not None:
        return _named(request, report)
    if request.everything:
        return _everything(report)
    return _some(request.count or 0, report, seed)


def wait_choice(request: GpuRequest, report: GpuReport, *, seed: int) -> GpuChoice:
    """What a job of ``--wait`` waits for: the same GPUs as :func:`choose` would give it if nobody held any.

    Raises PlanError where that many can never be had.
    """
    lent = replace(
        report,
        gpus=tuple(
            replace(gpu, pickable=True, state=GpuState.FREE) if gpu.state in _TAKEN else gpu for gpu in report.gpus
        ),
    )
    choice = choose(request, lent, seed=seed)
    if not choice.uuids or any(uuid.startswith("MIG-") for uuid in choice.uuids):
        return choice
    if request.names is not None or request.everything:
        return GpuChoice(count=len(choice.uuids), candidates=choice.uuids)
    usable = [gpu for gpu in lent.gpus if gpu.pickable and gpu.uuid]
    model = next(gpu.name for gpu in usable if gpu.uuid == choice.uuids[0])
    same = [gpu for gpu in usable if gpu.name == model]
    among = same if len(same) >= len(choice.uuids) else usable
    among.sort(key=lambda gpu: _shuffle(seed, gpu.index or 0))
    return GpuChoice(count=len(choice.uuids), candidates=tuple(gpu.uuid for gpu in among if gpu.uuid))


def check_tickets(choice: GpuChoice, report: GpuReport) -> None:
    """Raises GpusTaken where somebody already waits for one of these GPUs: nobody passes a job that waits."""
    for ticket in report.tickets:
        if set(ticket.uuids) & set(choice.uuids):
            raise GpusTaken(
                f"job {ticket.job} of {ticket.user} has waited for {ticket.count} GPUs since {ticket.since}",
                hint="--wait queues behind it",
            )


def _everything(report: GpuReport) -> GpuChoice:
    wanted = [gpu for gpu in report.gpus if gpu.pickable or gpu.state in _TAKEN]
    taken = [gpu for gpu in wanted if not gpu.pickable]
    free = len(wanted) - len(taken)
    if taken:
        ways = [f"--gpus {free} takes those that are free"] if free else []
        raise GpusTaken(
            f"{len(taken)} of {len(wanted)} GPUs are taken: {_holders(taken)}",
            hint=", ".join([*ways, "--gpus none runs on the CPU", "remoterun ps shows the jobs that hold them"]),
        )
    if not wanted:
        raise PlanError(
            f"no GPU is usable: {_conditions(report.gpus)}", hint="remoterun gpus; --gpus none runs on the CPU"
        )
    return _choice(wanted)


def _some(count: int, report: GpuReport, seed: int) -> GpuChoice:
    free = [gpu for gpu in report.gpus if gpu.pickable]
    if len(free) < count:
        usable = [gpu for gpu in report.gpus if gpu.pickable or gpu.state in _TAKEN]
        taken = [gpu for gpu in usable if not gpu.pickable]
        if len(usable) < count:
            bad = [gpu for gpu in report.gpus if gpu not in usable]
            more = f"; not usable: {_conditions(bad)}" if bad else ""
            raise PlanError(f"--gpus {count}: only {len(usable)} usable GPUs are there{more}", hint="remoterun gpus")
        ways = [f"--gpus {len(free)}"] if free else []
        raise GpusTaken(
            f"--gpus {count}: {len(free)} free, the others are taken: {_holders(taken)}",
            hint=", ".join([*ways, "remoterun ps shows the jobs that hold them"]),
        )
    # Emptiest first within one model, the model with the most free cards first, ties by the seed.
    models: dict[str | None, list[Gpu]] = {}
    for gpu in free:
        models.setdefault(gpu.name, []).append(gpu)
    groups = sorted(models.values(), key=lambda group: (-len(group), -(group[0].memory_total_mib or 0)))
    fitting = next((group for group in groups if len(group) >= count), None)
    if fitting is None:
        fitting = [gpu for group in groups for gpu in group]
    ordered = sorted(fitting, key=lambda gpu: (_used(gpu), _shuffle(seed, gpu.index or 0)))
    return _choice(sorted(ordered[:count], key=lambda gpu: gpu.index or 0))


def _named(request: GpuRequest, report: GpuReport) -> GpuChoice:
    by_name = {str(gpu.index): gpu for gpu in report.gpus} | {gpu.uuid: gpu for gpu in report.gpus if gpu.uuid}
    slices = {device.uuid: gpu for gpu in report.gpus for device in gpu.mig_devices}
    names = request.names or ()
    unknown = [name for name in names if name not in by_name and name not in slices]
    if unknown:
        have = ", ".join(str(gpu.index) for gpu in report.gpus)
        raise PlanError(f"no GPU {', '.join(unknown)}", hint=f"this host has {have}; remoterun gpus")
    chosen = [by_name[name] for name in names if name in by_name]
    taken = [gpu for gpu in chosen if gpu.state in _TAKEN]
    if taken:
        raise GpusTaken(
            f"GPU {', '.join(str(gpu.index) for gpu in taken)} {'is' if len(taken) == 1 else 'are'} taken: {_holders(taken)}",
            hint="choose others: remoterun gpus",
        )
    # A display card or one with an odd mode may be named; a broken one, and a split one, cannot work.
    bad = [gpu for gpu in chosen if gpu.state in (GpuState.ERROR, GpuState.LOST, GpuState.MIG) or gpu.uuid is None]
    if bad:
        raise PlanError(f"not usable: {_conditions(bad)}", hint="remoterun gpus shows the others")
    devices = tuple(name for name in names if name in slices)
    picked = _choice(chosen)
    parents = tuple(slices[name].index or 0 for name in devices)
    return GpuChoice(picked.uuids + devices, picked.indices + parents)


def cuda_environment(choice: GpuChoice) -> dict[str, str]:
    """CUDA's variables: UUIDs, since indices mean different things to nvidia-smi, CUDA and containers."""
    if choice.hidden:
        return {"CUDA_VISIBLE_DEVICES": ""}
    if not choice.uuids:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(choice.uuids)}


def _choice(gpus: Sequence[Gpu]) -> GpuChoice:
    return GpuChoice(
        tuple(gpu.uuid for gpu in gpus if gpu.uuid), tuple(gpu.index for gpu in gpus if gpu.index is not None)
    )


def _used(gpu: Gpu) -> int:
    """Memory in steps of 512 MiB: small differences decide nothing."""
    return (gpu.memory_used_mib or 0) // 512


def _shuffle(seed: int, index: int) -> int:
    """A number that looks random, the same for the same seed (a step of Knuth's multiplicative hash)."""
    return ((seed ^ (index + 1)) * 2654435761) & 0xFFFFFFFF


def _holders(gpus: Iterable[Gpu]) -> str:
    """Each holder once, with what it holds."""
    held: dict[str, list[str]] = {}
    for gpu in gpus:
        held.setdefault(_holder(gpu), []).append(str(gpu.index))
    return "; ".join(f"{', '.join(indices)} by {holder}" for holder, indices in held.items())


def _holder(gpu: Gpu) -> str:
    if gpu.lease is not None and gpu.lease.job != "-":
        since = f" since {gpu.lease.since}" if gpu.lease.since else ""
        return f"job {gpu.lease.job} of {gpu.lease.user or 'somebody'}{since}"
    if gpu.processes:
        first = gpu.processes[0]
        more = f" and {len(gpu.processes) - 1} more" if len(gpu.processes) > 1 else ""
        command = f" ({first.command[:40]})" if first.command else ""
        return f"{first.user or 'somebody'}'s process {first.pid}{command}{more}"
    return gpu.reason or "somebody"


def _conditions(gpus: Iterable[Gpu]) -> str:
    return "; ".join(f"GPU {gpu.index} {gpu.state.value}" + (f" ({gpu.reason})" if gpu.reason else "") for gpu in gpus)
