"""Ranks, devices and precision: what torchrun's environment and the machine give."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from trainer.config import Config


class DeviceError(Exception):
    """The device asked for cannot be used; the message says what to check."""


@dataclass(frozen=True)
class World:
    """This process among its equals. ``amp`` is the autocast type, None for none."""

    rank: int
    size: int
    local_rank: int
    device: torch.device
    amp: torch.dtype | None

    @property
    def first(self) -> bool:
        """Rank 0 speaks and writes."""
        return self.rank == 0

    def autocast(self) -> AbstractContextManager[object]:
        """Lower precision where it is asked for."""
        if self.amp is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.amp)

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, in place."""
        if self.size > 1:
            dist.all_reduce(value)
        return value


def choose_device(asked: str, local_rank: int) -> torch.device:
    """The device. A missing GPU under ``cuda`` is an error, never a silent run on the CPU."""
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        build = (
            f"this torch ({torch.__version__}) is built for CUDA {torch.version.cuda}"
            if torch.version.cuda
            else f"this torch ({torch.__version__}) is a build without CUDA"
        )
        raise DeviceError(
            f"--device cuda, but no GPU can be used: {build}; CUDA_VISIBLE_DEVICES is "
            f"{os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')!r}. Check nvidia-smi (driver), `python -c 'import torch; "
            f"print(torch.version.cuda)'` (build), and in a container that it was started with GPUs"
        )
    if local_rank >= torch.cuda.device_count():
        raise DeviceError(
            f"local rank {local_rank} has no GPU: {torch.cuda.device_count()} are visible "
            f"(CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}); start one process per GPU"
        )
    return torch.device("cuda", local_rank)


def choose_precision(asked: str, device: torch.device) -> torch.dtype | None:
    """The autocast type: bf16 where the GPU has it, else fp16; none on the CPU unless asked."""
    if asked == "auto":
        if device.type == "cpu":
            return None
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[asked]


@contextlib.contextmanager
def world(config: Config) -> Iterator[World]:
    """Join the process group that torchrun describes; alone without one. Leaves it in order."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = choose_device(config.device, local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    grouped = size > 1
    if grouped:
        store = None
        if int(os.environ.get("GROUP_WORLD_SIZE", "1")) == 1:
            # After a restart of its workers torchrun hands them the old store: keys of their own per attempt keep
            # stale addresses out (on one node only, the count is the same for all).
            base = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, _hosts_store(rank))
            store = PrefixStore(f"attempt{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", base)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        yield World(rank, size, local_rank, device, choose_precision(config.precision, device))
    finally:
        if grouped:
            dist.destroy_process_group()


def _hosts_store(rank: int) -> bool:
    """Whether this rank holds the store: rank 0, unless torchrun's agent does (it then says so)."""
    return rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


class Stop:
    """Set by SIGTERM or SIGINT: save at the next step, then end. Agreed on by all ranks."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._set)
        signal.signal(signal.SIGINT, self._set)

    def _set(self, number: int, frame: object) -> None:
        self.asked = True

    def agreed(self, world: World) -> bool:
        """True on every rank once any was asked."""
        flag = torch.tensor(float(self.asked), device=world.device)
        return bool(world.sum(flag).item() > 0)
