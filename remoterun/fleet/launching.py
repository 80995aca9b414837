"""Launching one job on one host: facts, plan, payload, start; over a single channel in a few round trips."""

from __future__ import annotations

import getpass
import os
import random
import secrets
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from difflib import get_close_matches
from pathlib import Path

from remoterun.errors import GpusTaken, HostError, PlanError, RemoterunError, StartError, UsageError
from remoterun.fleet.local_state import LocalState
from remoterun.host import scripts
from remoterun.host.conversation import Conversation
from remoterun.host.jobs import judge, parse_scan
from remoterun.host.look import look
from remoterun.host.project import find_project, list_files
from remoterun.host.remote import Remote
from remoterun.host.snapshot import (
    ChangedWhileRead,
    HashCache,
    Manifest,
    Payload,
    Tree,
    decode_manifest,
    difference,
    read_tree,
)
from remoterun.model.facts import Facts
from remoterun.model.job import JobSpec, JobState, JobStatus, Project, Snapshot
from remoterun.plan.gpus import check_tickets, choose, parse_request, wait_choice
from remoterun.plan.ids import make_id
from remoterun.plan.launch import LaunchPlan, make_plan
from remoterun.plan.sizes import ignore_lines

Notice = Callable[[str], None]
# Bytes sent so far, and in all.
Progress = Callable[[int, int], None]

# How long -d looks for a job that dies at once, in twentieths of a second.
_SETTLE_DETACHED = 10
_TRIES = 5
# The sh files of a job's folder, and the function each ends with.
_AGENT = {
    "supervise.sh": (
        ("lib", "signals", "leases", "checkpoints", "notify", "stacks", "watch", "queue", "supervise"),
        'rr_supervise "${0%/*}" "$@"',
    ),
    "view.sh": (("lib", "view"), 'rr_view "${0%/*}" "$@"'),
}


@dataclass(frozen=True, slots=True)
class Source:
    """The local side of a launch: the project and its files as they are now."""

    project: Project
    tree: Tree
    warnings: tuple[str, ...]

    @property
    def root(self) -> Path:
        """The project's folder."""
        return Path(self.project.root)

    @property
    def has_dockerfile(self) -> bool:
        """Whether the project brings its own image."""
        return b"Dockerfile" in self.tree.entries


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch decided to the last byte, not yet carried out."""

    plan: LaunchPlan
    payload: Payload
    tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A job that runs, or has ended already. ``follow`` is the request that streams its log, already on its
    way; None when detached."""

    plan: LaunchPlan
    status: JobStatus
    conversation: Conversation
    follow: int | None


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Who launches what from where. ``insist``: the project folder that --force-project names."""

    spec: JobSpec
    folder: Path
    state: LocalState
    insist: str | None = None
    notice: Notice = lambda text: None
    progress: Progress = lambda done, total: None


def read_source(project: Project, state: LocalState) -> Source:
    """The project's files. Raises UsageError for one that cannot be read."""
    root = Path(project.root)
    listed = list_files(root)
    tree = read_tree(root, listed.paths, HashCache(state.hashes(project.key)))
    return Source(project, tree, listed.warnings + tree.skipped)


def find_script(spec: JobSpec, source: Source) -> JobSpec:
    """``spec`` with its script as a path from the launch's folder. Raises UsageError for one that is not sent."""
    if spec.command.kind != "script":
        return spec
    target = spec.command.target
    if os.path.isabs(target) and Path(target).resolve().is_relative_to(source.root):
        target = os.path.relpath(Path(target).resolve(), source.root / source.project.folder)
    inside = os.path.normpath(os.path.join(source.project.folder, target))
    if inside.startswith("../") or os.path.isabs(target):
        raise UsageError(
            f"{target} is outside of the project {source.project.root}",
            hint="name a script of the project, or run a plain command: remoterun launch -- CMD…",
        )
    entry = source.tree.entries.get(os.fsencode(inside))
    if entry is None:
        raise UsageError(
            f"{target} is left out of what is sent: git or .remoterunignore ignores it, in {source.project.root}",
            hint="name a script of the project",
        )
    if not target.endswith(".py") and entry.kind == "f" and not entry.mode & 0o100:
        raise UsageError(
            f"{target} is neither a .py script nor executable",
            hint=f"chmod +x {target}, or name its interpreter: remoterun launch -- bash {target}",
        )
    return replace(spec, command=replace(spec.command, target=target))


