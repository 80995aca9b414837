"""The laptop of a test: a HOME with an SSH configuration, and the command line run in it.

OpenSSH takes ~/.ssh/config from the password file's home, not from $HOME. So a folder in front of PATH holds an
``ssh`` that adds ``-F $HOME/.ssh/config``: the real program, told where this test's configuration is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.fleet.host import TestHost
from tests.fleet.proxy import Proxy
from tests.fleet.yard import Yard, sh

REPOSITORY = Path(__file__).resolve().parents[2]


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
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        shim = bin_folder / "ssh"
        shim.write_text('#!/bin/sh\nexec /usr/bin/ssh -F "$HOME/.ssh/config" "$@"\n')
        shim.chmod(0o755)
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "USER": "tester",
            "LOGNAME": "tester",
            "SHELL": "/bin/sh",
            "TERM": "xterm-256color",
            "PYTHONPATH": str(REPOSITORY),
            "COVERAGE_PROCESS_START": os.environ.get("COVERAGE_PROCESS_START", ""),
        }
        self._terminals: list[Terminal] = []

    def knows(self, hosts: Iterable[TestHost], *, via: Proxy | None = None, options: str = "") -> None:
        """Add ``Host`` blocks and known_hosts lines. ``via``: through a proxy."""
        key = self.yard.host_key.with_suffix(".pub").read_text().split()[:2]
        for host in hosts:
            address, port = ("127.0.0.1", via.port) if via else (host.address, host.port)
            with open(self.config, "a") as out:
                out.write(
                    f"Host {host.name}\n  HostName {address}\n  Port {port}\n  User {host.login}\n"
                    f"  IdentityFile {self.yard.client_key}\n  IdentitiesOnly yes\n"
                    f"  UserKnownHostsFile {self.known_hosts}\n  ConnectTimeout 5\n{options}\n"
                )
            name = address if port == 22 else f"[{address}]:{port}"
            with open(self.known_hosts, "a") as out:
                out.write(f"{name} {key[0]} {key[1]}\n")

    def run(
        self,
        *arguments: str,
        timeout: float = 60,
        check: bool = False,
        input: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``remoterun`` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "remoterun", *arguments],
            env={**self.env, **(env or {})},
            cwd=self.project,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``remoterun``; its output is read by the test."""
        return subprocess.Popen(
            [sys.executable, "-m", "remoterun", *arguments],
            env=self.env,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def terminal(self, *arguments: str, columns: int = 120, lines: int = 30, term: str = "xterm-256color") -> Terminal:
        """Run ``remoterun`` in a real terminal."""
        terminal = Terminal(self, arguments, columns, lines, term)
        self._terminals.append(terminal)
        return terminal

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make this the environment of the test process itself, for calls of the Python API."""
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)
        for name in ("SSH_AUTH_SOCK", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(self.project)

    def script(self, name: str, text: str, mode: int = 0o755) -> Path:
        """A file of the project."""
        file = self.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def close(self) -> None:
        """Close terminals."""
        for terminal in self._terminals:
            terminal.close()
        # Jobs on the host `local` and their tmux server live under this HOME.
        for socket in self.home.glob(".remoterun/tmux-*/socket"):
            sh("tmux", "-S", str(socket), "kill-server", check=False)


class Terminal:
    """A tmux of the test's own, in place of a person at a screen."""

    def __init__(self, client: Client, arguments: Sequence[str], columns: int, lines: int, term: str) -> None:
        self._socket = str(client.folder / f"t{client.yard.next()}")
        command = shlex.join(["env", f"TERM={term}", sys.executable, "-m", "remoterun", *arguments])
        environment = {**client.env, "TERM": "xterm-256color"}
        subprocess.run(
            ["tmux", "-u", "-f", "/dev/null", "-S", self._socket, "new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(lines),
             "-c", str(client.project), f"trap : INT; {command}; echo EXIT=$?; sleep 1000"],
            env=environment, check=True, capture_output=True,
        )  # fmt: skip

    def screen(self) -> str:
        """What stands on the screen."""
        return sh("tmux", "-S", self._socket, "capture-pane", "-p", "-t", "t", check=False).stdout

    def send(self, *keys: str) -> None:
        """Press keys (tmux's names)."""
        sh("tmux", "-S", self._socket, "send-keys", "-t", "t", *keys)

    def wait_for(self, text: str, timeout: float = 15) -> str:
        """The screen once ``text`` is on it."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if text in (screen := self.screen()):
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{text!r} never came:\n{self.screen()}")

    def close(self) -> None:
        """End it."""
        sh("tmux", "-S", self._socket, "kill-server", check=False)
