"""The inventory: hosts by name, groups, and what a -H pattern means."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from remoterun.config import destination, hops, hosts_file, selection, ssh_config
from remoterun.config.host_reader import merge
from remoterun.config.ssh_names import ssh_config_hosts
from remoterun.errors import ConfigError, UnknownHost, UsageError
from remoterun.model.host import Host, Keep

_SHOWN = 12


@dataclass(frozen=True)
class Inventory:
    """All hosts that are described; any other name goes to SSH as it is, with the defaults laid under it."""

    hosts: Mapping[str, Host]
    groups: Mapping[str, tuple[str, ...]]
    default_host: str | None
    defaults: Mapping[str, Any]
    source: str | None

    @classmethod
    def load(cls, explicit: str | None = None, *, folder: Path | None = None) -> Inventory:
        """The inventory of the hosts.yaml that is found (contract §4), or the embedded default. Raises ConfigError."""
        from platformdirs import user_config_path

        file = hosts_file.find(explicit, os.environ, folder or Path.cwd(), user_config_path("remoterun"))
        found = hosts_file.read(file) if file else hosts_file.HostsFile()
        return cls(found.hosts, found.groups, found.default_host, found.defaults, found.source)

    def select(self, patterns: Sequence[str]) -> tuple[Host, ...]:
        """The hosts that patterns name, each once, in their order: names, @groups (or tags), globs,
        ``name-[1-8]``, ``user@host:port``, several by comma.

        A name that stands nowhere must at least resolve. Raises UnknownHost naming the nearest.
        """
        choice = _Choice(self)
        for pattern in patterns:
            for word in selection.split(pattern):
                choice.add(word)
        if not choice.found:
            raise UsageError("no host is named", hint="-H NAME, @GROUP, 'a100-*' or 'a100-[1-8]'")
        choice.check()
        return tuple(choice.found.values())

    def host(self, name: str) -> Host:
        """The host of a name that was used before, as it stands in a record. Nothing is looked up: when it is
        gone, connecting to it says so. Raises UnknownHost only for what cannot be a host."""
        if name in self.hosts:
            return self.hosts[name]
        try:
            to = destination.parse(name)
        except ValueError as error:
            raise UnknownHost(f"no host {name!r}: {error}") from None
        base = self.hosts.get(to.host) or self._undescribed(to.host)
        if base.transport == "local" and (to.user or to.port):
            raise UsageError(f"{base.name} is this machine: it takes no user or port, as in {name!r}")
        return replace(base, name=name, user=to.user or base.user, port=to.port or base.port)

    def _undescribed(self, name: str) -> Host:
        try:
            return hops.fill(merge(name, {}, self.defaults), self.hosts)
        except ValueError as error:
            raise ConfigError(f"{self.source}: {error}", hint="it stands in the defaults") from None

    def names(self) -> tuple[str, ...]:
        """All names that can be typed, for completion: hosts, groups, tags, the SSH configuration's hosts."""
        groups = dict.fromkeys((*self.groups, *(tag for host in self.hosts.values() for tag in host.tags)))
        return tuple(dict.fromkeys((*self.hosts, *(f"@{name}" for name in groups), *ssh_config_hosts())))

    def to_document(self) -> dict[str, Any]:
        """The effective configuration as plain values. Its ``hosts`` and ``groups`` are what hosts.yaml would say in
        full; variables and tokens stand as they were written."""
        return {
            "source": self.source,
            "default_host": self.default_host or "local",
            "defaults": {key: _plain(key, value) for key, value in self.defaults.items()},
            "hosts": {name: _plain_host(host, self.defaults) for name, host in self.hosts.items()},
            "groups": {name: list(members) for name, members in self.groups.items()},
        }


