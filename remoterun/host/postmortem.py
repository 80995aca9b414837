"""Why a job ended: the evidence of its host, put together. Pure: raw signs in, a :class:`PostMortem` out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from remoterun.host.jobs import Scan, Signs, exit_words, judge, oom_words
from remoterun.host.signatures import recognise
from remoterun.model.gpu import GpuReport, GpuState
from remoterun.model.job import JobState, JobStatus

_LINES = 20
_RANK = re.compile(r"^\[rank ?(\d+)\]:? ?", re.ASCII)
# NVIDIA's numbers for what the driver reports of a GPU (its "Xid Errors" document), those that end trainings.
_XID = {
    13: "a kernel's fault (most often the program's own)",
    31: "a kernel used memory that is not its own (most often the program's own)",
    43: "the program's kernels were stopped after a fault",
    45: "the program's work was cut short after an earlier fault",
    48: "memory with an error that cannot be corrected",
    61: "the GPU's own firmware failed",
    63: "a memory page was taken out of use",
    64: "a memory page could not be taken out of use",
    74: "an NVLink error",
    79: "the GPU fell off the bus",
    92: "many memory errors that were corrected",
    94: "a memory error, kept within one program",
    95: "a memory error, not kept within one program",
    119: "the GPU's system processor gave no answer",
    120: "the GPU's system processor failed",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the evidence shows, and what to do about it (None: nothing)."""

    cause: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class PostMortem:
    """What is known of one job's end. ``findings`` begin with the likeliest cause. ``rank`` is the one that failed
    first, None where it cannot be told; ``traceback`` and ``last_lines`` are text of the log."""

    status: JobStatus
    findings: tuple[Finding, ...]
    rank: int | None
    traceback: str | None
    last_lines: tuple[str, ...]
    kernel: tuple[str, ...]
    kernel_readable: bool
    events: tuple[dict[str, str], ...]
    attempts: tuple[dict[str, str], ...]


def examine(signs: Signs, scan: Scan, host: str, gpus: GpuReport) -> PostMortem | None:
    """The post-mortem of what ``rr_why`` says and of the host's GPUs as they are now, or None when it speaks of no
    whole job."""
    status = judge(signs, scan, host)
    if status is None:
        return None
    end = _text(signs, "end")
    rank, report = torchrun_report(end)
    traceback, traceback_rank = first_traceback(_text(signs, "traceback"), _text(signs, "before"))
    kernel = kernel_lines(_text(signs, "kernel"), signs.record("start"), scan.boot)
    first = traceback_rank if rank is None else rank
    return PostMortem(
        status=status,
        findings=(*_gpu_findings(status, gpus), *_findings(status, signs, end, report, traceback, kernel)),
        rank=first,
        traceback=traceback,
        last_lines=tuple(line for line in _printable(_before_report(end)).splitlines() if line.strip())[-_LINES:],
        kernel=kernel,
        kernel_readable=_text(signs, "kernel").strip() != "unreadable",
        events=tuple(_events(_text(signs, "events"))),
        attempts=tuple(_attempts(_text(signs, "attempts"))),
    )


def torchrun_report(text: str) -> tuple[int | None, int | None]:
    """Rank and exit status of the first failure in torchrun's own report; None where there is none."""
    _, found, report = text.rpartition("Root Cause (first observed failure)")
    if not found:
        return None, None
    rank = re.search(r"^\s*rank\s*:\s*(\d+)", report, re.MULTILINE)
    code = re.search(r"^\s*exitcode\s*:\s*(-?\d+)", report, re.MULTILINE)
    status = int(code[1]) if code else None
    if status is not None and status < 0:
        status = 128 - status
    return (int(rank[1]) if rank else None), status


def _before_report(text: str) -> str:
    """What the job itself said last: torchrun's own tracebacks and tables follow it."""
    return re.split(
        r"^(?:[EWI]\d{4} .*torch/distributed/elastic.*|=+\n\S+ FAILED)$", text, maxsplit=1, flags=re.MULTILINE
    )[0]


def first_traceback(text: str, before: str) -> tuple[str | None, int | None]:
    """The first Python traceback of a text that begins with one, and the rank in front of its lines (None: rank 0
    or no ranks). ``before`` is the beginning of its first line. Other ranks' lines between are left out."""
    if not text:
        return None, None
    found = _RANK.match(before)
    rank = int(found[1]) if found else None
    lines: list[str] = []
    for line in _printable(text).splitlines():
        prefix = _RANK.match(line)
        if lines and (int(prefix[1]) if prefix else None) != rank:
            continue
        plain = line[prefix.end() :] if prefix else line
        lines.append(plain)
        # The exception's own line is the first that is not indented.
        if len(lines) > 1 and plain and not plain[0].isspace():
            break
        if len(lines) >= 80:
            break
    # torchrun's own, when a rank ended without one.
    return (None, None) if "ChildFailedError" in lines[-1] else ("\n".join(lines), rank)


def kernel_lines(text: str, start: Mapping[str, str], boot: str) -> tuple[str, ...]:
    """The kernel's lines since the job's start (their time stamps are seconds since boot); none of another ``boot``."""
    if text.strip() == "unreadable" or start.get("boot") != boot:
        return ()
    began = start.get("uptime", "")
    since = float(began) - 1 if began.isdigit() else 0.0
    kept = []
    for line in text.splitlines():
        stamp = re.match(r"\s*\[\s*(\d+\.\d+)\]", line)
        if stamp is None or float(stamp[1]) >= since:
            kept.append(_printable(line).strip())
    return tuple(kept)


