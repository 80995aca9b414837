"""A login of a test host: a name, a shell, a HOME; as root a new line in the password file."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fleet.yard import ROOT, Yard, sh

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


class Login:
    """One login. Without root it is the tests' own, and only its HOME is new."""

    def __init__(
        self,
        yard: Yard,
        home: Path,
        bin_folder: Path,
        enter: Callable[[Sequence[str]], list[str]],
        *,
        shell: str = "/bin/bash",
        superuser: bool = False,
        chatty: bool = False,
    ) -> None:
        self.yard = yard
        self.home = home
        self.bin = bin_folder
        self._enter = enter
        self.name = f"{yard.tag}u{yard.next()}" if ROOT else pwd.getpwuid(os.getuid()).pw_name
        home.mkdir()
        if ROOT:
            self._add(shell, superuser)
        self._write_home(chatty)
        self.uid = pwd.getpwnam(self.name).pw_uid

    def _add(self, shell: str, superuser: bool) -> None:
        # A locked password ("!") is refused without PAM; "*" just never fits.
        argv = ["useradd", "-M", "-N", "-g", "nogroup", "-p", "*", "-d", str(self.home), "-s", shell]
        # A second name of uid 0 reaches interpreters that lie in folders of root alone.
        argv += ["-o", "-u", "0"] if superuser else []
        until = time.monotonic() + 30
        with self.yard.lock:
            # Other test processes hold the password file's lock now and then.
            while (done := sh(*argv, self.name, check=False)).returncode:
                if time.monotonic() > until:
                    raise RuntimeError(f"useradd: {done.stderr}")
                time.sleep(0.05)

    def _write_home(self, chatty: bool) -> None:
        # Debian's /etc/profile sets PATH anew for login shells.
        line = f"PATH='{self.bin}':$PATH\n"
        (self.home / ".profile").write_text(line + "export PATH\n")
        (self.home / ".zprofile").write_text(line)
        if chatty:
            noise = "echo 'welcome {gpu-box}'\necho note >&2\n"
            for name in (".bashrc", ".zshenv", ".tcshrc"):
                (self.home / name).write_text(noise if name != ".tcshrc" else "echo 'welcome {gpu-box}'\n")
            (self.home / ".config" / "fish").mkdir(parents=True)
            (self.home / ".config" / "fish" / "config.fish").write_text(noise)
        (self.home / ".ssh").mkdir(mode=0o700)
        self.give(self.home)

    def give(self, path: Path) -> None:
        """Make a path this login's own."""
        if ROOT:
            sh("chown", "-R", f"{self.name}:nogroup", str(path))

    def sh(self, command: str, *, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command as this login on the host, without SSH."""
        environment = {"HOME": str(self.home), "PATH": f"{self.bin}:{SYSTEM_PATH}", "USER": self.name}
        argv = ["env", "-C", str(self.home), "sh", "-c", command]
        if ROOT:
            argv = ["setpriv", f"--reuid={self.name}", "--regid=nogroup", "--clear-groups", *argv]
        done = subprocess.run(
            self._enter(argv), capture_output=True, text=True, env=environment | {"SHELL": "/bin/sh"}, timeout=timeout
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def close(self) -> None:
        """Remove it from the password file."""
        if ROOT:
            with self.yard.lock:
                # -f: also while a process of it is being reaped; userdel fails while another holds the lock.
                until = time.monotonic() + 30
                while self.name in _logins() and time.monotonic() < until:
                    sh("userdel", "-f", self.name, check=False)


def _logins() -> set[str]:
    return {line.partition(":")[0] for line in Path("/etc/passwd").read_text().splitlines()}