def _before_connecting(request: LaunchRequest) -> None:
    """What can be told without the host. Raises UsageError."""
    parse_request(request.spec.gpus)
    command = request.spec.command
    script = Path(request.folder, command.target)
    if command.kind != "script" or script.exists():
        return
    beside = [name.name for name in script.parent.iterdir() if name.is_file()] if script.parent.is_dir() else []
    near = get_close_matches(script.name, beside, 1)
    raise UsageError(
        f"no script {command.target} in {request.folder}",
        hint=f"did you mean {Path(command.target).with_name(near[0])}?"
        if near
        else f"cd to where it is; for a command that is not of the project: remoterun launch -- {command.target}",
    )


@contextmanager
def launched(remote: Remote, request: LaunchRequest) -> Iterator[Started]:
    """Launch; the conversation stays open inside the ``with``, for the log to be followed.

    Raises any of the project's errors; then no job was made.
    """
    with _prepared(remote, request) as (conversation, prepared):
        try:
            started = start(remote, conversation, prepared, request.progress)
        finally:
            prepared.payload.close()
        request.state.add_host(remote.host.name)
        if prepared.tree is not None:
            keep_manifest(request.state, prepared.tree)
        yield started


@contextmanager
def planned(remote: Remote, request: LaunchRequest) -> Iterator[Prepared]:
    """The real path less its last call."""
    with _prepared(remote, request) as (_, prepared):
        yield prepared
        prepared.payload.close()


@contextmanager
def _prepared(remote: Remote, request: LaunchRequest) -> Iterator[tuple[Conversation, Prepared]]:
    _before_connecting(request)
    with ThreadPoolExecutor(2) as pool:
        # The login takes round trips, git and hashing take a disk: side by side.
        finding = pool.submit(find_project, request.folder, force=request.insist)
        reading = pool.submit(lambda: read_source(finding.result(), request.state))
        with remote.converse(but_first=finding.result) as conversation:
            facts = look(remote, conversation, finding.result().key, request.spec.python)
            source = reading.result()
            found = replace(request, spec=find_script(request.spec, source))
            yield conversation, _prepare(remote, conversation, found, source, facts)


def _prepare(
    remote: Remote, conversation: Conversation, request: LaunchRequest, source: Source, facts: Facts
) -> Prepared:
    for warning in source.warnings:
        request.notice(warning)
    for _ in range(_TRIES):
        base, entries = find_base(remote, conversation, source, facts, request.state)
        tree = source.tree
        snapshot = Snapshot(tree.id, base, len(tree.entries), tree.size)
        plan = plan_job(remote, request.spec, facts, source.project, snapshot, has_dockerfile=source.has_dockerfile)
        change = None if entries is source.tree.entries else difference(entries or {}, source.tree.entries)
        try:
            payload = Payload(source.root, source.tree, change, plan.files)
        except ChangedWhileRead as changed:
            request.notice(f"{changed} changed while it was read; reading again")
            source = read_source(source.project, request.state)
            continue
        hints = ignore_lines(
            {os.fsdecode(path): source.tree.entries[path].size for path in change.send} if change else {}
        )
        if hints:
            request.notice(
                f"{payload.sent_bytes >> 20} MiB to send; to leave the heavy part at home, add to .remoterunignore: "
                + "  ".join(hints[:5])
            )
        for warning in plan.warnings:
            request.notice(warning)
        return Prepared(plan, payload, source.tree)
    raise HostError(
        "files of the project kept changing while they were read",
        hint="stop what writes there, or name it in .remoterunignore",
    )


def find_base(
    remote: Remote, conversation: Conversation, source: Source, facts: Facts, state: LocalState
) -> tuple[str | None, Manifest | None]:
    """What the host has already: this very tree (its own entries are returned), an older one, or nothing."""
    tree = source.tree
    if tree.id in facts.trees:
        return None, tree.entries
    for candidate in facts.trees:
        try:
            return candidate, decode_manifest(state.manifest(candidate).read_bytes())
        except (OSError, RemoterunError):
            continue
    if facts.trees:
        # Another laptop made it, so the host is asked.
        newest = facts.trees[0]
        arguments = [remote.host.workdir, source.project.key, newest]
        reply = conversation.ask("rr_manifest", arguments, libraries=["lib", "facts"])
        if reply.status == 0:
            return newest, decode_manifest(reply.out)
    return None, None


