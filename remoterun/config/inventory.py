"""The inventory: hosts by name, groups, and what a -H pattern means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from remoterun.config import hosts_file, ssh_config
from remoterun.errors import UnknownHost, UsageError
from remoterun.model.host import Host

_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
_MOST_IN_A_RANGE = 10000


@dataclass(frozen=True)
class Inventory:
    """All hosts that are described; any other name goes to SSH as it is, with the defaults laid over it."""

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
        ``name-[1-8]``, several by comma. Raises UnknownHost naming the nearest."""
        found: dict[str, Host] = {}
        for pattern in patterns:
            for word in _split(pattern):
                for host in self._word(word, ()):
                    found.setdefault(host.name, host)
        if not found:
            raise UsageError("no host is named", hint="-H NAME, @GROUP, 'a100-*' or 'a100-[1-8]'")
        return tuple(found.values())

    def _word(self, word: str, inside: tuple[str, ...]) -> Iterator[Host]:
        if word.startswith("@"):
            yield from self._group(word[1:], inside)
        elif _RANGE.search(word):
            for name in _expand_range(word):
                yield from self._word(name, inside)
        elif set("*?[").intersection(word):
            matching = [host for name, host in self.hosts.items() if fnmatchcase(name, word)]
            if not matching:
                raise UnknownHost(f"no host matches {word!r}", hint=f"known: {', '.join(self.hosts)}")
            yield from matching
        else:
            yield self._named(word)

    def _group(self, name: str, inside: tuple[str, ...]) -> Iterator[Host]:
        if name in inside:
            raise UsageError(f"group {name!r} is a member of itself")
        if name in self.groups:
            for member in self.groups[name]:
                yield from self._word(member, (*inside, name))
            return
        tagged = [host for host in self.hosts.values() if name in host.tags]
        if not tagged:
            near = get_close_matches(
                name, [*self.groups, *(tag for host in self.hosts.values() for tag in host.tags)], 1
            )
            raise UnknownHost(
                f"no group or tag {name!r}", hint=f"did you mean @{near[0]}?" if near else "groups stand in hosts.yaml"
            )
        yield from tagged

    def _named(self, name: str) -> Host:
        if name in self.hosts:
            return self.hosts[name]
        if not re.fullmatch(r"[A-Za-z0-9_.:%@\[\]-]+", name) or name.startswith("-"):
            raise UnknownHost(f"{name!r} cannot name a host")
        known = [*self.hosts, *ssh_config.ssh_config_hosts()]
        if name not in known and not ssh_config.is_known(name):
            near = get_close_matches(name, known, 3)
            hint = f"did you mean {', '.join(near)}?" if near else "name it in hosts.yaml or in the SSH configuration"
            raise UnknownHost(
                f"no host {name!r}: neither hosts.yaml nor the SSH configuration nor DNS knows it", hint=hint
            )
        return Host(name, **self.defaults)

    def names(self) -> tuple[str, ...]:
        """All names that can be typed, for completion: hosts, groups, the SSH configuration's hosts."""
        return (*self.hosts, *(f"@{name}" for name in self.groups), *ssh_config.ssh_config_hosts())

    def to_document(self) -> dict[str, Any]:
        """The effective configuration as plain values."""
        return {
            "source": self.source,
            "default_host": self.default_host or "local",
            "hosts": {name: _plain(host) for name, host in self.hosts.items()},
            "groups": {name: list(members) for name, members in self.groups.items()},
        }


def _plain(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in fields(host):
        value = getattr(host, item.name)
        if item.name == "name" or value in (None, (), {}):
            continue
        if item.name == "data":
            value = {data.name: {data.kind: data.source, "mount": data.mount, "mode": data.mode} for data in value}
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, Mapping):
            value = dict(value)
            if not value:
                continue
        found[item.name] = value
    return found


def _split(pattern: str) -> list[str]:
    return [word for word in (part.strip() for part in pattern.split(",")) if word]


def _expand_range(word: str) -> list[str]:
    """``a-[1-3]`` → a-1, a-2, a-3; ``[01-12]`` keeps its zeros; several ranges multiply."""
    found = _RANGE.search(word)
    if found is None:
        return [word]
    low, high = int(found[1]), int(found[2])
    if low > high or high - low >= _MOST_IN_A_RANGE:
        raise UsageError(f"{found[0]} in {word!r} is no range", hint="[1-8]")
    width = len(found[1]) if found[1].startswith("0") else 0
    rest = _expand_range(word[found.end() :])
    return [f"{word[: found.start()]}{number:0{width}d}{tail}" for number in range(low, high + 1) for tail in rest]
