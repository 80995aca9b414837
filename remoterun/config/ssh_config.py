"""Where SSH really goes, as OpenSSH itself reads its configuration: by ``ssh -G``.

The configuration is asked by the host's name, so that the ``Host`` blocks of that name apply, and what hosts.yaml
says is laid over it as command-line options, which win in OpenSSH. So ``address`` replaces HostName alone.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType

from remoterun.config import destination, ssh_command
from remoterun.config.ssh_command import SSH
from remoterun.errors import ConfigError, RemoterunError
from remoterun.model.host import Host, SshTarget

_MAX_HOPS = 8
_TOKEN = re.compile(r"%(.)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# What `ssh -G` calls the two values that have a shorter name in the manual.
_STRICT = {"true": "yes", "false": "no", "off": "no"}


def resolve(host: Host, *, ssh: Sequence[str] = SSH) -> SshTarget:
    """The target of ``host``. ``ssh`` is the program, with options such as ``-F file``. Raises ConfigError."""
    return _resolve(host, tuple(ssh), _MAX_HOPS)


def resolve_many(hosts: Iterable[Host], *, ssh: Sequence[str] = SSH) -> dict[str, SshTarget | RemoterunError]:
    """The targets of many hosts by name, side by side; the error in its place where there is one."""

    def one(host: Host) -> SshTarget | RemoterunError:
        try:
            return resolve(host, ssh=ssh)
        except RemoterunError as error:
            error.host = host.name
            return error

    asked = list(hosts)
    with ThreadPoolExecutor(16) as pool:
        return dict(zip((host.name for host in asked), pool.map(one, asked), strict=True))


def asked_by(host: Host) -> str:
    """What ssh is asked by: the name, without the user and port that may have been typed with it."""
    try:
        return destination.parse(host.name).host if destination.looks_like_one(host.name) else host.name
    except ValueError:
        return host.name


def overrides(host: Host, *, ssh: Sequence[str] = SSH) -> list[str]:
    """What hosts.yaml says of a host, as options for ``ssh`` (but for the identity file: ``-i``)."""
    options = _own_overrides(host)
    if host.hops:
        options += ["-o", f"ProxyCommand={_proxy_command(host.hops, ssh)}"]
    elif host.jump:
        options += ["-o", f"ProxyJump={_literal(host.jump)}"]
    return options


def _own_overrides(host: Host) -> list[str]:
    options: list[str] = []
    if host.user:
        options += ["-l", host.user]
    if host.port:
        options += ["-p", str(host.port)]
    if host.address:
        options += ["-o", f"HostName={_literal(host.address)}"]
    return options


def _literal(text: str) -> str:
    """A value in which ssh would expand percent tokens, as it stands: ``fe80::1%eth0``."""
    return text.replace("%%", "%").replace("%", "%%")


def _proxy_command(hops: Sequence[Host], ssh: Sequence[str]) -> str:
    """What ProxyJump would run, but with each hop's settings from hosts.yaml."""
    *before, last = hops
    argv = [*ssh, *_own_overrides(last)]
    if last.identity_file:
        argv += ["-i", os.path.expanduser(last.identity_file)]
    if before:
        argv += ["-o", f"ProxyCommand={_proxy_command(before, ssh)}"]
    elif last.hops:
        argv += ["-o", f"ProxyCommand={_proxy_command(last.hops, ssh)}"]
    elif last.jump:
        argv += ["-o", f"ProxyJump={_literal(last.jump)}"]
    # Percent signs of the words are not this level's: only those of -W are.
    words = [shlex.quote(word).replace("%", "%%") for word in argv]
    return " ".join([*words, "-W", "'[%h]:%p'", "--", shlex.quote(asked_by(last)).replace("%", "%%")])


def _resolve(host: Host, ssh: tuple[str, ...], hops_left: int) -> SshTarget:
    options = _own_overrides(host)
    if host.identity_file:
        # Unlike -i, this does not drop a file that is missing here: its public half may be in the agent.
        quoted = host.identity_file.replace("\\", "\\\\").replace('"', '\\"')
        options += ["-o", f'IdentityFile="{quoted}"']
    jump = "none" if host.hops else host.jump
    if jump:
        options += ["-o", f"ProxyJump={_literal(jump)}"]
    target = _ask(asked_by(host), options, ssh, hops_left)
    if host.hops:
        jumps: list[SshTarget] = []
        for hop in host.hops:
            found = _resolve(hop, ssh, hops_left - 1)
            jumps += [*found.jumps, replace(found, jumps=())]
        target = replace(target, jumps=tuple(jumps))
    return replace(target, name=host.name)


def _ask(name: str, options: Sequence[str], ssh: tuple[str, ...], hops_left: int) -> SshTarget:
    if hops_left <= 0:
        raise ConfigError(f"more than {_MAX_HOPS} jumps on the way to {name}: does ProxyJump run in a circle?")
    return _Answer(name, ssh_command.ask(name, options, ssh=ssh), ssh).target(hops_left)


