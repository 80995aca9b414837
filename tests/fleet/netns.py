"""A machine of its own for one host, as far as the kernel gives it without containers (root only).

A network namespace on the yard's bridge, a host name, a ``/dev/shm``, an ``/etc/hosts`` and a boot id of its own.
One idle process, the anchor, holds them; everything that runs on the host enters through it.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.yard import Yard, end, end_pids, pids, sh

_ANCHOR = """\
hostname "$1" && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && mount --bind "$2/hosts" /etc/hosts &&
mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id && exec sleep infinity"""


class Namespace:
    """One host's namespaces, up when made. ``address`` is its IPv4 address on the yard's bridge.

    ``folder`` holds the file ``hosts``, which is its /etc/hosts: write it in place, it is mounted.
    """

    def __init__(self, yard: Yard, number: int, hostname: str, folder: Path) -> None:
        self.yard = yard
        self.name = f"{yard.tag}n{number}"
        self.veth = f"{yard.tag}v{number}"
        self.hostname = hostname
        self.folder = folder
        self._slot = yard.take_slot()
        self.address = f"{yard.subnet}.{self._slot}"
        # One address, one MAC: a later host on the same address is no stranger in the neighbour table.
        link = (
            f"netns add {self.name}\n"
            f"link add {self.veth} type veth peer name eth0 netns {self.name} address 02:72:74:00:00:{self._slot:02x}\n"
            f"link set {self.veth} master {yard.bridge} up\n"
        )
        _ip(link)
        _ip(f"addr add {self.address}/24 dev eth0\nlink set eth0 up\nlink set lo up\n", "-n", self.name)
        self._network = Path(f"/run/netns/{self.name}").stat().st_ino
        self.anchor = self._anchor()

    def _anchor(self) -> subprocess.Popen[bytes]:
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        argv = ["ip", "netns", "exec", self.name, "unshare", "--uts", "--mount"]
        argv += ["sh", "-c", _ANCHOR, "sh", self.hostname, str(self.folder)]
        process = self.yard.start(argv, self.folder / "anchor.log")
        until = time.monotonic() + 5
        while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.hostname}: {(self.folder / 'anchor.log').read_text()}")
            time.sleep(0.002)
        return process

    def enter(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs ``argv`` on the host, as root."""
        return ["nsenter", "-t", str(self.anchor.pid), "-n", "-u", "-m", "--", *argv]

    def processes(self) -> list[int]:
        """Pids on the host, the anchor left out."""
        found = []
        for pid in pids():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/ns/net").stat().st_ino == self._network:
                    found.append(pid)
        return [pid for pid in found if pid != self.anchor.pid]

    def link(self, state: str) -> None:
        """``up`` or ``down``."""
        sh("ip", "link", "set", self.veth, state)

    def clear(self) -> None:
        """Kill everything that runs on the host."""
        while left := self.processes():
            end_pids(left)

    def reboot(self) -> None:
        """Nothing that ran or lay in memory is there any more; the boot id is a new one."""
        self.clear()
        end(self.anchor)
        self.anchor = self._anchor()

    def close(self) -> None:
        """Remove it."""
        self.clear()
        end(self.anchor)
        sh("ip", "link", "del", self.veth, check=False)
        sh("ip", "netns", "del", self.name, check=False)
        self.yard.give_slot(self._slot)


def _ip(batch: str, *options: str) -> None:
    done = subprocess.run(["ip", *options, "-batch", "-"], input=batch, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip: {done.stderr}{batch}")
