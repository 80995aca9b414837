"""The kinds of faults. Each breaks one thing on one host, now, and heals what a person would expect to heal."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleet.client import Client
from tests.fleet.host import TestHost


@dataclass
class Scene:
    """What a fault may break: one job in the making or running. ``work`` is the host's workdir; ``broken`` collects what
    the judge must know of."""

    host: TestHost
    work: Path
    client: Client
    random: random.Random
    name: str
    launch: subprocess.Popen[bytes]
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    def processes(self, *parts: str) -> list[int]:
        """Pids of this job's login processes whose command line holds all of ``parts``."""
        found = self.host.login_processes()
        return [pid for pid, words in found.items() if all(part in words for part in parts)]

    def folder(self) -> Path | None:
        """The job's folder on the host, once it is there."""
        found = sorted((self.work / "jobs").glob(f"{self.name}-[0-9]*"))
        return found[0] if found else None

    def main(self) -> int | None:
        """The pid of the job's first process, as the host has it on record."""
        folder = self.folder()
        with contextlib.suppress(OSError, ValueError):
            if folder is not None:
                return int((folder / "main").read_text().split("main=")[1].split()[0])
        return None


def client_killed(scene: Scene) -> None:
    """SIGKILL to the one who launches or follows."""
    scene.broken.add("client")
    scene.launch.kill()


def session_killed(scene: Scene) -> None:
    """SIGKILL to sshd's processes for all connections."""
    scene.broken.add("link")
    for pid in scene.host.sshd_sessions():
        scene.host.kill(pid)


def tmux_killed(scene: Scene) -> None:
    """The tmux server ends with all sessions."""
    for pid in scene.processes("tmux", "new-session"):
        scene.host.kill(pid)


def socket_deleted(scene: Scene) -> None:
    """A cleaner takes the tmux socket away."""
    for socket in scene.work.glob("tmux-*/socket"):
        with contextlib.suppress(OSError):
            socket.unlink()


def supervisor_killed(scene: Scene) -> None:
    """SIGKILL to the job's supervisor (all of its shells), not to the job."""
    scene.broken.add("supervisor")
    folder = scene.folder()
    if folder is None:
        return
    for pid in scene.processes("supervise.sh"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                scene.host.kill(pid)


def watcher_killed(scene: Scene) -> None:
    """SIGKILL to the process that watches over limits."""
    folder = scene.folder()
    for pid in scene.processes("supervise.sh watch"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                scene.host.kill(pid)


def main_killed(scene: Scene) -> None:
    """SIGKILL to the job's first process (torchrun, where it is one)."""
    pid = scene.main()
    if pid is not None:
        scene.broken.add("main")
        scene.host.kill(pid)


def main_halted(scene: Scene) -> None:
    """The job is stopped and continued."""
    pid = scene.main()
    if pid is not None:
        scene.host.kill(pid, signal.SIGSTOP)
        time.sleep(scene.random.uniform(0.05, 0.5))
        scene.host.kill(pid, signal.SIGCONT)


def supervisor_halted(scene: Scene) -> None:
    """The supervisors of this host are stopped and continued."""
    pids = scene.processes("supervise.sh")
    for pid in pids:
        scene.host.kill(pid, signal.SIGSTOP)
    time.sleep(scene.random.uniform(0.05, 0.5))
    for pid in pids:
        scene.host.kill(pid, signal.SIGCONT)


def link_cut(scene: Scene) -> None:
    """Packets vanish for a moment; nobody is told."""
    scene.broken.add("link")
    scene.host.cut()
    time.sleep(scene.random.uniform(0.1, 1.0))
    scene.host.restore()


def half_open(scene: Scene) -> None:
    """The server side of each connection stands still for a moment."""
    scene.broken.add("link")
    pids = scene.host.sshd_sessions()
    for pid in pids:
        scene.host.kill(pid, signal.SIGSTOP)
    time.sleep(scene.random.uniform(0.1, 1.0))
    for pid in pids:
        scene.host.kill(pid, signal.SIGCONT)


def clock_set_back(scene: Scene) -> None:
    """The host's clock jumps back by a day (for everything that asks `date`), and forward again."""
    scene.host.shim(
        "date",
        '#!/bin/sh\ncase " $* " in *" -d "*) ;; *) set -- -d "1 day ago" "$@" ;; esac\nexec /usr/bin/date "$@"\n',
    )
    time.sleep(scene.random.uniform(0.1, 0.6))
    (scene.host.bin / "date").unlink(missing_ok=True)


def disk_full(scene: Scene) -> None:
    """The disk of the workdir has no room for a moment (a small file system of its own)."""
    scene.broken.add("disk")
    fill = scene.work.parent / "fill"
    with contextlib.suppress(OSError), open(fill, "wb", buffering=0) as out:
        while True:
            out.write(b"\0" * 65536)
    time.sleep(scene.random.uniform(0.1, 0.6))
    fill.unlink(missing_ok=True)


def stopped_by_another(scene: Scene) -> None:
    """A second client stops the job."""
    scene.broken.add("stop")
    grace = str(scene.random.choice([0, 1, 2]))
    scene.others.append(scene.client.start("stop", "-H", scene.host.name, scene.name, "--grace", grace))


def stopped_and_removed(scene: Scene) -> None:
    """Two clients at once: one stops the job, one tries to remove it."""
    stopped_by_another(scene)
    scene.others.append(scene.client.start("rm", "-H", scene.host.name, scene.name))
    scene.broken.add("removed")


def watched_by_many(scene: Scene) -> None:
    """More clients look at the same time than MaxStartups lets in."""
    scene.others += [scene.client.start("ps", "-H", scene.host.name, "--json") for _ in range(3)]


FAULTS: Mapping[str, Callable[[Scene], None]] = {
    made.__name__: made
    for made in (
        client_killed, session_killed, tmux_killed, socket_deleted, supervisor_killed, watcher_killed, main_killed,
        main_halted, supervisor_halted, link_cut, half_open, clock_set_back, stopped_by_another, stopped_and_removed,
        watched_by_many,
    )
}  # fmt: skip
# Only where the workdir has a file system of its own.
SMALL_DISK_FAULTS: Mapping[str, Callable[[Scene], None]] = {"disk_full": disk_full}
