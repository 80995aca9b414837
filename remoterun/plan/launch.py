"""Spec + facts → the whole launch as one value. PURE: no clock, no network, no environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from remoterun.errors import PlanError, UsageError
from remoterun.model.facts import Facts
from remoterun.model.host import Host, Mount
from remoterun.model.job import Command, JobPaths, JobSpec, Project, Snapshot
from remoterun.plan import shell
from remoterun.plan.gpus import GpuChoice, cuda_environment
from remoterun.plan.guards import guards_file, notify_file, restart_file
from remoterun.plan.mounts import choose_mounts, unbound
from remoterun.plan.record import job_record
from remoterun.plan.torchrun import torchrun_argv, torchrun_environment


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A file of the job's folder. A secret one is never printed."""

    name: str
    content: str
    mode: int = 0o600
    secret: bool = False


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything a launch does on its host, decided before anything is touched.

    ``argv`` is what runs in the end; ``environment`` what the job gets over its login's (names and values of
    ours), ``secrets`` what the user gave by --env and --env-file (values never leave ``files``).
    ``rerun_of`` is the job whose secrets (and, with ``resume``, newest checkpoint) this one takes over on the host.
    ``login_shell`` is None where the job's environment is this process's own (transport local).
    """

    id: str
    spec: JobSpec
    host: str
    paths: JobPaths
    project: Project
    snapshot: Snapshot
    runtime: str
    runtime_reason: str
    nproc: int
    gpus: GpuChoice
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    files: tuple[PlanFile, ...]
    login_shell: str | None
    tmux: str | None
    warnings: tuple[str, ...] = ()
    rerun_of: str | None = None
    resume: bool = False
    mounts: tuple[Mount, ...] = ()

    @property
    def working_folder(self) -> str:
        """Where the job starts: the launch's own folder in the job's copy of the project."""
        folder = f"/{self.project.folder}" if self.project.folder else ""
        return f"{self.paths.folder}/code{folder}"


def choose_runtime(spec: JobSpec, host: Host, has_dockerfile: bool) -> tuple[str, str]:
    """The runtime and the reason for it. Raises UsageError where --image and --runtime contradict each other."""
    asked = spec.runtime or host.runtime
    if spec.image and spec.runtime == "none":
        raise UsageError("--image asks for a container, and --runtime none for none", hint="leave one out")
    if spec.image and asked == "none":
        # What was typed for this launch wins over the host's habit.
        return "docker", f"the image {spec.image} is named"
    if asked != "auto":
        return asked, "asked for" if spec.runtime else f"{host.name}'s runtime in hosts.yaml"
    image = spec.image or host.image
    if image:
        return "docker", f"the image {image} is named"
    if has_dockerfile:
        return "docker", "the project has a Dockerfile"
    return "none", "no image is named and the project has no Dockerfile"


def make_plan(
    spec: JobSpec,
    host: Host,
    facts: Facts,
    *,
    job_id: str,
    now: datetime,
    project: Project,
    snapshot: Snapshot,
    gpus: GpuChoice,
    launcher: Mapping[str, str],
    agent: Mapping[str, str],
    has_dockerfile: bool = False,
    rerun_of: str | None = None,
    resume: bool = False,
) -> LaunchPlan:
    """The plan. ``now`` is UTC; ``launcher`` says who launched from where; ``agent`` the texts of the sh
    files that go into the job's folder (name → text).

    Raises PlanError where the spec does not fit the facts.
    """
    runtime, reason = choose_runtime(spec, host, has_dockerfile)
    if runtime != "none":
        raise PlanError(
            f"runtime {runtime} ({reason}) is not supported by this version",
            hint="--runtime none runs with the host's own Python",
            host=host.name,
        )
    if spec.guards.idle_s is not None and not gpus.size:
        raise UsageError(
            "--stop-when-idle watches a job's GPUs, and this one has no GPU", hint="--timeout ends it by time"
        )
    paths = JobPaths(facts.workdir, job_id)
    nproc = spec.nproc_per_node or max(1, gpus.size)
    argv = _argv(spec, host, facts, paths, nproc)
    environment = _environment(spec, host, facts, paths, gpus, nproc)
    mounts = choose_mounts(spec.data, host, facts.home)
    environment |= {mount.variable: mount.source for mount in mounts}
    warnings = (*_warnings(facts, host), *unbound(mounts))
    plan = LaunchPlan(
        id=job_id,
        spec=spec,
        host=host.name,
        paths=paths,
        project=project,
        snapshot=snapshot,
        runtime=runtime,
        runtime_reason=reason,
        nproc=nproc,
        gpus=gpus,
        argv=argv,
        environment=tuple(environment.items()),
        secrets=tuple(spec.env),
        files=(),
        login_shell=facts.login_shell,
        tmux=facts.tools["tmux"].split(" ")[0] if "tmux" in facts.tools else None,
        warnings=warnings,
        rerun_of=rerun_of,
        resume=resume,
        mounts=mounts,
    )
    record = job_record(plan, facts, now, launcher)
    files = [
        PlanFile("job.json", json.dumps(record, indent=1) + "\n"),
        PlanFile("run.sh", run_script(plan, facts, spec.setup or host.setup), 0o700),
        PlanFile("env", shell.exports(spec.env), secret=True),
        PlanFile("gpus", ",".join(gpus.uuids)),
        *_lease_files(gpus, facts),
        *_supervision_files(plan),
        *(PlanFile(name, text, 0o700) for name, text in agent.items()),
    ]
    return replace(plan, files=tuple(files))


def _lease_files(gpus: GpuChoice, facts: Facts) -> list[PlanFile]:
    """What a job waits for, and the processes that were on its GPUs when they were chosen."""
    if gpus.count:
        return [PlanFile("wait", f"count={gpus.count}\nany={','.join(gpus.candidates)}\n")]
    pids = [str(process.pid) for gpu in facts.gpus.gpus if gpu.uuid in gpus.uuids for process in gpu.processes]
    return [PlanFile("seen", " ".join(pids) + "\n")] if pids else []


def _supervision_files(plan: LaunchPlan) -> list[PlanFile]:
    """What the supervisor and the watcher on the host read. One that is not there asks for nothing."""
    spec = plan.spec
    files = [PlanFile("guards", guards_file(spec.guards))]
    if spec.guards.restart:
        files.append(PlanFile("restart", restart_file(spec.guards.restart)))
    if spec.notify:
        files.append(PlanFile("notify", notify_file(spec.notify), secret=True))
    if spec.checkpoint:
        files.append(PlanFile("checkpoint", spec.checkpoint + "\n"))
    if plan.project.folder:
        files.append(PlanFile("folder", plan.project.folder + "\n"))
    if spec.command.torchrun:
        # sh/signals.sh must know that the job's first process is torchrun.
        files.append(PlanFile("torchrun", ""))
    if spec.tty:
        files.append(PlanFile("tty", ""))
    return files


def _environment(
    spec: JobSpec, host: Host, facts: Facts, paths: JobPaths, gpus: GpuChoice, nproc: int
) -> dict[str, str]:
    """What the job gets over its login's environment; the host's own settings win over ours."""
    environment: dict[str, str] = {}
    if spec.command.torchrun:
        environment.update(torchrun_environment(nproc, facts.cpus))
    environment |= {"PYTHONUNBUFFERED": "1"}
    environment |= cuda_environment(gpus)
    environment |= host.env
    environment |= {
        "REMOTERUN_JOB": paths.id,
        "REMOTERUN_OUT": paths.file("out"),
    }
    return environment


def _argv(spec: JobSpec, host: Host, facts: Facts, paths: JobPaths, nproc: int) -> tuple[str, ...]:
    command = spec.command
    if not command.torchrun:
        target = command.target
        if command.kind == "script":
            target = f"./{target.removeprefix('./')}"
        return (target, *command.arguments)
    python = facts.python
    if python is None:
        where = facts.python_asked or "python3 or python"
        raise PlanError(
            f"no {where} on {host.name}" + ("" if "/" in where else f" (looked in {facts.path})"),
            hint="name one with --python, or python: of the host in hosts.yaml",
            host=host.name,
        )
    if python.version is None:
        raise PlanError(f"{python.path} on {host.name} does not run", hint="remoterun doctor", host=host.name)
    if python.torch is None:
        raise PlanError(
            f"{python.path} on {host.name} (Python {python.version}) has no torch, and a Python script runs under torchrun",
            hint=f"name an interpreter that has it with --python or in hosts.yaml, install it there, or run without "
            f"torchrun: remoterun launch -H {host.name} -- {shell.join(_without_torchrun(command, python.path))}",
            host=host.name,
        )
    return torchrun_argv(command, python.path, nproc, paths.file("ranks"), spec.max_restarts)


def _without_torchrun(command: Command, python: str) -> list[str]:
    """What the command comes to as a plain one."""
    module = ["-m"] if command.kind == "module" else []
    return [python, *module, command.target, *command.arguments]


def _warnings(facts: Facts, host: Host) -> tuple[str, ...]:
    found = list(facts.gpus.warnings)
    if facts.gpus.problem:
        found.append(facts.gpus.problem)
    if facts.kills_at_logout:
        found.append(
            f"{host.name} ends every process of a login when it logs out (KillUserProcesses=yes): the job may end with "
            "the last SSH session; remoterun doctor names the cure"
        )
    if "tmux" not in facts.tools:
        found.append(
            f"no tmux on {host.name} (looked in {facts.path}): the job runs, but `attach` needs it; "
            "install it, or name one with tmux: in hosts.yaml"
        )
    return tuple(found)


def run_script(plan: LaunchPlan, facts: Facts, setup: str | None) -> str:
    """run.sh: the job's environment, its folder, its command."""
    lines = [
        f"# Job {plan.id}: what runs, and with what. Made by remoterun; started by supervise.sh.",
        f"PATH={shell.quote(facts.path)}:$PATH",
        "unset TMUX TMUX_PANE STY SSH_TTY SSH_CONNECTION SSH_CLIENT",
        shell.exports(dict(plan.environment)).rstrip("\n"),
        f". {shell.quote(plan.paths.file('env'))}",
        f"cd {shell.quote(plan.working_folder)} || exit 126",
        *(shell.data_check(mount.name, mount.source, mount.mode).rstrip("\n") for mount in plan.mounts),
    ]
    if plan.gpus.count:
        lines.insert(-1, f". {shell.quote(plan.paths.file('gpus.env'))} || exit 126")
    if setup:
        # A job in the wrong environment is worse than none. 126: not to be tried again.
        failed = "remoterun: the setup line ended with status %s; the job is not started (`|| :` at its end lets it)\n"
        lines += [
            "# setup:",
            setup,
            f'set -- "$?"; [ "$1" = 0 ] || {{ printf {shell.quote(failed)} "$1" >&2; exit 126; }}',
        ]
    first = shell.quote(plan.argv[0])
    lines += [
        f"if ! command -v {first} >/dev/null 2>&1; then",
        f"  printf '%s\\n' {shell.quote(f'remoterun: {plan.argv[0]}: no such program on {plan.host}')} >&2",
        "  exit 127",
        "fi",
        f"exec {shell.join(plan.argv)}",
    ]
    return "\n".join(lines) + "\n"
