"""Where SSH really goes, as OpenSSH itself reads its configuration: by ``ssh -G``."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from types import MappingProxyType

from remoterun.errors import ConfigError, RemoterunError
from remoterun.model.host import Host, SshTarget

_MAX_HOPS = 8


def resolve(host: Host) -> SshTarget:
    """The target of ``host``: the SSH configuration asked by the host's name (so that its ``Host`` blocks
    apply), with hosts.yaml laid over it. Raises ConfigError with ssh's own words."""
    options = overrides(host)
    target = _ask(host.name, options, _MAX_HOPS)
    if host.identity_file:
        files = (_expand(host.identity_file, target), *target.identity_files)
        target = replace(target, identity_files=files)
    return target


def overrides(host: Host) -> list[str]:
    """What hosts.yaml says of a host, as options for ``ssh`` (but for the identity file: ``-i``)."""
    options: list[str] = []
    if host.user:
        options += ["-l", host.user]
    if host.port:
        options += ["-p", str(host.port)]
    if host.address:
        options += ["-o", f"HostName={host.address}"]
    if host.jump:
        options += ["-o", f"ProxyJump={host.jump}"]
    return options


def _ask(name: str, options: Sequence[str], hops_left: int) -> SshTarget:
    if hops_left == 0:
        raise ConfigError(f"more than {_MAX_HOPS} jumps on the way to {name}: ProxyJump runs in a circle?")
    if name.startswith("-"):
        raise ConfigError(f"{name!r} cannot be a host's name")
    try:
        done = subprocess.run(
            ["ssh", "-G", *options, "--", name], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise ConfigError("there is no ssh on this machine", hint="install OpenSSH's client") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ConfigError(f"ssh does not accept its configuration for {name}: {said[-1] if said else done.returncode}")
    lines = [line.partition(" ")[::2] for line in os.fsdecode(done.stdout).splitlines()]
    return _target(name, [(key.lower(), value) for key, value in lines], hops_left)


def _target(name: str, lines: Sequence[tuple[str, str]], hops_left: int) -> SshTarget:
    one = dict(lines)
    host_name = one.get("hostname", name)
    bare = SshTarget(name, host_name, int(one.get("port", "22")), one.get("user", ""))
    many = {
        key: tuple(_expand(value, bare) for other, value in lines if other == key)
        for key in ("identityfile", "certificatefile")
    }
    known = [
        _expand(file, bare)
        for key in ("userknownhostsfile", "globalknownhostsfile")
        for file in _files(one.get(key, ""), bare)
        if file.lower() != "none"
    ]
    jump = one.get("proxyjump", "none")
    command = one.get("proxycommand", "none")
    timeout = one.get("connecttimeout", "none")
    alias = one.get("hostkeyalias", "none")
    return replace(
        bare,
        identity_files=tuple(file for file in many["identityfile"] if file.lower() != "none"),
        identities_only=one.get("identitiesonly") == "yes",
        identity_agent=_agent(one.get("identityagent"), bare),
        certificate_files=tuple(file for file in many["certificatefile"] if file.lower() != "none"),
        jumps=_jumps(jump, hops_left) if jump.lower() not in ("none", "") else (),
        proxy_command=None if command.lower() in ("none", "") else _tokens(command, bare),
        known_hosts_files=tuple(known),
        host_key_alias=None if alias in ("none", "") else alias,
        strict_host_key_checking=one.get("stricthostkeychecking", "ask"),
        connect_timeout=float(timeout) if timeout.isdigit() and int(timeout) > 0 else 10.0,
        options=MappingProxyType(one),
    )


def _jumps(text: str, hops_left: int) -> tuple[SshTarget, ...]:
    """The hops of a ProxyJump, first hop first. A hop's own jumps come before it."""
    hops: list[SshTarget] = []
    for word in text.split(","):
        user, host, port = _hop(word.strip())
        options = [*(["-l", user] if user else []), *(["-p", port] if port else [])]
        if hops:
            # OpenSSH reaches each further hop through the one before, whatever its own ProxyJump says.
            options += ["-o", "ProxyJump=none"]
        hop = _ask(host, options, hops_left - 1)
        hops += [*hop.jumps, replace(hop, jumps=())]
    return tuple(hops)


def _hop(word: str) -> tuple[str | None, str, str | None]:
    """``[user@]host[:port]``, ``[user@][v6]:port`` or an ssh:// URI."""
    word = word.removeprefix("ssh://").rstrip("/")
    user, at, rest = word.rpartition("@")
    found = re.fullmatch(
        r"\[(?P<six>[^\]]+)\](?::(?P<sixport>\d+))?|(?P<host>[^:]+)(?::(?P<port>\d+))?|(?P<bare>.*)", rest
    )
    assert found is not None
    host = found["six"] or found["host"] or found["bare"] or ""
    if not host:
        raise ConfigError(f"ProxyJump {word!r} names no host")
    return (user if at else None), host, found["sixport"] or found["port"]


def _agent(text: str | None, target: SshTarget) -> str | None:
    """A socket's path, ``none``, or None for SSH_AUTH_SOCK of this environment."""
    if text is None or text == "SSH_AUTH_SOCK":
        return None
    if text.startswith("$"):
        return os.environ.get(text[1:].strip("{}"), "none")
    return text if text == "none" else _expand(text, target)


def _expand(path: str, target: SshTarget) -> str:
    """``~`` and the percent tokens of a file option."""
    return os.path.expanduser(_tokens(path.strip('"'), target))


def _tokens(text: str, target: SshTarget) -> str:
    import getpass
    import socket

    values = {
        "%": "%",
        "h": target.hostname,
        "n": target.name,
        "p": str(target.port),
        "r": target.user,
        "u": getpass.getuser(),
        "d": str(Path.home()),
        "L": socket.gethostname().split(".")[0],
        "l": socket.gethostname(),
    }
    return re.sub(r"%(.)", lambda found: values.get(found[1], found[0]), text)


def _files(text: str, target: SshTarget) -> list[str]:
    """Paths of a list in which ``ssh -G`` has dropped the quotes: words that together name a file are one."""
    words, found = _words(text), []
    while words:
        for count in range(len(words), 0, -1):
            joined = " ".join(words[:count])
            if count == 1 or os.path.exists(_expand(joined, target)):
                found.append(joined)
                del words[:count]
                break
    return found


def _words(text: str) -> list[str]:
    """Words of a line, in which double quotes hold spaces together."""
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', text)]


def ssh_config_hosts(file: Path | None = None) -> tuple[str, ...]:
    """Names that the user's SSH configuration gives a ``Host`` block (no patterns), in its order."""
    start = file or _user_file()
    names: dict[str, None] = {}
    for pattern in _host_words(start, 0):
        if not set("*?!") & set(pattern):
            names[pattern] = None
    return tuple(names)


def _user_file() -> Path:
    return Path("~/.ssh/config").expanduser()


def _host_words(file: Path, depth: int) -> Iterator[str]:
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    for line in text.splitlines():
        key, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if key.lower() == "host":
            yield from _words(rest)
        elif key.lower() == "include" and depth < 16:
            for pattern in _words(rest):
                full = os.path.join(file.parent, os.path.expanduser(pattern))
                for found in sorted(glob(full)):
                    yield from _host_words(Path(found), depth + 1)


def is_known(name: str) -> bool:
    """Whether the name can be reached at all: a Host block of its own, or one that resolves."""
    import socket

    if name in ssh_config_hosts():
        return True
    try:
        target = _ask(name, [], _MAX_HOPS)
        if target.hostname != name or target.jumps or target.proxy_command:
            return True
        socket.getaddrinfo(target.hostname, target.port)
    except (RemoterunError, OSError, UnicodeError):
        return False
    return True
