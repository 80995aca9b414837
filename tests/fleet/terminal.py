"""A tmux of the test's own, in place of a person at a screen."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fleet.yard import sh


class Terminal:
    """Runs one command in a real terminal; what stands on it is read back, keys are pressed by tmux's names.

    After the command ``EXIT=status`` is printed and the terminal stays.
    """

    def __init__(
        self,
        socket: Path,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 120,
        lines: int = 30,
        term: str = "xterm-256color",
    ) -> None:
        self._socket = str(socket)
        command = shlex.join(["env", f"TERM={term}", *argv])
        # The shell outlives a Ctrl-C; the trap is not inherited by the command.
        subprocess.run(
            ["tmux", "-u", "-f", "/dev/null", "-S", self._socket, "new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(lines),
             "-c", str(cwd), f"trap : INT; {command}; echo EXIT=$?; sleep 1000"],
            env={**env, "TERM": "xterm-256color"}, check=True, capture_output=True,
        )  # fmt: skip

    def screen(self) -> str:
        """What stands on the screen."""
        return sh("tmux", "-S", self._socket, "capture-pane", "-p", "-t", "t", check=False).stdout

    def send(self, *keys: str) -> None:
        """Press keys (tmux's names; other words are typed)."""
        sh("tmux", "-S", self._socket, "send-keys", "-t", "t", *keys)

    def resize(self, columns: int, lines: int) -> None:
        """Another size."""
        sh("tmux", "-S", self._socket, "resize-window", "-t", "t", "-x", str(columns), "-y", str(lines))

    def wait_for(self, text: str, timeout: float = 15) -> str:
        """The screen once ``text`` is on it."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if text in (screen := self.screen()):
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{text!r} never came:\n{self.screen()}")

    def close(self) -> None:
        """End it: the command gets SIGHUP."""
        sh("tmux", "-S", self._socket, "kill-server", check=False)
