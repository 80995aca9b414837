"""One test host: a namespace, a login with a HOME, an sshd; and the means to look into it and to break it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.fleet.nvidia import FakeNvidia
from tests.fleet.yard import ROOT, Yard, end, end_pids, in_namespace, sh

SSHD = "/usr/sbin/sshd"
_PATH = "/usr/local/bin:/usr/bin:/bin"


class TestHost:
    """A host that answers SSH. ``address`` and ``port`` are where its sshd listens."""

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
        port: int = 22,
    ) -> None:
        number = yard.next()
        self.yard = yard
        self.name = name or f"h{number}"
        self.namespace = f"{yard.tag}n{number}"
        self.folder = yard.folder / self.name
        self.folder.mkdir()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.home = self.folder / (home or "home")
        self.home.mkdir()
        self.log = self.folder / "sshd.log"
        self.address = f"{yard.subnet}.{number + 1}" if ROOT else "127.0.0.1"
        self.port = port if ROOT else _free_port()
        self.login = f"{yard.tag}u{number}" if ROOT else pwd.getpwuid(os.getuid()).pw_name
        if ROOT:
            self._make_network(number)
            self._make_login(shell, superuser)
        self._write_home()
        self.nvidia = FakeNvidia(self.folder / "nvidia", self.bin / "nvidia-smi")
        self._config = self._write_config(sshd)
        self._sshd = self.start_sshd()

    def _make_network(self, number: int) -> None:
        outside = f"{self.yard.tag}v{number}"
        sh("ip", "netns", "add", self.namespace)
        sh("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        sh("ip", "link", "set", outside, "master", self.yard.bridge, "up")
        inside = f"addr add {self.address}/24 dev eth0\nlink set eth0 up\nlink set lo up\n"
        subprocess.run(
            ["ip", "-n", self.namespace, "-batch", "-"], input=inside.encode(), check=True, capture_output=True
        )
        self.veth = outside

    def _make_login(self, shell: str, superuser: bool) -> None:
        # A second name of uid 0 reaches interpreters that lie in folders of root alone.
        more = ("-o", "-u", "0") if superuser else ()
        for _ in range(50):
            done = sh(
                "useradd",
                "-M",
                "-N",
                "-g",
                "nogroup",
                "-d",
                str(self.home),
                "-s",
                shell,
                *more,
                self.login,
                check=False,
            )
            if done.returncode == 0:
                break
            time.sleep(0.1)
        else:
            raise RuntimeError(done.stderr)
        # A locked password ("!") is refused without PAM; "*" just never fits.
        sh("usermod", "-p", "*", self.login)

    def _write_home(self) -> None:
        line = f"PATH='{self.bin}':$PATH\n"
        (self.home / ".profile").write_text(line + "export PATH\n")
        (self.home / ".zprofile").write_text(line)
        (self.home / ".ssh").mkdir(mode=0o700)
        public = self.yard.client_key.with_suffix(".pub").read_text()
        (self.home / ".ssh" / "authorized_keys").write_text(public)
        self.give(self.home)

    def give(self, path: Path) -> None:
        """Make a path the login's own."""
        if ROOT:
            sh("chown", "-R", f"{self.login}:nogroup", str(path))

    def _write_config(self, extra: str) -> Path:
        file = self.folder / "sshd_config"
        file.write_text(
            f"{extra}\nPort {self.port}\nListenAddress {self.address}\nHostKey {self.yard.host_key}\n"
            f'PidFile {self.folder}/sshd.pid\nAuthorizedKeysFile "{self.home}/.ssh/authorized_keys"\n'
            "StrictModes no\nUsePAM no\nUseDNS no\nPrintMotd no\nLogLevel VERBOSE\nAcceptEnv LC_* LANG\n"
            "Subsystem sftp internal-sftp\nMaxStartups 100:30:200\n"
            f"SetEnv PATH={self.bin}:{_PATH}\n"
        )
        return file

    def start_sshd(self) -> subprocess.Popen[bytes]:
        """Start the sshd (again), and wait until it listens."""
        argv = [SSHD, "-D", "-e", "-f", str(self._config)]
        if ROOT:
            hostname = f'hostname {self.name}; exec "$@"'
            argv = ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c", hostname, "sh", *argv]
        self._sshd = self.yard.start(argv, self.log)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                socket.create_connection((self.address, self.port), 1).close()
                return self._sshd
            except OSError:
                if self._sshd.poll() is not None:
                    break
                time.sleep(0.01)
        raise RuntimeError(f"sshd of {self.name} did not start:\n{self.log.read_text()}")

    def stop_sshd(self) -> None:
        """End the listening sshd; sessions go on."""
        end(self._sshd)

    def sshd_sessions(self) -> list[int]:
        """Pids of the sshd processes that serve connections."""
        own = self._sshd.pid
        return [pid for pid in self.processes() if pid != own and _comm(pid) == "sshd"]

    def sh(self, command: str, *, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command as the login on the host, without SSH."""
        environment = {"HOME": str(self.home), "PATH": f"{self.bin}:{_PATH}", "USER": self.login, "SHELL": "/bin/sh"}
        argv = ["sh", "-c", command]
        if ROOT:
            login = ["setpriv", f"--reuid={self.login}", "--regid=nogroup", "--clear-groups"]
            argv = [
                "ip",
                "netns",
                "exec",
                self.namespace,
                "unshare",
                "--uts",
                "sh",
                "-c",
                f'hostname {self.name}; exec "$@"',
                "sh",
                *login,
                *argv,
            ]
        return subprocess.run(
            argv, capture_output=True, text=True, env=environment, cwd=self.home, check=check, timeout=timeout
        )

    def shim(self, name: str, script: str) -> Path:
        """A program of the test's own in front of the host's PATH."""
        file = self.bin / name
        file.write_text(script)
        file.chmod(0o755)
        return file

    def processes(self) -> list[int]:
        """Pids on this host."""
        if ROOT:
            return in_namespace(self.namespace)
        return [pid for pid in _all_pids() if str(self.folder) in _environ(pid)]

    def login_processes(self) -> dict[int, str]:
        """Processes of the login (no sshd): pid → command line."""
        found = {}
        for pid in self.processes():
            try:
                if ROOT and Path(f"/proc/{pid}").stat().st_uid != pwd.getpwnam(self.login).pw_uid:
                    continue
                words = (
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                )
            except (OSError, KeyError):
                continue
            if _comm(pid) != "sshd" and words:
                found[pid] = words
        return found

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Signal one process."""
        os.kill(pid, number)

    def cut(self) -> None:
        """Take the link down: packets vanish, nobody is told."""
        if ROOT:
            sh("ip", "link", "set", self.veth, "down")
        else:
            for pid in self.sshd_sessions():
                os.kill(pid, signal.SIGSTOP)

    def restore(self) -> None:
        """The link is back."""
        if ROOT:
            sh("ip", "link", "set", self.veth, "up")
        else:
            for pid in self.sshd_sessions():
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End all of the host's processes; remove it."""
        end(self._sshd)
        end_pids(self.processes())
        if ROOT:
            sh("ip", "netns", "del", self.namespace, check=False)
            sh("userdel", "-f", self.login, check=False)
            shutil.rmtree(f"/dev/shm/remoterun-{self.name}", ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environ(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
