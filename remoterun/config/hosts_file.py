"""hosts.yaml: found, read, checked. Every error names file, line, column and the nearest known key."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from remoterun.config import destination, hops, selection, ssh_names, yaml_nodes
from remoterun.config.host_reader import LOCAL, HostReader, check_name, merge
from remoterun.config.yaml_nodes import Entry, Node
from remoterun.errors import ConfigError, UsageError
from remoterun.model.host import Host

FILE_NAME = "hosts.yaml"


@dataclass(frozen=True)
class HostsFile:
    """What hosts.yaml says, checked. ``default_host`` is what launch takes without -H; ``defaults`` are fields of
    Host for names that stand only in the SSH configuration."""

    hosts: Mapping[str, Host] = field(default_factory=lambda: {LOCAL.name: LOCAL})
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_host: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None


def find(explicit: str | None, environ: Mapping[str, str], folder: Path, user_folder: Path) -> Path | None:
    """The file, by contract §4: named, ``$REMOTERUN_HOSTS``, here and above up to the repository root, the
    user's configuration folder. Outside a repository only this folder is looked into: a file further up is
    somebody else's. Raises ConfigError when a named one is not there."""
    named = explicit or environ.get("REMOTERUN_HOSTS")
    if named:
        file = Path(named).expanduser()
        if not _is_file(file):
            origin = "--hosts-file" if explicit else "$REMOTERUN_HOSTS"
            what = "is no file" if os.path.lexists(file) else "is not there"
            raise ConfigError(f"{named}, which {origin} names, {what}", hint="remoterun init writes one")
        return file
    places = [folder, *folder.parents]
    root = next((number for number, place in enumerate(places) if os.path.lexists(place / ".git")), 0)
    for place in (*places[: root + 1], user_folder):
        if _is_file(place / FILE_NAME):
            return place / FILE_NAME
    return None


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:
        # A folder on the way that may not be searched.
        return False


def read(file: Path) -> HostsFile:
    """The file's content. Raises ConfigError with file:line:column."""
    root = yaml_nodes.compose(file)
    return _Document(file).read(root) if root is not None else HostsFile(source=str(file))


class _Document(HostReader):
    """The file as a whole."""

    def read(self, root: Node) -> HostsFile:
        top = self.mapping(root, "hosts.yaml", ("defaults", "hosts", "groups"))
        defaults = self.defaults(top["defaults"].value) if "defaults" in top else {}
        default_host = defaults.pop("host", None)
        entries = self.mapping(top["hosts"].value, "hosts") if "hosts" in top else {}
        hosts = {name: self.host(name, entry, defaults) for name, entry in entries.items()}
        if LOCAL.name not in hosts:
            # The same as though the contract's line for it stood there.
            hosts = {LOCAL.name: merge(LOCAL.name, {"transport": "local", "runtime": "none"}, defaults), **hosts}
        hosts |= {name: self._with_hops(hosts[name], hosts, entry) for name, entry in entries.items()}
        groups = self._groups(top["groups"].value, hosts) if "groups" in top else {}
        return HostsFile(hosts, groups, default_host, defaults, str(self.file))

    def _with_hops(self, host: Host, hosts: Mapping[str, Host], entry: Entry) -> Host:
        try:
            return hops.fill(host, hosts)
        except ValueError as error:
            self.fail(entry.key, str(error))

    def _groups(self, node: Node, hosts: Mapping[str, Host]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        entries = self.mapping(node, "groups")
        tags = {tag for host in hosts.values() for tag in host.tags}
        for name, entry in entries.items():
            check_name(self, entry.key, name, "group")
            members = []
            for item in self.items(entry.value, f"group {name}"):
                member = self.line(item, f"a member of group {name}")
                self._check_member(name, item, member, hosts, {*entries, *tags})
                members.append(member)
            found[name] = tuple(members)
        sound: set[str] = set()
        for name, entry in entries.items():
            self._check_circle(name, entry, found, (), sound)
        return found

    def _check_member(self, group: str, node: Node, member: str, hosts: Mapping[str, Host], groups: set[str]) -> None:
        """A member is whatever -H takes; names must be known here or to the SSH configuration."""
        try:
            words = [word for part in selection.split(member) for word in selection.expand_range(part)]
        except UsageError as error:
            self.fail(node, f"group {group}: {error.message}", error.hint)
        for word in words:
            if word.startswith("@"):
                if word[1:] not in groups:
                    near = get_close_matches(word[1:], groups, 1)
                    self.fail(node, f"group {group}: no group or tag {word!r}", _did_you_mean(near, "@"))
            elif word not in hosts and not selection.is_glob(word) and not destination.looks_like_one(word):
                known = self._ssh_names
                if word not in known:
                    near = get_close_matches(word, [*hosts, *known], 1)
                    self.fail(
                        node,
                        f"group {group}: no host {word!r} in this file or in the SSH configuration",
                        _did_you_mean(near, ""),
                    )

    @functools.cached_property
    def _ssh_names(self) -> tuple[str, ...]:
        return ssh_names.ssh_config_hosts()

    def _check_circle(
        self,
        name: str,
        entry: Entry,
        groups: Mapping[str, tuple[str, ...]],
        above: tuple[str, ...],
        sound: set[str],
    ) -> None:
        """``sound`` are groups already looked through: each is looked through once, however often it is named."""
        if name in sound:
            return
        if name in above:
            self.fail(entry.key, f"group {name} is a member of itself: {' → '.join((*above, name))}")
        for member in groups.get(name, ()):
            for word in selection.split(member):
                if word.startswith("@") and word[1:] in groups:
                    self._check_circle(word[1:], entry, groups, (*above, name), sound)
        sound.add(name)


def _did_you_mean(near: list[str], sign: str) -> str:
    return f"did you mean {sign + near[0]!r}?" if near else ""