@dataclass(frozen=True)
class _Answer:
    """What ``ssh -G`` said of a name."""

    name: str
    lines: Sequence[tuple[str, str]]
    ssh: tuple[str, ...]

    def target(self, hops_left: int) -> SshTarget:
        """The target, with its jumps resolved in turn."""
        one = dict(self.lines)
        command = one.get("proxycommand", "none")
        alias = one.get("hostkeyalias", "none")
        timeout = one.get("connecttimeout", "none")
        strict = one.get("stricthostkeychecking", "ask")
        return SshTarget(
            self.name,
            self._hostname,
            self._port,
            self._user,
            identity_files=self._paths("identityfile"),
            identities_only=one.get("identitiesonly") in ("yes", "true"),
            identity_agent=self._agent(one.get("identityagent")),
            certificate_files=self._paths("certificatefile"),
            jumps=self._jumps(one.get("proxyjump", "none"), hops_left),
            proxy_command=None if command.lower() in ("none", "") else self._tokens(command, environment=False),
            known_hosts_files=(
                *self._known_hosts("userknownhostsfile"),
                *self._known_hosts("globalknownhostsfile"),
            ),
            host_key_alias=None if alias in ("none", "") else alias,
            strict_host_key_checking=_STRICT.get(strict, strict),
            connect_timeout=float(timeout) if timeout.isdigit() and int(timeout) > 0 else 10.0,
            options=MappingProxyType(one),
            destination=self.name,
        )

    @property
    def _hostname(self) -> str:
        return dict(self.lines).get("hostname", self.name)

    @property
    def _port(self) -> int:
        return int(dict(self.lines).get("port", "22"))

    @property
    def _user(self) -> str:
        return dict(self.lines).get("user") or pwd.getpwuid(os.getuid()).pw_name

    def _paths(self, key: str) -> tuple[str, ...]:
        """A file option that may stand several times; ``ssh -G`` leaves ``~`` and tokens in it."""
        values = (value for other, value in self.lines if other == key)
        return tuple(self._path(value) for value in values if value.lower() != "none")

    def _path(self, text: str) -> str:
        """``~`` first, then tokens and ``${VARIABLES}``, in OpenSSH's order."""
        if text == "~" or text.startswith("~/"):
            text = ssh_command.home(self.ssh) + text[1:]
        elif text.startswith("~"):
            text = os.path.expanduser(text)
        return self._tokens(text)

    def _tokens(self, text: str, *, environment: bool = True) -> str:
        """Percent tokens (ssh_config(5), TOKENS) filled in; unknown ones stay."""
        fill = self._token_values()

        def one(found: re.Match[str]) -> str:
            if found[1]:
                return fill.get(found[1], found[0])
            if not environment:
                return found[0]
            value = os.environ.get(found[2])
            if value is None:
                raise ConfigError(
                    f"the SSH configuration of {self.name} says {text}, and ${{{found[2]}}} is not set",
                    hint=f"export {found[2]}=…",
                )
            return value

        return _TOKEN.sub(one, text)

    def _token_values(self) -> Mapping[str, str]:
        local = socket.gethostname()
        return {
            "%": "%",
            "h": self._hostname,
            "n": self.name,
            "p": str(self._port),
            "r": self._user,
            "u": pwd.getpwuid(os.getuid()).pw_name,
            "i": str(os.getuid()),
            "d": ssh_command.home(self.ssh),
            "k": dict(self.lines).get("hostkeyalias", self.name),
            "L": local.split(".")[0],
            "l": local,
        }

    def _agent(self, text: str | None) -> str | None:
        """A socket's path, ``none``, or None for SSH_AUTH_SOCK of this environment."""
        if text is None or text == "SSH_AUTH_SOCK":
            return None
        if text.startswith("$") and not text.startswith("${"):
            return os.environ.get(text[1:]) or "none"
        return text if text.lower() == "none" else self._path(text)

    def _known_hosts(self, key: str) -> tuple[str, ...]:
        """The files of a list in which ``ssh -G`` has filled in everything and dropped the quotes: the words that
        together name a file that is there are one; so are words after a path that begin no path themselves."""
        words = dict(self.lines).get(key, "").split(" ")
        found: list[str] = []
        while words:
            count = next(
                (count for count in range(len(words), 0, -1) if os.path.exists(self._path(" ".join(words[:count])))), 0
            )
            if not count:
                count = 1
                while count < len(words) and not words[count].startswith(("/", "~", ".", "%", "$")):
                    count += 1
            found.append(" ".join(words[:count]))
            del words[:count]
        return tuple(self._path(file) for file in found if file and file.lower() != "none")

    def _jumps(self, text: str, hops_left: int) -> tuple[SshTarget, ...]:
        """The hops of a ProxyJump, first hop first. A hop's own jumps come before it."""
        if text.lower() in ("none", ""):
            return ()
        hops: list[SshTarget] = []
        for word in text.split(","):
            try:
                # OpenSSH hands the value to another ssh through ProxyCommand, whose tokens are then those of this host.
                way = destination.parse(self._tokens(word.strip(), environment=False))
            except ValueError as error:
                raise ConfigError(f"ProxyJump of {self.name}: {error}") from None
            options = [*(["-l", way.user] if way.user else []), *(["-p", str(way.port)] if way.port else [])]
            if hops:
                # OpenSSH reaches each further hop through the one before, whatever its own ProxyJump says.
                options += ["-o", "ProxyJump=none"]
            hop = _ask(way.host, options, self.ssh, hops_left - 1)
            hops += [*hop.jumps, replace(hop, jumps=())]
        return tuple(hops)
