"""A launch plan and a job, in words."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime

from remoterun.fleet.launching import START_LIBRARIES, start_arguments
from remoterun.host import scripts
from remoterun.host.history import History
from remoterun.host.jobs import parse_time
from remoterun.host.snapshot import Payload
from remoterun.model.job import JobStatus
from remoterun.plan import shell
from remoterun.plan.launch import LaunchPlan
from remoterun.views.live.marks import spark, thinned
from remoterun.views.tables import local_time, printable


def summary(plan: LaunchPlan) -> str:
    """One line at the start of a followed job."""
    gpus = ", ".join(str(index) for index in plan.gpus.indices)
    if plan.gpus.count:
        return f"{plan.id} goes to {plan.host} for {plan.gpus.count} GPUs, when they are free; Ctrl-C detaches"
    where = f"GPU{'s' if len(plan.gpus.indices) > 1 else ''} {gpus}" if plan.gpus.uuids else "no GPU"
    under = f"; torchrun, {_processes(plan.nproc)}" if plan.spec.command.torchrun else ""
    return f"{plan.id} runs on {plan.host} ({where}{under}); Ctrl-C detaches"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _asked_gpus(plan: LaunchPlan) -> str:
    if plan.gpus.count:
        return f"the first {plan.gpus.count} that are free of {', '.join(plan.gpus.candidates)}"
    return ", ".join(plan.gpus.uuids) or "none"


def describe(plan: LaunchPlan, payload: Payload) -> str:
    """``--dry-run``: everything that would be done, in its order. Secrets are named, never shown."""
    snapshot, project = plan.snapshot, plan.project
    commit = f", commit {project.commit[:12]}{' with changes' if project.dirty else ''}" if project.commit else ""
    lines = [
        f"job       {plan.id}",
        f"host      {plan.host}",
        f"runtime   {plan.runtime}: {plan.runtime_reason}",
        f"gpus      {_asked_gpus(plan)}",
        f"project   {project.root}{commit}",
        f"snapshot  {snapshot.tree}: {snapshot.files} files, {snapshot.size} bytes; to send {payload.sent_bytes} bytes"
        + (f" on top of {snapshot.base}" if snapshot.base else ""),
        f"folder    {plan.paths.folder}",
        f"starts in {plan.working_folder}",
        f"command   {shell.join(plan.argv)}",
        *(f"data      {mount.name}: {mount.source} ({mount.mode}) in ${mount.variable}" for mount in plan.mounts),
        "environment",
        *(f"  {name}={shell.quote(value)}" for name, value in plan.environment),
        *(f"  {name}=(secret)" for name in plan.secrets),
        "files",
        *(f"  {oct(file.mode)[2:]} {plan.paths.file(file.name)}" for file in plan.files),
        "steps",
        f"  1 send {payload.size} bytes (compressed) and unpack them aside",
        f"  2 make snapshot {snapshot.tree} in {plan.paths.workdir}/trees"
        + ("" if payload.sent_bytes else " (there already)"),
        f"  3 copy it to {plan.paths.folder}/code and rename the finished folder into its place",
        f"  4 start supervise.sh in a session of its own{f' by {plan.login_shell}' if plan.login_shell else ''}",
        f"  5 make the tmux session {plan.id}" if plan.tmux else "  5 no tmux session (no tmux on the host)",
    ]
    for file in plan.files:
        if file.name == "run.sh":
            lines += ["", f"# {plan.paths.file(file.name)}", file.content.rstrip("\n")]
    return "\n".join(lines) + "\n"


def eject(plan: LaunchPlan, payload: Payload) -> bytes:
    """``--eject``: the same launch as one POSIX sh script: the same functions, the same arguments, and the
    payload in base64. It holds the job's secrets, so it is written for its owner alone."""
    body = base64.encodebytes(b"".join(payload.pieces()))
    parts: Iterable[str] = (scripts.read(library) for library in (*START_LIBRARIES, "eject"))
    words = shell.join([plan.paths.folder, plan.tmux or ""])
    call = shell.join(["rr_start", *start_arguments(plan, payload.size)])
    head = (
        f"#!/bin/sh\n# Starts job {plan.id}; made by remoterun for {plan.host}. Needs sh, coreutils, tar, gzip.\n"
        + "\n".join(parts)
        + f"\nbase64 -d <<'END-OF-PAYLOAD' | {{ {call} 3<&0 </dev/null; }} >/dev/null\n"
    )
    tail = f"END-OF-PAYLOAD\nrr_ejected $? {words}\n"
    return head.encode("utf-8", "surrogateescape") + body + tail.encode("utf-8", "surrogateescape")


