"""What the evidence of a job's end says."""

from __future__ import annotations

import json

import pytest

from remoterun.host.jobs import parse_scan
from remoterun.host.postmortem import PostMortem, examine, first_traceback, torchrun_report
from remoterun.host.signatures import recognise
from remoterun.model.gpu import GpuReport

ID = "train-0304-050607-00ff"
START = "supervisor=5\nsupervisor_ticks=6\nboot=B1\nhost=M/n\nuptime=1000\noom_kills=2\nstarted=2026-03-04T05:06:07Z\n"


def post_mortem(values: str = "", **files: str) -> PostMortem:
    contents = {"job.json": json.dumps({"id": ID, "name": "train", "host_id": "M/n"}), "start": START, **files}
    body = "".join(f"file={name.replace('__', '.')} {len(text.encode())}\n{text}\n" for name, text in contents.items())
    scan = parse_scan(
        f"boot=B1\nhost=M/n\nnow=1000\n\njob={ID}\nsupervisor_is=dead\nmain_is=dead\n{values}{body}".encode()
    )
    found = examine(scan.jobs[0], scan, "gpu1", GpuReport())
    assert found is not None
    return found


def causes(found: PostMortem) -> list[str]:
    return [finding.cause for finding in found.findings]


KERNEL = (
    "[  900.100000] Out of memory: Killed process 1 (before the job)\n"
    "[ 1200.100000] NVRM: Xid (PCI:0000:41:00): 79, pid=77, GPU has fallen off the bus.\n"
    "[ 1300.200000] Out of memory: Killed process 77 (python) total-vm:1kB\n"
)


def test_the_kernels_lines_since_the_start_come_first() -> None:
    found = post_mortem(kernel=KERNEL, exit="code=137\nstate=failed\noom_kills=3\n")
    assert len(found.kernel) == 2
    assert causes(found)[0] == "the GPU driver reported Xid 79 for PCI:0000:41:00: the GPU fell off the bus"
    assert "Killed process 77" in causes(found)[1]
    assert found.kernel_readable
    # Of a boot that is over nothing is claimed.
    assert post_mortem(kernel=KERNEL, start=START.replace("B1", "B0")).kernel == ()


def test_an_unreadable_kernel_log_leaves_the_kernels_own_count() -> None:
    found = post_mortem("oom_kills_now=3\n", kernel="unreadable\n")
    assert not found.kernel_readable
    assert "out of memory, ended a process" in causes(found)[0]
    assert causes(post_mortem("oom_kills_now=2\n", kernel="unreadable\n")) == [
        "its supervisor and its first process were killed from outside (SIGKILL)"
    ]


def test_a_full_disk_is_a_cause() -> None:
    found = post_mortem("free_kib=12\nmounted_on=/data\n", exit="code=1\nstate=failed\n", kernel="")
    assert causes(found)[0] == "the disk of its folder is full (/data, 12 KiB left)"


REPORT = """
train.py FAILED
------
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 11)
------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-04_05:06:07
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 12)
"""


def test_torchruns_report_names_rank_and_status() -> None:
    assert torchrun_report(REPORT) == (3, 137)
    assert torchrun_report(REPORT.replace("-9", "2")) == (3, 2)
    assert torchrun_report("nothing of the kind") == (None, None)
    assert post_mortem(end=REPORT, exit="code=1\nstate=failed\n", kernel="").rank == 3


def test_the_first_traceback_is_one_ranks_alone() -> None:
    text = (
        "Traceback (most recent call last):\n"
        'rank 0 says something\n[rank 1]   File "a.py", line 1\n[rank 2] Traceback (most recent call last):\n[rank 1]     f()\n'
        "[rank 1] ValueError: no\n[rank 1] later\n"
    )
    shown, rank = first_traceback("[rank 1] " + text, "[rank 1] ")
    assert rank == 1
    assert shown == 'Traceback (most recent call last):\n  File "a.py", line 1\n    f()\nValueError: no'
    shown, rank = first_traceback("Traceback (most recent call last):\n  x\nKeyError: 1\nmore", "")
    assert (shown, rank) == ("Traceback (most recent call last):\n  x\nKeyError: 1", None)
    assert first_traceback("", "") == (None, None)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "memory was full"),
        ("[E] Watchdog caught collective operation timeout: WorkNCCL(", "timed out"),
        ("RuntimeError: CUDA error: device-side assert triggered", "check failed"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", "shared memory"),
        ("OSError: [Errno 28] No space left on device", "disk or a quota"),
        ("ModuleNotFoundError: No module named 'x'", "lacks a package"),
        ("RuntimeError: CUDA error: invalid device ordinal", "does not have"),
    ],
)
def test_known_ways_to_die(line: str, word: str) -> None:
    found = recognise(f"before\n{line}\nafter")
    assert found is not None
    assert word in found.cause
    assert found.advice


def test_what_is_not_known_is_not_named() -> None:
    assert recognise("step 1 loss 2.0\nall is well") is None
