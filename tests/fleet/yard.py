"""Where test hosts stand: a bridge with its own addresses, a folder, keys. Everything carries the owner's pid.

As root each host is a network namespace on the bridge. Without root there is no yard to build: hosts are sshd
processes on 127.0.0.1 under the tests' own login.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = os.geteuid() == 0
PREFIX = "rt"


def sh(*argv: str, check: bool = True, **more: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the test's own, quietly."""
    return subprocess.run(argv, check=check, capture_output=True, text=True, **more)  # type: ignore[call-overload, no-any-return]


class Yard:
    """One for each test process; ``close`` leaves nothing behind."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.tag = f"{PREFIX}{self.pid}"
        # Short, since sockets of tmux live under it; open, since other logins must pass through.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.tag}-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.subnet = f"10.{128 + (self.pid >> 8) % 127}.{self.pid % 256}"
        self.count = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        if ROOT:
            Path("/run/sshd").mkdir(exist_ok=True)
            sh("ip", "link", "add", self.bridge, "type", "bridge")
            sh("ip", "addr", "add", f"{self.subnet}.1/24", "dev", self.bridge)
            sh("ip", "link", "set", self.bridge, "up")
        self.client_key = self.folder / "client_key"
        self.host_key = self.folder / "host_key"
        for key in (self.client_key, self.host_key):
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(key))

    @property
    def bridge(self) -> str:
        """The bridge's name."""
        return f"{self.tag}br"

    def next(self) -> int:
        """A number for the next host."""
        self.count += 1
        return self.count

    def start(self, argv: list[str], log: Path, **more: object) -> subprocess.Popen[bytes]:
        """A process that ends with the yard."""
        with open(log, "ab") as out:
            process = subprocess.Popen(  # type: ignore[call-overload]
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, **more
            )
        self._processes.append(process)
        return process  # type: ignore[no-any-return]

    def close(self) -> None:
        """End processes, remove bridge and folder."""
        for process in self._processes:
            end(process)
        if ROOT:
            sh("ip", "link", "del", self.bridge, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_pids(pids: list[int]) -> None:
    """Kill processes by pid, and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 3
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)


def in_namespace(name: str) -> list[int]:
    """Processes in a network namespace."""
    done = sh("ip", "netns", "pids", name, check=False)
    return [int(pid) for pid in done.stdout.split()]


def sweep() -> None:
    """Remove what killed test runs left: names carry their owner's pid."""
    if not ROOT:
        return
    for line in sh("ip", "netns", "list", check=False).stdout.splitlines():
        name = line.split()[0]
        if _orphan(name):
            end_pids(in_namespace(name))
            sh("ip", "netns", "del", name, check=False)
    for line in sh("ip", "-o", "link", check=False).stdout.splitlines():
        name = line.split(": ")[1].split("@")[0]
        if name.endswith("br") and _orphan(name):
            sh("ip", "link", "del", name, check=False)
    for line in Path("/etc/passwd").read_text().splitlines():
        name = line.split(":")[0]
        if _orphan(name):
            sh("userdel", "-f", name, check=False)


def _orphan(name: str) -> bool:
    digits = ""
    for sign in name.removeprefix(PREFIX) if name.startswith(PREFIX) else "":
        if not sign.isdigit():
            break
        digits += sign
    return bool(digits) and not Path(f"/proc/{digits}").exists()
