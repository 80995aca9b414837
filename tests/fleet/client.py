"""The laptop of a test: a HOME with an SSH configuration, and the command line run in it.

OpenSSH takes ~/.ssh from the password file's home, not from $HOME. So a folder in front of PATH holds ``ssh``,
``scp``, ``sftp`` that start the real program where the password file names this HOME: in a mount namespace with one
more /etc/passwd laid over /etc. A relative ``Include``, ``~`` and ``%d`` then mean what they mean to a user. Where the
kernel grants no such namespace they fall back to ``-F $HOME/.ssh/config``, and ``honest`` is False.
"""

from __future__ import annotations

import functools
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fleet.host import TestHost
from tests.fleet.proxy import Proxy
from tests.fleet.terminal import Terminal
from tests.fleet.yard import ROOT, Yard, end, end_pids, with_environment

REPOSITORY = Path(__file__).resolve().parents[2]
_UNSHARE = ["unshare", "--mount"] if ROOT else ["unshare", "--user", "--map-current-user", "--mount"]


class Client:
    """Commands run with this HOME, configuration and current folder (a small project)."""

    def __init__(self, yard: Yard, name: str = "laptop") -> None:
        self.yard = yard
        self.folder = yard.folder / f"{name}{yard.next()}"
        self.home = self.folder / "home"
        self.project = self.folder / "project"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self.project.mkdir()
        self.config = self.home / ".ssh" / "config"
        self.known_hosts = self.home / ".ssh" / "known_hosts"
        self.known_hosts.touch()
        self.config.touch()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.honest = _namespaces()
        self._write_shims()
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "USER": "tester",
            "LOGNAME": "tester",
            "SHELL": "/bin/sh",
            "TERM": "xterm-256color",
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "PYTHONPATH": str(REPOSITORY),
            # Where the tests' coverage is measured, that of the command line is too.
            **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
        }
        self._terminals: list[Terminal] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self.close = yard.closes(self._close)

    def _write_shims(self) -> None:
        etc = self.folder / "etc"
        etc.mkdir()
        (etc / "passwd").write_text(_passwd(self.home))
        overlay = f'mount -t overlay overlay -o lowerdir={etc}:/etc /etc && exec "$@"'
        for name in ("ssh", "scp", "sftp"):
            program = shutil.which(name) or f"/usr/bin/{name}"
            words = [*_UNSHARE, "sh", "-c", overlay, "sh", program] if self.honest else [program]
            options = "" if self.honest else ' -F "$HOME/.ssh/config"'
            shim = self.bin / name
            shim.write_text(f'#!/bin/sh\nexec {shlex.join(words)}{options} "$@"\n')
            shim.chmod(0o755)

    def knows(
        self,
        hosts: Iterable[TestHost],
        *,
        via: Proxy | None = None,
        options: str = "",
        name: str | None = None,
        login: str | None = None,
    ) -> None:
        """Add ``Host`` blocks and known_hosts lines.

        ``via``: through a proxy; ``options``: more lines of the block; ``name``, ``login``: not the host's own.
        """
        for host in hosts:
            address, port = ("127.0.0.1", via.port) if via else (host.address, host.port)
            with open(self.config, "a") as out:
                out.write(
                    f"Host {name or host.name}\n  HostName {address}\n  Port {port}\n  User {login or host.login}\n"
                    f"  IdentityFile {self.yard.client_key}\n  IdentitiesOnly yes\n"
                    f"  UserKnownHostsFile {self.known_hosts}\n  ConnectTimeout 5\n{options}\n"
                )
            key = host.host_key.with_suffix(".pub").read_text().split()[:2]
            with open(self.known_hosts, "a") as out:
                out.write(f"{address if port == 22 else f'[{address}]:{port}'} {key[0]} {key[1]}\n")

    def run(
        self,
        *arguments: str,
        timeout: float = 60,
        check: bool = False,
        input: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``remoterun`` to its end."""
        done = self.command(
            sys.executable, "-m", "remoterun", *arguments, timeout=timeout, check=check, input=input, env=env
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def command(
        self,
        *argv: str,
        timeout: float = 60,
        check: bool = False,
        input: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run any command on the laptop, to its end: ``client.command("ssh", "h1", "true")``."""
        done = subprocess.run(
            argv,
            env={**self.env, **(env or {})},
            cwd=self.project,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
        )
        assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``remoterun``; its output is read by the test. It ends with the client."""
        process = subprocess.Popen(
            [sys.executable, "-m", "remoterun", *arguments],
            env=self.env,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def terminal(self, *arguments: str, columns: int = 120, lines: int = 30, term: str = "xterm-256color") -> Terminal:
        """Run ``remoterun`` in a real terminal."""
        terminal = Terminal(
            self.folder / f"t{self.yard.next()}",
            [sys.executable, "-m", "remoterun", *arguments],
            cwd=self.project,
            env=self.env,
            columns=columns,
            lines=lines,
            term=term,
        )
        self._terminals.append(terminal)
        return terminal

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make this the environment of the test process itself, for calls of the Python API."""
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)
        for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(self.project)

    def script(self, name: str, text: str, mode: int = 0o755) -> Path:
        """A file of the project."""
        file = self.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def _close(self) -> None:
        for terminal in self._terminals:
            terminal.close()
        for process in self._started:
            end(process)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        # Masters of shared connections, jobs on the host `local`, their tmux servers: this HOME is in their environment.
        while left := with_environment(f"{self.folder}/"):
            end_pids(left)


@functools.cache
def _namespaces() -> bool:
    """Whether this kernel lets us lay one more folder over /etc."""
    mount = "mount -t overlay overlay -o lowerdir=/usr:/etc /etc"
    return subprocess.run([*_UNSHARE, "sh", "-c", mount], capture_output=True).returncode == 0


def _passwd(home: Path) -> str:
    """The password file with the tests' own login at home elsewhere."""
    lines = []
    for entry in pwd.getpwall():
        here = home if entry.pw_uid == os.getuid() else entry.pw_dir
        lines.append(
            f"{entry.pw_name}:x:{entry.pw_uid}:{entry.pw_gid}:{entry.pw_gecos.replace(':', '')}:{here}:{entry.pw_shell}"
        )
    return "".join(line + "\n" for line in lines)