def _findings(
    status: JobStatus, signs: Signs, end: str, report: int | None, traceback: str | None, kernel: Sequence[str]
) -> Iterable[Finding]:
    """What the evidence shows, the likeliest cause first."""
    yield from _kernel_findings(status, signs, kernel)
    free = signs.values.get("free_kib", "")
    if free.isdigit() and int(free) < 1024:
        place = signs.values.get("mounted_on", "its disk")
        yield Finding(f"the disk of its folder is full ({place}, {free} KiB left)", "remoterun rm or gc make room")
    if signs.values.get("free_inodes") == "0":
        yield Finding(f"no inodes are left on {signs.values.get('mounted_on')}", "remove small files there")
    if status.state is JobState.LOST:
        yield Finding(
            status.reason or "lost", f"remoterun rerun --resume {status.id} goes on from its newest checkpoint"
        )
    if status.state is JobState.STOPPED:
        yield Finding(status.reason or "stopped")
    failed = status.state in (JobState.FAILED, JobState.LOST)
    if failed and (known := recognise(traceback or "") or recognise(end)):
        yield Finding(known.cause, known.advice)
    if status.state is JobState.FAILED and status.exit_code is not None:
        words = exit_words(status.exit_code)
        if report is not None and report != status.exit_code:
            words = f"torchrun ended with 1 because a rank ended: {exit_words(report)}"
        yield Finding(words, _exit_advice(report if report is not None else status.exit_code))
    if status.stalled_s is not None:
        yield Finding("its log is silent and its GPUs are idle", f"remoterun stacks {status.id} shows where it hangs")


def _gpu_findings(status: JobStatus, report: GpuReport) -> Iterable[Finding]:
    """GPUs of the job that are broken or gone now."""
    if not status.gpus or status.state is JobState.SUCCEEDED:
        return
    if report.problem:
        yield Finding(f"the GPU driver gives no answer now: {report.problem}", "remoterun doctor")
        return
    now = {gpu.uuid: gpu for gpu in report.gpus}
    now |= {device.uuid: gpu for gpu in report.gpus for device in gpu.mig_devices}
    indices = status.record.get("gpu_indices")
    for number, uuid in enumerate(status.gpus):
        index = f" {indices[number]}" if isinstance(indices, list) and number < len(indices) else ""
        gpu = now.get(uuid)
        if gpu is None:
            yield Finding(
                f"GPU{index} ({uuid}) is no longer there",
                "it fell off the bus, or was taken out: reboot, or ask its owner",
            )
        elif gpu.state in (GpuState.LOST, GpuState.ERROR):
            yield Finding(
                f"GPU{index} ({uuid}) is {gpu.state.value}: {gpu.reason}", "remoterun gpus; reset it as root, or reboot"
            )


def _exit_advice(code: int) -> str | None:
    if code == 127:
        return "is the program installed there, and on the login's PATH? remoterun doctor"
    if code == 126:
        return "chmod +x, or name its interpreter"
    if code == 128 + 9:
        return "SIGKILL: the kernel out of memory, an administrator, or a container's memory limit"
    if code == 128 + 11:
        return "PYTHONFAULTHANDLER=1 shows where native code crashed"
    return None


def _kernel_findings(status: JobStatus, signs: Signs, kernel: Sequence[str]) -> Iterable[Finding]:
    if status.state in (JobState.RUNNING, JobState.SUCCEEDED):
        return
    for line in kernel:
        xid = re.search(r"NVRM: Xid \(([^)]*)\): (\d+)", line)
        if xid:
            meaning = _XID.get(int(xid[2]), "see NVIDIA's list of Xid errors")
            yield Finding(
                f"the GPU driver reported Xid {xid[2]} for {xid[1]}: {meaning}", "remoterun gpus; a reset helps"
            )
    killed = [line for line in kernel if re.search(r"Out of memory|oom-kill|Killed process", line)]
    if killed:
        yield Finding(
            f"the kernel was out of memory: {killed[-1]}", "less memory (workers, batch in memory), or a larger host"
        )
        return
    end = signs.record("exit").get("oom_kills") or signs.values.get("oom_kills_now")
    if words := oom_words(signs.record("start"), end):
        yield Finding(words, "less memory (workers, batch in memory), or a larger host")


def _events(text: str) -> Iterable[dict[str, str]]:
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield {str(key): str(value) for key, value in event.items()}


def _attempts(text: str) -> Iterable[dict[str, str]]:
    """Lines of: number, exit status, the rank's, log from, log to, ended."""
    names = ("attempt", "exit_code", "rank_code", "log_from", "log_to", "ended")
    for line in text.splitlines():
        words = line.split()
        if len(words) == len(names):
            yield dict(zip(names, words, strict=True))


def _text(signs: Signs, name: str) -> str:
    return signs.files.get(name, b"").decode("utf-8", "replace")


def _printable(text: str) -> str:
    """Without control codes but for tabs and line ends; a line that was redrawn in its last state."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]", "", text)
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
    return "\n".join("".join(sign for sign in line if sign.isprintable() or sign == "\t") for line in lines)
