"""One test host: namespaces, a login with a HOME, an sshd; and the means to look into it and to break it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.login import SYSTEM_PATH, Login
from tests.fleet.netns import Namespace
from tests.fleet.nvidia import Card, FakeNvidia, cards
from tests.fleet.yard import ROOT, Yard, children, end, end_pids, with_environment

SSHD = "/usr/sbin/sshd"


class TestHost:
    """A host that answers SSH. ``address`` and ``port`` are where its sshd listens; ``login`` and ``home`` its first login's.

    ``home`` names the HOME folder (any characters); ``sshd`` are lines of sshd_config that win over ours; ``banner``
    is shown before the login; ``port``: root only; ``chatty`` start-up files print; ``gpus`` so many idle cards; ``superuser``: the login
    is a second name of uid 0.
    """

    __test__ = False

    def __init__(
        self,
        yard: Yard,
        *,
        name: str | None = None,
        shell: str = "/bin/bash",
        home: str | None = None,
        sshd: str = "",
        superuser: bool = False,
        banner: str | None = None,
        chatty: bool = False,
        gpus: int | Sequence[Card] | None = None,
        port: int = 22,
        number: int | None = None,
    ) -> None:
        number = number or yard.next()
        self.yard = yard
        self.name = name or f"h{number}"
        self.folder = yard.folder / f"{self.name}-{number}"
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        self.log = self.folder / "sshd.log"
        self.logins: list[Login] = []
        self._sshd: subprocess.Popen[bytes] | None = None
        self._space: Namespace | None = None
        self._sessions: set[int] = set()
        self.close = yard.closes(self._close)
        self.knows(())
        if ROOT:
            self._space = Namespace(yard, number, self.name, self.folder)
        self.address = self._space.address if self._space else "127.0.0.1"
        self.port = port if ROOT else _free_port()
        self.host_key = yard.key(f"{self.folder.name}/host_key")
        (self.folder / "keys").mkdir()
        first = self.add_login(home=home or "home", shell=shell, superuser=superuser, chatty=chatty)
        self.login, self.home = first.name, first.home
        self.nvidia = FakeNvidia(self.folder / "nvidia", self.bin / "nvidia-smi")
        if gpus is not None:
            self.gpus = cards(gpus, self.name) if isinstance(gpus, int) else gpus
        self._config = self._write_config(sshd, banner)
        self.start_sshd()

    def add_login(self, *, home: str, shell: str = "/bin/bash", superuser: bool = False, chatty: bool = False) -> Login:
        """Another login (root only beyond the first), which the clients' key opens too."""
        if self.logins and not ROOT:
            raise RuntimeError("a second login needs root")
        made = Login(
            self.yard, self.folder / home, self.bin, self._enter, shell=shell, superuser=superuser, chatty=chatty
        )
        public = self.yard.client_key.with_suffix(".pub").read_text()
        (self.folder / "keys" / made.name).write_text(public)
        self.logins.append(made)
        return made

    def _write_config(self, extra: str, banner: str | None) -> Path:
        if banner is not None:
            (self.folder / "banner").write_text(banner)
            extra = f"Banner {self.folder}/banner\n{extra}"
        # sshd takes the first value of a keyword; what follows a Match line belongs to it.
        before, match, after = extra.partition("Match ")
        # Without root there is no HOME but the password file's: let the environment name ours. It also marks processes.
        environment = f"PATH={self.bin}:{SYSTEM_PATH}" + ("" if ROOT else f' "HOME={self.home}"')
        # Beside the HOME, whose name may hold what sshd_config cannot quote.
        own_keys = " .ssh/authorized_keys" if ROOT else ""
        file = self.folder / "sshd_config"
        file.write_text(
            f"{before}\nPort {self.port}\nListenAddress {self.address}\nHostKey {self.host_key}\n"
            f"PidFile {self.folder}/sshd.pid\nAuthorizedKeysFile {self.folder}/keys/%u{own_keys}\n"
            "StrictModes no\nUsePAM no\nUseDNS no\nPrintMotd no\nLogLevel VERBOSE\nAcceptEnv LC_* LANG\n"
            f"Subsystem sftp internal-sftp\nMaxStartups 100:30:200\nSetEnv {environment}\n{match}{after}\n"
        )
        return file

    def start_sshd(self) -> subprocess.Popen[bytes]:
        """Start the sshd (again), and wait until it listens."""
        self._sshd = self.yard.start(self._enter([SSHD, "-D", "-e", "-f", str(self._config)]), self.log)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            # Its pid file comes after listen(2); looking there leaves no half connection in the log.
            with contextlib.suppress(OSError, ValueError):
                if int((self.folder / "sshd.pid").read_text()) == self._sshd.pid:
                    return self._sshd
            if self._sshd.poll() is not None:
                break
            time.sleep(0.003)
        raise RuntimeError(f"sshd of {self.name} did not start:\n{self.log.read_text()}")

    def stop_sshd(self) -> None:
        """End the listening sshd; sessions go on."""
        if self._sshd is not None:
            self.sshd_sessions()
            end(self._sshd)

    def reboot(self) -> None:
        """All processes and /dev/shm are gone, the boot id is new, sshd is up again (root only)."""
        if self._space is None:
            raise RuntimeError("a reboot needs root")
        self.stop_sshd()
        self._space.reboot()
        self.start_sshd()

    def _enter(self, argv: Sequence[str]) -> list[str]:
        return self._space.enter(argv) if self._space else list(argv)

    def sh(self, command: str, *, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command as the first login on the host, without SSH."""
        return self.logins[0].sh(command, check=check, timeout=timeout)

    def give(self, path: Path) -> None:
        """Make a path the first login's own."""
        self.logins[0].give(path)

    def shim(self, name: str, script: str) -> Path:
        """A program of the test's own in front of the host's PATH."""
        file = self.bin / name
        file.write_text(script)
        file.chmod(0o755)
        return file

    def knows(self, hosts: Sequence[TestHost]) -> None:
        """Write the host's own /etc/hosts: Debian's line for itself, and these others (root only)."""
        lines = ["127.0.0.1 localhost", f"127.0.1.1 {self.name}"]
        lines += [f"{host.address} {host.name}" for host in hosts if host is not self]
        (self.folder / "hosts").write_text("".join(line + "\n" for line in lines))

    @property
    def gpus(self) -> list[Card]:
        """The cards its nvidia-smi shows; assign to change them, also while jobs run."""
        return self.nvidia.shown

    @gpus.setter
    def gpus(self, value: Sequence[Card]) -> None:
        self.nvidia.show(value)

    def processes(self) -> list[int]:
        """Pids on this host."""
        if self._space:
            return self._space.processes()
        return [*with_environment(f"{self.folder}/"), *self._children_of_sshd()]

    def sshd_sessions(self) -> list[int]:
        """Pids of the sshd processes that serve connections."""
        own = self._sshd.pid if self._sshd else 0
        found = self.processes() if self._space else self._children_of_sshd()
        return [pid for pid in found if pid != own and _comm(pid) == "sshd"]

    def _children_of_sshd(self) -> list[int]:
        # sshd writes its title over its environment; so without a namespace its sessions are known by their parent.
        if self._sshd is not None and self._sshd.poll() is None:
            self._sessions.update(children(self._sshd.pid))
        # The child watches over a child of its own, which holds the connection.
        self._sessions.update(*[children(pid) for pid in self._sessions])
        self._sessions = {pid for pid in self._sessions if _comm(pid) == "sshd"}
        return sorted(self._sessions)

    def login_processes(self) -> dict[int, str]:
        """Processes of the logins (no sshd): pid → command line."""
        uids = {login.uid for login in self.logins}
        found = {}
        for pid in self.processes():
            try:
                if Path(f"/proc/{pid}").stat().st_uid not in uids or _comm(pid) == "sshd":
                    continue
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if words.strip():
                found[pid] = words.strip()
        return found

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Signal one process; one that has just ended is no error."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def kill_login_processes(self) -> None:
        """SIGKILL to everything the logins run, as a logout does with KillUserProcesses=yes."""
        while left := list(self.login_processes()):
            end_pids(left)

    def cut(self) -> None:
        """Take the link down: packets vanish, nobody is told."""
        if self._space:
            self._space.link("down")
        else:
            self._to_sshd(signal.SIGSTOP)

    def restore(self) -> None:
        """The link is back."""
        if self._space:
            self._space.link("up")
        else:
            self._to_sshd(signal.SIGCONT)

    def _to_sshd(self, number: signal.Signals) -> None:
        for pid in [*self.sshd_sessions(), *([self._sshd.pid] if self._sshd else [])]:
            self.kill(pid, number)

    def _close(self) -> None:
        if not self._space:
            self.restore()
        self.stop_sshd()
        if self._space:
            self._space.close()
        else:
            end_pids(self.processes())
        for login in self.logins:
            login.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _comm(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
