"""``Fleet``: the hosts of an inventory, and the jobs on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from remoterun.config.inventory import Inventory
from remoterun.errors import ConnectError, UnknownHost, UnknownJob, UsageError
from remoterun.fleet import listing
from remoterun.fleet.job import Job as Job
from remoterun.fleet.local_state import LocalState
from remoterun.fleet.watching import Watch
from remoterun.host.project import find_project
from remoterun.host.remote import Remote
from remoterun.model.facts import Facts
from remoterun.model.host import EMPTY, Host
from remoterun.model.job import Command, JobSpec, JobStatus
from remoterun.plan import ids
from remoterun.transport.factory import Prompt, make_transport

if TYPE_CHECKING:
    from remoterun.fleet import launching, syncing

Notice = Callable[[str], None]


def _silent(text: str) -> None:
    """Where nobody wants to hear."""


def _no_progress(done: int, total: int) -> None:
    """Where nobody wants to see."""


@dataclass(frozen=True)
class Fleet:
    """The hosts of an inventory and the jobs on them.

    ``notice`` gets sentences for people while something goes on; ``prompt`` is asked for passphrases and
    passwords (None: never ask); ``progress`` gets bytes sent and bytes in all while files go there; ``accept_new`` adds the key of a host never seen before to known_hosts.
    """

    inventory: Inventory
    state: LocalState
    accept_new: bool = False
    prompt: Prompt | None = None
    notice: Notice = _silent
    progress: Callable[[int, int], None] = _no_progress
    _remotes: dict[str, Remote] = field(default_factory=dict, repr=False)

    @classmethod
    def load(
        cls,
        hosts_file: str | os.PathLike[str] | None = None,
        *,
        accept_new: bool = False,
        prompt: Prompt | None = None,
        notice: Notice = _silent,
        progress: Callable[[int, int], None] = _no_progress,
    ) -> Fleet:
        """The fleet of hosts.yaml (contract §4), or of the SSH configuration alone. Raises ConfigError."""
        inventory = Inventory.load(os.fspath(hosts_file) if hosts_file is not None else None)
        return cls(inventory, LocalState.default(), accept_new, prompt, notice, progress)

    def remote(self, host: Host) -> Remote:
        """The way to one host. Opens nothing yet."""
        if host.name not in self._remotes:
            self._remotes[host.name] = Remote(
                host, make_transport(host, accept_new=self.accept_new, prompt=self.prompt)
            )
        return self._remotes[host.name]

    def select(self, patterns: Sequence[str] = ()) -> tuple[Remote, ...]:
        """The hosts that ``patterns`` name; without any: all of hosts.yaml, else those used before from this
        machine and ``local``. Raises UnknownHost."""
        if patterns:
            hosts = self.inventory.select(patterns)
        elif self.inventory.source is not None:
            hosts = tuple(self.inventory.hosts.values())
        else:
            # Not looked up: one whose name does not resolve today is a row that says so.
            hosts = tuple(self.inventory.host(name) for name in dict.fromkeys((*self.state.hosts_used(), "local")))
        return tuple(self.remote(host) for host in hosts)

    def launch_host(self, patterns: Sequence[str] = ()) -> Remote:
        """The one host of a launch: what ``patterns`` name, else the default, else ``local``."""
        asked = list(patterns) or [self.inventory.default_host or "local"]
        try:
            hosts = self.inventory.select(asked)
        except UnknownHost as error:
            if not patterns:
                error.message += f"; it is the default host of {self.inventory.source}"
            raise
        if len(hosts) != 1:
            raise UsageError(
                f"{', '.join(asked)} names {len(hosts)} hosts; a job runs on one in this version",
                hint="launch on one of " + ", ".join(host.name for host in hosts[:8]),
            )
        return self.remote(hosts[0])

    def launch(
        self,
        target: str,
        *arguments: str,
        hosts: Sequence[str] = (),
        name: str | None = None,
        gpus: int | str | None = None,
        module: bool = False,
        env: Mapping[str, str] = EMPTY,
        folder: str | os.PathLike[str] = ".",
        nproc_per_node: int | None = None,
        runtime: str | None = None,
        python: str | None = None,
        max_restarts: int = 0,
    ) -> Job:
        """Launch a script (or ``module``) of the project around ``folder``, and return once it runs.

        ``gpus`` as on the command line. Raises any of :mod:`remoterun.errors`; then no job was made.
        """
        spec = JobSpec(
            name=name or ids.default_name(target),
            command=Command("module" if module else "script", target, tuple(arguments)),
            gpus=None if gpus is None else str(gpus),
            nproc_per_node=nproc_per_node,
            runtime=runtime,
            python=python,
            env=env,
            max_restarts=max_restarts,
        )
        return self.launch_spec(spec, hosts=hosts, folder=folder)

    def launch_spec(self, spec: JobSpec, *, hosts: Sequence[str] = (), folder: str | os.PathLike[str] = ".") -> Job:
        """Launch whatever the command line can: a plain command, restarts, limits, news (:class:`JobSpec`,
        :class:`Command`, :class:`Guards`, :class:`Restart` of this package)."""
        with self.launched(replace(spec, detach=True), hosts, Path(folder).absolute()) as started:
            return Job(self, self.launch_host(hosts), started.status)

    @contextmanager
    def launched(
        self, spec: JobSpec, hosts: Sequence[str], folder: Path, force_project: str | None = None
    ) -> Iterator[launching.Started]:
        """Launch, with the connection kept open inside the ``with`` for the log to be followed."""
        # Reading trees and making plans costs a tenth of a second to import; only launches need it.
        from remoterun.fleet import launching

        request = self._request(spec, folder, force_project)
        with launching.launched(self.launch_host(hosts), request) as started:
            listing.remember(self.state, [started.status])
            yield started

    @contextmanager
    def planned(
        self, spec: JobSpec, hosts: Sequence[str], folder: Path, force_project: str | None = None
    ) -> Iterator[launching.Prepared]:
        """The same, less the last call: nothing is touched."""
        from remoterun.fleet import launching

        request = self._request(spec, folder, force_project)
        with launching.planned(self.launch_host(hosts), request) as prepared:
            yield prepared

    def _request(self, spec: JobSpec, folder: Path, force_project: str | None) -> launching.LaunchRequest:
        from remoterun.fleet import launching

        ids.check_name(spec.name)
        return launching.LaunchRequest(spec, folder, self.state, force_project, self.notice, self.progress)

    def sync(
        self,
        host: str | None = None,
        *,
        folder: str | os.PathLike[str] = ".",
        dry_run: bool = False,
        force_project: str | None = None,
    ) -> syncing.Synced:
        """The project's files as a snapshot on a host (default: launch's), or only what that would send."""
        from remoterun.fleet import launching, syncing

        spec = JobSpec("sync", Command("plain", "true"))
        request = launching.LaunchRequest(spec, Path(folder), self.state, force_project, self.notice, self.progress)
        return syncing.sync(self.launch_host([host] if host else []), request, dry_run=dry_run)

    def diff(
        self, job: Job, other: Job | None = None, *, folder: str | os.PathLike[str] = "."
    ) -> tuple[syncing.Change, ...]:
        """What differs from a job's snapshot to another's, or to the project around ``folder``."""
        from remoterun.fleet import launching, syncing

        if other is not None:
            return syncing.compare_jobs((job.remote, job.refresh()), (other.remote, other.refresh()))
        spec = JobSpec("diff", Command("plain", "true"))
        request = launching.LaunchRequest(spec, Path(folder), self.state, None, self.notice)
        return syncing.compare_with_tree(job.remote, job.refresh(), request)

    def jobs(self, hosts: Sequence[str] = (), *, every: bool = False) -> listing.JobList:
        """Jobs not ended and those ended within a day, or ``every`` one."""
        return listing.list_jobs(self.select(hosts), self.state, every=every)

    def job(self, reference: str | None = None, hosts: Sequence[str] = ()) -> Job:
        """One job: by id, name (its newest), or prefix of an id past the name; without any, the newest of the
        project around the current folder. Raises UnknownJob, or ConnectError when its host may be dark."""
        if reference is None:
            return self._newest_of_project(hosts)
        remotes = self.select(hosts)
        if ids.is_id(reference) and not hosts:
            remotes = self._likely(reference, remotes)
        found = listing.list_jobs(remotes, self.state, patterns=ids.patterns(reference))
        ranked = [(ids.matches(reference, job.id, job.name), job) for job in found.jobs]
        best = max((rank for rank, _ in ranked), default=0)
        fitting = [job for rank, job in ranked if rank == best and best]
        if best == 1 and len(fitting) > 1:
            raise UsageError(
                f"{reference!r} begins {len(fitting)} ids: {', '.join(job.id for job in fitting[:5])}",
                hint="name one of them whole",
            )
        if fitting:
            return self._handle(fitting[0])
        return self._handle(self._dark(reference, found))

    def _likely(self, job_id: str, remotes: tuple[Remote, ...]) -> tuple[Remote, ...]:
        """Where a whole id was seen before, ask only there."""
        memory = self.state.last_known().get(job_id)
        if memory is None:
            return remotes
        try:
            return (self.remote(self.inventory.host(str(memory.get("host")))),)
        except UnknownHost:
            return remotes

    def _dark(self, reference: str, found: listing.JobList) -> JobStatus:
        """A job that no reachable host has: what is remembered of it, if its host is among the dark ones."""
        dark = {name for name, _ in found.unreachable}
        for job in listing.last_known(self.state):
            if job.host in dark and ids.matches(reference, job.id, job.name):
                return job
        if found.unreachable:
            name, error = found.unreachable[0]
            raise ConnectError(
                f"no job {reference!r} on the hosts that answer; {len(dark)} did not: {error.message}",
                hint=error.hint or f"remoterun hosts -H {name}",
                host=name,
            )
        raise UnknownJob(f"no job {reference!r}", hint="remoterun ps -a lists them; -H names more hosts")

    def _newest_of_project(self, hosts: Sequence[str]) -> Job:
        project = find_project(Path.cwd(), force=str(Path.cwd()))
        found = listing.list_jobs(self.select(hosts), self.state, every=True)
        for job in found.jobs:
            if listing.project_key(job) == project.key:
                return self._handle(job)
        where = f" ({len(found.unreachable)} hosts did not answer)" if found.unreachable else ""
        raise UnknownJob(f"no job of the project {project.name} yet{where}", hint="remoterun ps -a")

    def _handle(self, status: JobStatus) -> Job:
        return Job(self, self.remote(self.inventory.host(status.host)), status)

    def facts(self, hosts: Sequence[str] = ()) -> Iterator[listing.Answer[Facts]]:
        """Facts and GPUs of hosts, each as it answers."""
        return listing.ask_all(self.select(hosts), listing.look_at)

    def watch(self, hosts: Sequence[str] = (), *, beat_s: float = 2.0, once: bool = False) -> Watch:
        """GPUs and load of hosts, refreshed every ``beat_s`` seconds; ``with fleet.watch() as watch:``."""
        return Watch(self.select(hosts), beat_s=beat_s, once=once)

    def gpus(self, hosts: Sequence[str] = ()) -> dict[str, Facts | None]:
        """Facts with GPUs by host; None for a host that did not answer."""
        return {answer.remote.host.name: answer.value for answer in self.facts(hosts)}