def plan_job(
    remote: Remote,
    spec: JobSpec,
    facts: Facts,
    project: Project,
    snapshot: Snapshot,
    *,
    has_dockerfile: bool = False,
    rerun_of: str | None = None,
    resume: bool = False,
) -> LaunchPlan:
    """The plan of a job of this moment: an id, the GPUs that are free. Raises PlanError, GpusTaken, UsageError."""
    order = random.SystemRandom()
    try:
        seed = order.getrandbits(32)
        if spec.wait and "flock" in facts.tools:
            gpus = wait_choice(parse_request(spec.gpus), facts.gpus, seed=seed)
        else:
            gpus = choose(parse_request(spec.gpus), facts.gpus, seed=seed)
        check_tickets(gpus, facts.gpus)
    except RemoterunError as error:
        error.host = remote.host.name
        raise
    home = os.path.expanduser("~/")
    if facts.python is None and spec.python and spec.python.startswith(home) and remote.host.transport != "local":
        raise PlanError(
            f"no {spec.python} on {remote.host.name}",
            hint=f"your shell made ~ this machine's home; in quotes it is the host's: --python '~/{spec.python.removeprefix(home)}'",
            host=remote.host.name,
        )
    now = datetime.now(timezone.utc)
    return make_plan(
        spec,
        remote.host,
        facts,
        job_id=make_id(spec.name, datetime.now(), secrets.token_hex(2)),
        now=now,
        project=project,
        snapshot=snapshot,
        gpus=gpus,
        launcher={"user": getpass.getuser(), "host": socket.gethostname()},
        agent={name: _agent(*parts) for name, parts in _AGENT.items()},
        has_dockerfile=has_dockerfile,
        rerun_of=rerun_of,
        resume=resume,
    )


def _agent(libraries: tuple[str, ...], call: str) -> str:
    return "#!/bin/sh\n" + "\n".join(scripts.read(library) for library in libraries) + f"\n{call}\n"


def start_arguments(plan: LaunchPlan, size: int) -> list[str]:
    """The arguments of ``rr_start`` (remoterun/sh/start.sh)."""
    return [
        plan.paths.workdir,
        plan.id,
        plan.project.key,
        plan.snapshot.tree,
        plan.snapshot.base or "",
        str(size),
        plan.login_shell or "",
        plan.tmux or "",
        str(_SETTLE_DETACHED if plan.spec.detach else 0),
        plan.rerun_of or "",
        "resume" if plan.resume else "",
    ]


START_LIBRARIES = ("lib", "jobs", "session", "leases", "checkpoints", "start")


def start(
    remote: Remote, conversation: Conversation, prepared: Prepared, progress: Progress = lambda done, total: None
) -> Started:
    """Carry the plan out: the one call that changes anything. Raises any of the project's errors; then no job was made."""
    plan = prepared.plan
    number = conversation.post(
        "rr_start",
        start_arguments(plan, prepared.payload.size),
        libraries=START_LIBRARIES,
        payload=prepared.payload.pieces(progress),
    )
    # The log is asked for before the answer is here: where the start fails there is no job, and no log.
    follow = None
    if not (plan.spec.detach or plan.spec.tty):
        follow = conversation.post("rr_follow", [plan.paths.workdir, plan.id, "0"], libraries=["jobs"])
    reply = conversation.collect(number, timeout=None if prepared.payload.size > 1 << 20 else 120.0)
    if reply.status:
        raise remote.failure(reply, f"making job {plan.id}")
    scan = parse_scan(reply.out)
    status = judge(scan.jobs[0], scan, remote.host.name) if scan.jobs else None
    if status is None:
        raise remote.failure(reply, f"starting job {plan.id}")
    if "refused" in scan.jobs[0].record("exit"):
        if follow is not None:
            conversation.collect(follow)
        conversation.ask("rr_remove", [plan.paths.workdir, plan.id, ""], libraries=["lib", "jobs"])
        raise GpusTaken(
            f"somebody took GPU {', '.join(map(str, plan.gpus.indices))} of {remote.host.name} a moment before",
            hint="remoterun gpus shows who; try again, or choose others",
            host=remote.host.name,
        )
    if status.started is None and status.exit_code is None and status.state is not JobState.QUEUED:
        raise StartError(
            f"job {plan.id} was made on {remote.host.name} but its supervisor did not start: "
            f"{reply.error_text or 'no reason given'}",
            hint=f"remoterun status {plan.id}",
            host=remote.host.name,
        )
    return Started(plan, status, conversation, follow)


def keep_manifest(state: LocalState, tree: Tree) -> None:
    file = state.manifest(tree.id)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_suffix(f".{os.getpid()}")
        aside.write_bytes(tree.manifest)
        aside.replace(file)
    except OSError:
        return
