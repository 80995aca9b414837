"""Acting on one job: stop, remove, attach, print its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remoterun.errors import HostError, UsageError
from remoterun.fleet.following import read_status
from remoterun.host.jobs import judge, parse_scan
from remoterun.host.remote import Remote
from remoterun.model.job import JobState, JobStatus
from remoterun.plan import shell

if TYPE_CHECKING:
    from remoterun.host.history import History
    from remoterun.host.postmortem import PostMortem

SIGNALS = ("TERM", "INT", "USR1", "USR2", "QUIT", "HUP", "KILL")


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a stop came to: the job afterwards, what was done, pids that could not be ended."""

    status: JobStatus
    notes: tuple[str, ...]
    left: tuple[int, ...]


def stop_job(
    remote: Remote, job_id: str, *, signal: str = "TERM", grace: int = 30, notice: Callable[[str], None]
) -> Stopped:
    """Signal, wait ``grace`` seconds, kill; then prove that nothing is left. Harmless when repeated.

    Runs on the host: this process may vanish meanwhile. Raises UsageError, UnknownJob, HostError.
    """
    if signal not in SIGNALS:
        raise UsageError(f"no signal {signal!r} to stop with", hint=f"one of {', '.join(SIGNALS)}")
    if not 0 <= grace <= 86400:
        raise UsageError(f"a grace of {grace} s", hint="0 to 86400 seconds")
    with remote.converse() as conversation:
        number = conversation.post(
            "rr_stop",
            [remote.host.workdir, job_id, signal, str(grace)],
            libraries=["lib", "signals", "jobs"],
        )
        notice(f"stopping {job_id} on {remote.host.name}: SIG{signal}, up to {grace} s to end, then SIGKILL")
        reply = remote.check(conversation.collect(number, timeout=grace + 90.0), f"stopping {job_id}", job_id)
        scan = parse_scan(reply.out)
        status = judge(scan.jobs[0], scan, remote.host.name) if scan.jobs else None
        if status is None:
            raise remote.failure(reply, f"stopping {job_id}")
        notes, left = [], []
        for line in reply.text.split("\njob=", 1)[0].splitlines():
            key, _, value = line.partition("=")
            if key == "note":
                notes.append(value)
            elif key == "left":
                left = [int(pid) for pid in value.split() if pid.isdigit()]
        if left:
            raise HostError(
                f"job {job_id} was stopped, but processes {', '.join(map(str, left))} do not end",
                hint="they are stuck in the kernel (a hanging disk or GPU driver); look again later",
                host=remote.host.name,
            )
        return Stopped(status, tuple(notes), tuple(left))


def remove_job(remote: Remote, job_id: str) -> None:
    """Remove an ended job's folder. Raises UsageError for one that has not ended, UnknownJob."""
    with remote.converse() as conversation:
        status = read_status(remote, conversation, job_id)
        lost = "lost" if status.state is JobState.LOST else ""
        reply = conversation.ask(
            "rr_remove", [remote.host.workdir, job_id, lost], libraries=["lib", "jobs"], timeout=600
        )
        if reply.status in (5, 6):
            why = f"is {status.state.value}" if reply.status == 5 else "has ended, but processes of it are alive"
            raise UsageError(f"{job_id} {why}: not removed", hint=f"remoterun stop {job_id}")
        remote.check(reply, f"removing {job_id}", job_id)


def post_mortem(remote: Remote, job_id: str) -> PostMortem:
    """The evidence of one job, put together. Raises UnknownJob."""
    from remoterun.host.look import collect_gpus, post_gpus
    from remoterun.host.postmortem import examine

    with remote.converse() as conversation:
        number = conversation.post("rr_why", [remote.host.workdir, job_id], libraries=["lib", "jobs", "why"])
        posted = post_gpus(conversation, remote)
        reply = remote.check(conversation.collect(number), f"looking into {job_id}", job_id)
        gpus = collect_gpus(conversation, posted)
    scan = parse_scan(reply.out)
    found = examine(scan.jobs[0], scan, remote.host.name, gpus) if scan.jobs else None
    if found is None:
        raise remote.failure(reply, f"looking into {job_id}")
    return found


def read_history(remote: Remote, job_id: str) -> History:
    """What a job's GPUs did so far, and its loss. Raises UnknownJob."""
    from remoterun.host.history import parse_history

    with remote.converse() as conversation:
        reply = conversation.ask("rr_history", [remote.host.workdir, job_id], libraries=["lib", "jobs"])
        remote.check(reply, f"reading the history of {job_id}", job_id)
    return parse_history(parse_scan(reply.out).jobs[0])


def read_stacks(remote: Remote, job_id: str) -> str:
    """The stacks of a job's Python processes. Raises UsageError when it has none."""
    with remote.converse() as conversation:
        if read_status(remote, conversation, job_id).state.ended:
            raise UsageError(f"{job_id} has ended", hint=f"remoterun why {job_id}")
        reply = conversation.ask("rr_stacks", [job_id], libraries=["lib", "stacks"], timeout=300)
        if reply.status == 4:
            raise UsageError(f"{job_id} has no Python process now", hint=f"remoterun logs {job_id}")
        remote.check(reply, f"reading the stacks of {job_id}", job_id)
        return reply.out.decode("utf-8", "replace")


def attach_argv(remote: Remote, job_id: str) -> list[str]:
    """The argv that hands this terminal to the job's tmux session; makes the session anew if it is gone.

    Raises UsageError when the job has ended, HostError when there is no tmux.
    """
    from remoterun.host.look import look

    with remote.converse() as conversation:
        facts = look(remote, conversation, "", None, gpus=False)
        tmux = facts.tools.get("tmux", "").split(" ")[0]
        if not tmux:
            raise HostError(
                f"no tmux on {remote.host.name} (looked in {facts.path})",
                hint=f"install it, or name one with tmux: in hosts.yaml; meanwhile: remoterun logs -f {job_id}",
                host=remote.host.name,
            )
        reply = conversation.ask("rr_attach", [facts.workdir, job_id, tmux], libraries=["lib", "session", "jobs"])
        if reply.status == 5:
            raise UsageError(f"{job_id} has ended", hint=f"remoterun logs {job_id}")
        remote.check(reply, f"attaching to {job_id}", job_id)
        socket = reply.text.strip()
    return remote.transport.interactive_argv(tmux_attach(tmux, socket, job_id))


def tmux_attach(tmux: str, socket: str, job_id: str) -> str:
    """The command that attaches, for any login shell: with a TERM the host knows, without an outer tmux's traces."""
    attach = shell.join([tmux, "-u", "-S", socket, "attach-session", "-t", f"={job_id}"])
    return shell.for_login_shell(
        "unset TMUX TMUX_PANE; infocmp >/dev/null 2>&1 || TERM=xterm-256color; "
        f"infocmp >/dev/null 2>&1 || TERM=screen; export TERM; exec {attach}"
    )


def tmux_hint(job: JobStatus) -> str | None:
    """What to type on the host itself to see the job's session (its socket as sh/session.sh places it)."""
    folder = str(job.record.get("folder") or "")
    if not folder:
        return None
    work = folder.rsplit("/jobs/", 1)[0]
    socket = f"{work}/tmux-{job.record.get('hostname')}/socket"
    return f"tmux -S {shell.quote(socket)} attach -t ={job.id}"
