"""Questions to the ``ssh`` of this machine about its own configuration (``ssh -G``); no connection is made."""

from __future__ import annotations

import functools
import os
import pwd
import subprocess
from collections.abc import Sequence

from remoterun.errors import ConfigError

SSH = ("ssh",)
# A `Match exec` or a canonical name may take its time; a configuration that never answers is an error.
_LIMIT_S = 60


def ask(name: str, options: Sequence[str] = (), *, ssh: Sequence[str] = SSH) -> list[tuple[str, str]]:
    """What ``ssh -G`` says of a destination: lower-case keys and their values, in its order.

    ``ssh`` is the program with options of its own, such as ``("ssh", "-F", file)``. Raises ConfigError with
    ssh's own words.
    """
    # -T: no word about terminals among the errors.
    argv = [*ssh, "-T", "-G", *options, "--", name]
    try:
        done = subprocess.run(argv, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=_LIMIT_S)
    except OSError as error:
        raise ConfigError(
            f"cannot run {ssh[0]}: {error.strerror}", hint="install OpenSSH's client (openssh-client)"
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"ssh did not read its configuration for {name} within {_LIMIT_S} s",
            hint=f"try: ssh -G {name}   A `Match exec` may hang",
        ) from None
    if done.returncode:
        said = [
            line.strip()
            for line in done.stderr.decode("utf-8", "replace").splitlines()
            if line.strip() and "terminating," not in line
        ]
        raise ConfigError(
            f"ssh does not accept its configuration for {name}: {'; '.join(said[-3:]) or f'status {done.returncode}'}",
            hint=f"try: ssh -G {name}",
        )
    pairs = (line.partition(" ") for line in os.fsdecode(done.stdout).split("\n") if line)
    return [(key.lower(), value) for key, _, value in pairs]


def home(ssh: Sequence[str] = SSH) -> str:
    """The home folder that ssh means by ``~``: the password file's, whatever $HOME says."""
    entry = _password_home()
    if entry is not None and entry == os.environ.get("HOME"):
        return entry
    return _home_by_ssh(tuple(ssh), os.environ.get("PATH", ""), os.environ.get("HOME", "")) or entry or ""


def _password_home() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


@functools.cache
def _home_by_ssh(ssh: tuple[str, ...], path: str, home_variable: str) -> str | None:
    """Asked of ssh itself where the two differ: it may run in a container or behind a wrapper. The other
    arguments only tell apart environments in which the answer may differ."""
    try:
        said = dict(ask("localhost", ["-F", "none", "-o", "UserKnownHostsFile=%d"], ssh=ssh[:1]))
    except ConfigError:
        return None
    place = said.get("userknownhostsfile", "")
    return place if place.startswith("/") else None
