"""Rounds: a launch, faults at random moments, the end, the judgement. One host plays one round at a time."""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from bench.faults.invariants import LINES, PATIENCE_S, Outcome, broken_invariants
from bench.faults.kinds import FAULTS, SMALL_DISK_FAULTS, Scene
from remoterun.errors import ConnectError, RemoterunError
from remoterun.fleet import Fleet, Job
from remoterun.model.job import JobStatus
from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.yard import Yard, end_pids

# What the hosts are, in turn: plain, narrow, with a login that has a small disk for its jobs.
_CONFIGURATIONS = ("", "MaxSessions 1\nMaxStartups 2\n", "")
_JOBS = (
    # Writes its lines, then says that it came to its end.
    "i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; sleep {pause}; done; : >ended; exit {code}",
    # The same under a shell that ignores the polite signals.
    "trap '' TERM HUP; i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; sleep {pause}; done; : >ended; exit {code}",
    # Leaves a process of its own session behind.
    "setsid -f sleep 300; i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; sleep {pause}; done; : >ended; exit {code}",
)


class Field:
    """The hosts and the client of one run; ends everything it started."""

    def __init__(self, yard: Yard, seed: int, hosts: int, setenv: Callable[[str, str], None]) -> None:
        """``setenv`` makes the client's environment this process's own: the judge asks through the Python interface."""
        self._random = random.Random(seed)
        self._yard = yard
        self._small: list[Path] = []
        self._lock = threading.Lock()
        self._faults: Counter[str] = Counter()
        self._broken: list[str] = []
        self._rounds = 0
        self._enough = False
        self.client = Client(self._yard)
        self._work: dict[str, Path] = {}
        self.hosts = [self._host(number) for number in range(hosts)]
        self.client.knows(self.hosts)
        self._write_hosts_yaml()
        for name, value in self.client.env.items():
            setenv(name, value)

    def _host(self, number: int) -> TestHost:
        small = self.client.folder / f"small{number}"
        if number % len(_CONFIGURATIONS) == 2:
            small.mkdir()
            # Before the host is made: it has mounts of its own from then on.
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=777", "none", str(small)], check=True)
            self._small.append(small)
        sshd = _CONFIGURATIONS[number % len(_CONFIGURATIONS)]
        host = TestHost(self._yard, number=self._yard.next(), gpus=2, sshd=sshd)
        self._work[host.name] = small / "w" if small in self._small else Path(host.home, ".remoterun")
        return host

    def _write_hosts_yaml(self) -> None:
        file = self.client.folder / "hosts.yaml"
        lines = [f"  {host.name}: {{workdir: {self._work[host.name]}}}\n" for host in self.hosts]
        file.write_text("hosts:\n" + "".join(lines))
        self.client.env["REMOTERUN_HOSTS"] = str(file)

    def __enter__(self) -> Field:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        for host in self.hosts:
            host.close()
        for place in self._small:
            subprocess.run(["umount", "-l", str(place)], check=False)

    def stop(self) -> None:
        """Begin no more rounds: ``run`` returns with what was done."""
        self._enough = True

    def run(self, count: int) -> tuple[Counter[str], list[str], int]:
        """Rounds until ``count`` faults were made: faults by kind, broken invariants in words, rounds played."""
        seeds = [self._random.getrandbits(32) for _ in self.hosts]
        threads = [
            threading.Thread(target=self._play, args=(host, random.Random(seed), count))
            for host, seed in zip(self.hosts, seeds, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._faults, self._broken, self._rounds

    def _play(self, host: TestHost, chance: random.Random, count: int) -> None:
        while True:
            with self._lock:
                if self._enough or sum(self._faults.values()) >= count:
                    return
                self._rounds += 1
                number = self._rounds
            faults, broken = self._round(host, chance, number)
            with self._lock:
                self._faults.update(faults)
                self._broken += [f"round {number} on {host.name} after {', '.join(faults)}: {line}" for line in broken]
                for line in broken:
                    print(f"round {number} after {', '.join(faults)}: {line}", flush=True)

    def _round(self, host: TestHost, chance: random.Random, number: int) -> tuple[list[str], list[str]]:
        followed, code = chance.random() < 0.6, chance.choice([0, 0, 3])
        script = chance.choice(_JOBS).format(lines=LINES, pause=chance.choice(["0.02", "0.04"]), code=code)
        name = f"r{number}"
        words = [
            "launch",
            *([] if followed else ["-d"]),
            "-H",
            host.name,
            "--name",
            name,
            "--gpus",
            "1",
            "--",
            "sh",
            "-c",
            script,
        ]
        scene = Scene(host, self._work[host.name], self.client, chance, name, self.client.start(*words))
        reader = _Reader(scene.launch)
        small = self._work[host.name].parent in self._small
        narrow = "MaxStartups" in _CONFIGURATIONS[self.hosts.index(host) % len(_CONFIGURATIONS)]
        kinds = {**FAULTS, **(SMALL_DISK_FAULTS if small else {})}
        chosen = chance.sample(list(kinds), chance.choice([2, 3, 4]))
        for kind in chosen:
            time.sleep(chance.uniform(0, 0.7))
            kinds[kind](scene)
        status = reader.wait(PATIENCE_S)
        for other in scene.others:
            with contextlib.suppress(subprocess.TimeoutExpired):
                other.communicate(timeout=PATIENCE_S)
        jobs = self._settled(host, scene)
        outcome = Outcome(
            scene, jobs, None if "client" in scene.broken else status, reader.out, reader.err, followed, code, narrow
        )
        broken = list(broken_invariants(outcome))
        if status is None and "client" not in scene.broken:
            broken.append(f"the client did not end within {PATIENCE_S} s: {reader.err[-200:]!r}")
        if not broken:
            broken += self._taken_away(host, jobs)
        return chosen, broken

    def _settled(self, host: TestHost, scene: Scene) -> tuple[JobStatus, ...]:
        """The jobs of this round once they have ended; after a while they are stopped."""
        fleet = Fleet.load()
        until = time.monotonic() + 20
        while True:
            found = tuple(job for job in _patiently(fleet, host) if job.name == scene.name)
            if all(job.state.ended for job in found):
                return found
            if time.monotonic() > until:
                scene.broken |= {"stop", "deadline"}
                for job in found:
                    with contextlib.suppress(RemoterunError):
                        Job(fleet, fleet.remote(fleet.inventory.host(host.name)), job).stop(grace=1)
                until += PATIENCE_S
            time.sleep(0.3)

    def _taken_away(self, host: TestHost, jobs: tuple[JobStatus, ...]) -> Iterator[str]:
        """The GPU is free again and the job can be removed: the next round begins as the first did."""
        fleet = Fleet.load()
        for job in jobs:
            remote = fleet.remote(fleet.inventory.host(host.name))
            try:
                Job(fleet, remote, job).remove()
            except RemoterunError as error:
                yield f"it cannot be removed: {error}"
        until = time.monotonic() + 10
        while held := _held(fleet, host):
            if time.monotonic() > until:
                yield f"GPUs that are still held: {held}"
                return
            time.sleep(0.2)
        # Views close by themselves after a minute; a run does not wait for them.
        end_pids([pid for pid, words in host.login_processes().items() if "view.sh" in words or "new-session" in words])


def _patiently(fleet: Fleet, host: TestHost) -> tuple[JobStatus, ...]:
    """All jobs of a host; sshd may be short of places for a moment (MaxStartups)."""
    for _ in range(40):
        found = fleet.jobs([host.name], every=True)
        if not found.unreachable:
            return found.jobs
        time.sleep(0.5)
    raise ConnectError(f"{host.name} cannot be reached: {found.unreachable[0][1]}")


def _held(fleet: Fleet, host: TestHost) -> list[str]:
    for _ in range(40):
        facts = fleet.gpus([host.name])[host.name]
        if facts is not None:
            return [f"{gpu.index} by {gpu.lease.job}" for gpu in facts.gpus.gpus if gpu.lease is not None]
        time.sleep(0.5)
    return ["its GPUs cannot be read"]


class _Reader:
    """Collects what a client prints; it may be killed meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.out = self.err = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        self.out, self.err = self._process.communicate()

    def wait(self, seconds: float) -> int | None:
        """The exit status, or None after ``seconds`` (then it is killed)."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join()
            return None
        return self._process.returncode