class _Choice:
    """What the words after -H name, gathered in order."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.found: dict[str, Host] = {}
        self._done: set[str] = set()

    def add(self, word: str) -> None:
        """Add what one word names."""
        hosts = self.inventory.hosts
        if word in hosts:
            self.found.setdefault(word, hosts[word])
        elif word.startswith("@"):
            self._group(word[1:])
        elif destination.looks_like_one(word):
            self.found.setdefault(word, self.inventory.host(word))
        elif selection.has_range(word):
            for name in selection.expand_range(word):
                self.add(name)
        elif selection.is_glob(word):
            self._glob(word)
        else:
            self.found.setdefault(word, self.inventory.host(word))

    def _glob(self, word: str) -> None:
        hosts = self.inventory.hosts
        matching = [name for name in hosts if selection.matches(name, word)]
        # hosts.yaml comes first: with it, names of the SSH configuration that it leaves out are not swept in.
        matching = matching or [name for name in ssh_config_hosts() if selection.matches(name, word)]
        if not matching:
            raise UnknownHost(f"no host matches {word!r}", hint=f"known: {_some(list(hosts))}")
        for name in matching:
            self.found.setdefault(name, self.inventory.host(name))

    def _group(self, name: str) -> None:
        # Once is enough, and a group that names itself comes to an end.
        if name in self._done:
            return
        self._done.add(name)
        hosts, groups = self.inventory.hosts, self.inventory.groups
        tags = dict.fromkeys(tag for host in hosts.values() for tag in host.tags)
        if name in groups:
            for member in groups[name]:
                for word in selection.split(member):
                    self.add(word)
        elif name in tags:
            for host in hosts.values():
                if name in host.tags:
                    self.found.setdefault(host.name, host)
        else:
            known = [*groups, *tags]
            near = get_close_matches(name, known, 3)
            hint = f"did you mean {', '.join('@' + each for each in near)}?" if near else ""
            raise UnknownHost(
                f"no group or tag {name!r}",
                hint=hint or (f"known: {_some(known)}" if known else "groups and tags stand in hosts.yaml"),
            )

    def check(self) -> None:
        """Look up, side by side, the names that stand nowhere."""
        new = [host for name, host in self.found.items() if name not in self.inventory.hosts]
        new = [host for host in new if ssh_config.asked_by(host) not in self.inventory.hosts]
        if not new:
            return
        known = ssh_config_hosts()
        new = [host for host in new if ssh_config.asked_by(host) not in known]
        with ThreadPoolExecutor(16) as pool:
            reasons = list(pool.map(_why_unknown, new))
        for host, reason in zip(new, reasons, strict=True):
            if reason:
                self._refuse(host.name, reason, known)

    def _refuse(self, name: str, reason: str, ssh_names: Sequence[str]) -> None:
        known = list(dict.fromkeys((*self.inventory.hosts, *ssh_names)))
        lower = {each.lower(): each for each in known}
        near = [lower[each] for each in get_close_matches(name.lower(), lower, 3)]
        if name in self.inventory.groups:
            near.insert(0, f"@{name}")
        raise UnknownHost(
            f"no host {name!r}: neither hosts.yaml nor the SSH configuration has it, and {reason}",
            hint=f"did you mean {', '.join(near)}?" if near else f"known: {_some(known)}",
        )


def _why_unknown(host: Host) -> str:
    """Why a name cannot be reached at all, "" when it may be: it resolves, or is resolved by a hop on the way."""
    try:
        target = ssh_config.resolve(host)
    except ConfigError as error:
        # ssh refuses the name itself, or its whole configuration: its own words say which.
        return error.message
    if target.jumps or target.proxy_command or host.address:
        return ""
    try:
        socket.getaddrinfo(target.hostname, None)
    except socket.gaierror as error:
        # Not every system has EAI_NODATA.
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
            return "it is no name that resolves"
        return f"it cannot be looked up now ({(error.strerror or 'no answer').lower()})"
    except (OSError, UnicodeError):
        return "it is no name that resolves"
    return ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _plain_host(host: Host, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A host's fields as hosts.yaml writes them. Those without a value are left out, but for an empty list that
    stands against the defaults."""
    found: dict[str, Any] = {}
    for item in fields(host):
        value = getattr(host, item.name)
        if item.name not in ("name", "hops") and (
            value not in (None, (), {}) or (value == () and item.name in defaults)
        ):
            found[item.name] = _plain(item.name, value)
    return found


def _plain(key: str, value: Any) -> Any:
    if key == "data":
        return {data.name: {data.kind: data.source, "mount": data.mount, "mode": data.mode} for data in value}
    if isinstance(value, Keep):
        return {name: part for name in ("count", "age", "bytes") if (part := getattr(value, name)) is not None}
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
