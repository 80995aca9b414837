"""Known ways in which trainings die: what their logs say, what it means, what to do. A table, nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signature:
    """``pattern`` is looked for in the log's lines, the table's first match first."""

    pattern: re.Pattern[str]
    cause: str
    advice: str


def _signature(pattern: str, cause: str, advice: str) -> Signature:
    return Signature(re.compile(pattern), cause, advice)


SIGNATURES = (
    _signature(
        r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED",
        "a GPU's memory was full",
        "a smaller batch with gradient accumulation, activation checkpointing, or more GPUs; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation",
    ),
    _signature(
        r"Watchdog caught collective operation timeout|collective operation timeout|NCCL.*[Tt]imed? ?out",
        "a collective operation of NCCL timed out: one rank did not take part",
        "look at the rank that fell behind or died first (remoterun stacks while it hangs); "
        "TORCH_NCCL_TRACE_BUFFER_SIZE=20000 records the last operations",
    ),
    _signature(
        r"Socket Timeout|Monitored barrier.*failed|Timed out waiting for clients|RendezvousTimeoutError|"
        r"wait timeout after \d+ms|Connection closed by peer|Connection reset by peer.*store",
        "the ranks lost each other",
        "the first rank that failed says why; the others only noticed",
    ),
    _signature(
        r"NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|unhandled cuda error, NCCL",
        "NCCL failed",
        "NCCL_DEBUG=INFO says where; NCCL_SOCKET_IFNAME and interface: in hosts.yaml choose the network",
    ),
    _signature(
        r"device-side assert triggered",
        "a kernel's own check failed, most often an index out of range (a label or a token beyond the table)",
        "run once with CUDA_LAUNCH_BLOCKING=1: the traceback then names the operation",
    ),
    _signature(
        r"an illegal memory access was encountered|misaligned address|unspecified launch failure",
        "a kernel read or wrote memory that is not its own",
        "CUDA_LAUNCH_BLOCKING=1 names the operation; custom kernels and mismatched libraries are the usual cause",
    ),
    _signature(
        r"uncorrectable ECC|GPU has fallen off the bus|Unable to determine the device handle|GPU is lost|"
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        "a GPU is broken or gone",
        "remoterun gpus shows its state; launch on others, and reset or replace it",
    ),
    _signature(
        r"no kernel image is available for execution|CUDA driver version is insufficient|"
        r"The NVIDIA driver on your system is too old|Found no NVIDIA driver",
        "torch's build and the host's driver or GPU do not fit",
        "remoterun doctor names the versions; install the torch build for this CUDA, or use an image",
    ),
    _signature(
        r"invalid device ordinal",
        "the program names a GPU that the job does not have",
        "inside a job GPUs count from 0: use LOCAL_RANK, never the host's own numbers",
    ),
    _signature(
        r"DataLoader worker .*(Bus error|killed by signal)|unable to open shared memory|No space left on device.*shm",
        "a data loader died, most often for want of shared memory",
        "a larger --shm-size, fewer workers, or torch.multiprocessing's file_system sharing",
    ),
    _signature(
        r"No space left on device|Disk quota exceeded|OSError: \[Errno 28\]|Errno 122",
        "a disk or a quota was full",
        "make room (remoterun rm, remoterun gc), or write to another place",
    ),
    _signature(
        r"ModuleNotFoundError|ImportError",
        "the Python there lacks a package",
        "install it into that interpreter, name another with --python, or use an image",
    ),
    _signature(
        r"Address already in use|EADDRINUSE",
        "a port was taken",
        "let the program choose a free one (port 0)",
    ),
    _signature(
        r"Permission denied|PermissionError|Read-only file system",
        "the login may not read or write something",
        "the line above names it",
    ),
    _signature(
        r"FileNotFoundError|No such file or directory", "a file is missing", "is it sent? remoterun sync --dry-run"
    ),
    _signature(r"(?i)loss is nan|non-finite|loss: nan", "the loss was not finite", "a smaller learning rate, or bf16"),
    _signature(r"Segmentation fault|SIGSEGV|core dumped", "native code crashed", "PYTHONFAULTHANDLER=1 shows where"),
    _signature(
        r"KeyboardInterrupt", "it was interrupted (SIGINT)", "somebody pressed Ctrl-C in its view, or sent SIGINT"
    ),
)


def recognise(text: str) -> Signature | None:
    """The signature that speaks most for the text's end; None where none fits."""
    for signature in SIGNATURES:
        if signature.pattern.search(text):
            return signature
    return None