def _moment(time: datetime | None) -> str:
    return f"{local_time(time)} {time.astimezone().tzname()}" if time else "-"


def _gpus(job: JobStatus) -> str:
    indices = job.record.get("gpu_indices")
    shown = ", ".join(str(index) for index in indices) if isinstance(indices, list) else ""
    uuids = ", ".join(job.gpus)
    return f"{shown} ({uuids})" if shown and uuids else uuids or "none"


_GRAPH = 48


def history_text(job: JobStatus, history: History, *, ascii_only: bool) -> str:
    """The lines of ``status`` about what happened over time: each GPU's use, and the loss, oldest at the left."""
    lines = []
    indices = job.record.get("gpu_indices")
    for number, (uuid, used) in enumerate(history.utilization.items()):
        known = [value for value in used if value is not None]
        index = indices[number] if isinstance(indices, list) and number < len(indices) else uuid
        said = (
            f"mean {sum(known) / len(known):.0f} %, last {used[-1]:.0f} %"
            if known and used[-1] is not None
            else "unknown"
        )
        graph = spark(thinned(used, _GRAPH), min(len(used), _GRAPH), ascii_only=ascii_only)
        lines.append(f"{f'gpu {index} use':<15} {graph}  {said}")
    losses = history.losses
    if losses:
        low, high = min(losses), max(losses)
        span = (high - low) or 1.0
        shape = thinned([(loss - low) / span * 100 for loss in losses], _GRAPH)
        graph = spark(shape, min(len(losses), _GRAPH), ascii_only=ascii_only)
        lines.append(f"{'loss':<15} {graph}  {losses[0]:.4g} to {losses[-1]:.4g}, lowest {low:.4g}")
    return "".join(line + "\n" for line in lines)


def status_text(job: JobStatus, tmux: str | None) -> str:
    """``status`` for people."""
    record = job.record
    project = record.get("project")
    launcher = record.get("launcher")
    stop = dict(job.stop)
    rows: list[tuple[str, object]] = [
        ("job", job.id),
        ("host", job.host),
        ("state", job.state.value + (f" ({job.reason})" if job.reason else "")),
        ("exit status", job.exit_code),
        ("attempt", job.attempt if job.attempt > 1 else None),
        ("rerun of", record.get("rerun_of")),
        ("launched by", "@".join(str(part) for part in launcher.values()) if isinstance(launcher, dict) else None),
        ("created", _moment(job.created)),
        ("started", _moment(job.started)),
        ("ended", _moment(job.ended)),
        ("runtime", job.runtime),
        ("gpus", _gpus(job)),
    ]
    if isinstance(project, dict):
        commit = str(project.get("commit") or "")[:12]
        dirty = " with changes" if project.get("dirty") else ""
        rows.append(("project", f"{project.get('name')} {commit}{dirty}".rstrip()))
    argv = record.get("argv")
    if isinstance(argv, list):
        rows.append(("command", shell.join(str(word) for word in argv)))
    rows += [
        ("working folder", record.get("working_folder")),
        ("outputs", f"{record['folder']}/out" if record.get("folder") else None),
        ("log", f"{job.log_size} bytes" if job.log_size is not None else None),
        ("last line", job.last_line),
    ]
    if stop:
        rows.append(
            (
                "stop",
                f"SIG{stop.get('signal')} at {_moment(parse_time(stop.get('asked')))}, took {stop.get('seconds', '?')} s, "
                f"{stop.get('killed') or 0} killed",
            )
        )
    if job.last_known_state:
        rows.append(("last known", f"{job.last_known_state}, {int(job.age_s or 0)} s ago"))
    if tmux and not job.state.ended:
        rows.append(("on the host", tmux))
    return "".join(f"{name:<15} {printable(str(value))}\n" for name, value in rows if value not in (None, "", "-"))
