"""Where test hosts stand: a bridge with its own addresses, a folder, keys. Everything carries the owner's pid.

As root each host is a network namespace on the bridge. Without root there is no bridge to build: hosts are sshd
processes on 127.0.0.1 under the tests' own login.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

ROOT = os.geteuid() == 0
PREFIX = "rt"
_OURS = re.compile(rf"{PREFIX}(\d+)(?:[nvu]\d+|br|-\w+)")


def sh(*argv: str, check: bool = True, **more: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the test's own, quietly."""
    return subprocess.run(argv, check=check, capture_output=True, text=True, **more)  # type: ignore[call-overload, no-any-return]


class Yard:
    """One for each test process; ``close`` leaves nothing behind, however often it is called."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.tag = f"{PREFIX}{self.pid}"
        # Short, since sockets of tmux live under it; open, since other logins must pass through.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.tag}-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.count = 0
        # One thread at a time: the numbers, and useradd, which locks the password file and waits a second for it.
        self.lock = threading.Lock()
        self._slots = deque(range(2, 255))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closers: dict[int, Callable[[], None]] = {}
        self._closer_numbers = itertools.count()
        atexit.register(self.close)
        self.subnet = _free_subnet(self.pid)
        if ROOT:
            Path("/run/sshd").mkdir(exist_ok=True)
            # A bridge without an address of its own takes a port's, and changes it under its hosts as ports come and go.
            sh("ip", "link", "add", self.bridge, "address", "02:72:74:00:00:01", "type", "bridge")
            sh("ip", "addr", "add", f"{self.subnet}.1/24", "dev", self.bridge)
            sh("ip", "link", "set", self.bridge, "up")
        self.client_key = self.key("client_key")

    @property
    def bridge(self) -> str:
        """The bridge's name."""
        return f"{self.tag}br"

    def key(self, name: str) -> Path:
        """A new key pair in the yard's folder; the private half."""
        file = self.folder / name
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(file))
        return file

    def next(self) -> int:
        """A number that names what is made next."""
        with self.lock:
            self.count += 1
            return self.count

    def take_slot(self) -> int:
        """The last part of a free address; the longest unused comes first."""
        if not self._slots:
            raise RuntimeError("253 hosts are up at once: close some")
        return self._slots.popleft()

    def give_slot(self, slot: int) -> None:
        """The address is free again."""
        self._slots.append(slot)

    def first_slot(self, slot: int) -> None:
        """Have this address taken next."""
        self._slots.appendleft(slot)

    def start(self, argv: list[str], log: Path, **more: object) -> subprocess.Popen[bytes]:
        """A process that ends with the yard."""
        with open(log, "ab") as out:
            process = subprocess.Popen(  # type: ignore[call-overload]
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, **more
            )
        self._processes.append(process)
        with open(self.folder / "pids", "a") as ledger:
            ledger.write(f"{process.pid} {_started(process.pid)}\n")
        return process  # type: ignore[no-any-return]

    def closes(self, close: Callable[[], None]) -> Callable[[], None]:
        """Have ``close`` called at the end; returns a function that does so earlier, and only once."""
        number = next(self._closer_numbers)
        self._closers[number] = close

        def early() -> None:
            if self._closers.pop(number, None) is not None:
                close()

        return early

    def close(self) -> None:
        """Close what stands here, end processes, remove bridge and folder. A fork of the tests closes nothing."""
        if os.getpid() != self.pid:
            return
        atexit.unregister(self.close)
        for number in sorted(self._closers, reverse=True):
            self._closers.pop(number)()
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
    while any(runs(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.005)


def pids() -> list[int]:
    """All pids of this machine, now."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def with_environment(text: str) -> list[int]:
    """Pids of own processes in whose environment ``text`` stands: a folder of this yard marks them as ours."""
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            if pid != os.getpid() and os.fsencode(text) in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def children(pid: int) -> list[int]:
    """Pids of a process's children."""
    return [found for found in pids() if _stat(found)[1:2] == [str(pid)]]


def sweep() -> None:
    """Remove what killed test runs left: names carry their owner's pid, ledgers the pids they started."""
    if ROOT:
        for line in sh("ip", "netns", "list", check=False).stdout.splitlines():
            if _orphan(name := line.split()[0]):
                end_pids([int(pid) for pid in sh("ip", "netns", "pids", name, check=False).stdout.split()])
                sh("ip", "netns", "del", name, check=False)
        for line in sh("ip", "-o", "link", check=False).stdout.splitlines():
            if _orphan(name := line.split(": ")[1].split("@")[0]):
                sh("ip", "link", "del", name, check=False)
        for line in Path("/etc/passwd").read_text().splitlines():
            if _orphan(name := line.split(":")[0]):
                sh("userdel", "-f", name, check=False)
    for folder in Path("/tmp").glob(f"{PREFIX}*-*"):
        if _orphan(folder.name) and folder.stat().st_uid == os.geteuid():
            end_pids(_ledger(folder / "pids"))
            end_pids(with_environment(f"{folder}/"))
            shutil.rmtree(folder, ignore_errors=True)


def _orphan(name: str) -> bool:
    found = _OURS.fullmatch(name)
    return found is not None and not Path(f"/proc/{found[1]}").exists()


def _ledger(file: Path) -> list[int]:
    """The recorded pids that are still the recorded processes."""
    with contextlib.suppress(OSError):
        pairs = [line.split() for line in file.read_text().splitlines()]
        return [int(pid) for pid, started in pairs if started != "0" and _started(int(pid)) == int(started)]
    return []


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name (proc(5): state is the first); empty without it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _started(pid: int) -> int:
    """Start time in clock ticks since boot; 0 for a process that is not there."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def runs(pid: int) -> bool:
    """There, and more than a zombie that only its parent can remove."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _free_subnet(pid: int) -> str:
    """A /24 in 10.128.0.0/9 that no interface or route of this machine uses; two runs begin at different ones."""
    taken = sh("ip", "-4", "route", "show", "table", "all", check=False).stdout if ROOT else ""
    for step in range(127 * 256):
        high, low = divmod((pid + 257 * step) % (127 * 256), 256)
        subnet = f"10.{128 + high}.{low}"
        if f"{subnet}." not in taken:
            return subnet
    raise RuntimeError("no free subnet in 10.128.0.0/9")
