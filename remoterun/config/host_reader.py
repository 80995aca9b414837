"""One host of hosts.yaml (or its defaults): each key read and checked."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

from remoterun.config import destination, hops
from remoterun.config.yaml_nodes import Entry, Node, Reader
from remoterun.model.host import DataSource, Host, Keep

LOCAL = Host("local", transport="local", runtime="none")
DATA_KINDS = ("path", "upload", "sshfs", "rclone", "nfs")
RUNTIMES = ("auto", "docker", "podman", "none")
# Keys that say how SSH gets there: they mean nothing for this machine itself.
SSH_KEYS = ("address", "user", "port", "identity_file", "jump")

_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?\s*[bkmgtBKMGT]?")
_AGE = re.compile(r"[0-9]+\s*[smhdw]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
# What people write from memory of ssh_config and of other tools, less its underscores.
_MEANT = {
    "hostname": "address",
    "host": "address",
    "ip": "address",
    "username": "user",
    "login": "user",
    "identityfile": "identity_file",
    "identity": "identity_file",
    "key": "identity_file",
    "keyfile": "identity_file",
    "sshkey": "identity_file",
    "proxyjump": "jump",
    "proxy": "jump",
    "environment": "env",
    "variables": "env",
    "container": "image",
    "engine": "runtime",
    "interpreter": "python",
    "directory": "workdir",
    "shm": "shm_size",
    "volumes": "data",
    "mounts": "data",
}


def check_name(reader: Reader, node: Node, name: str, what: str) -> None:
    """Refuse a name of a host or group that -H would take for something else."""
    if not _HOST_NAME.fullmatch(name):
        reader.fail(
            node,
            f"{name!r} cannot name a {what}",
            "letters, digits, '.', '_' and '-'; @, [, * and commas have meanings of their own after -H",
        )
    if name == "any":
        reader.fail(node, f"'any' cannot name a {what}", "-H any means whichever host has the GPUs")


class HostReader(Reader):
    """Reads the mapping of a host, and that of the defaults."""

    def defaults(self, node: Node) -> dict[str, Any]:
        """The defaults: every key that is not of one machine alone, and ``host``."""
        keys = {key: read for key, read in self._keys().items() if key not in ("transport", "address", "tags")}
        meant = {word: key for word, key in _MEANT.items() if word != "host"}
        values = self.mapping(node, "defaults", ("host", *keys), meant=meant)
        found = {key: keys[key](entry.value, f"{key} in defaults") for key, entry in values.items() if key in keys}
        if "host" in values:
            found["host"] = self.word(values["host"].value, "host in defaults")
        return found

    def host(self, name: str, entry: Entry, defaults: Mapping[str, Any]) -> Host:
        """One host with the defaults laid under it."""
        check_name(self, entry.key, name, "host")
        keys = self._keys()
        values = self.mapping(entry.value, f"host {name}", tuple(keys), meant=_MEANT)
        found = {key: keys[key](value.value, f"{key} of {name}") for key, value in values.items()}
        if name == LOCAL.name:
            found.setdefault("transport", "local")
        if found.get("transport") == "local":
            for key in SSH_KEYS:
                if key in found:
                    self.fail(
                        values[key].key,
                        f"{key} means nothing for {name}, which is this machine itself (transport: local)",
                        "leave it out, or say transport: ssh",
                    )
        return merge(name, found, defaults)

    def _keys(self) -> dict[str, Callable[[Node, str], Any]]:
        """How each key is read."""
        return {
            "transport": lambda node, what: self.one_of(node, what, ("ssh", "local")),
            "address": self._address,
            "user": self.word,
            "port": lambda node, what: self.number(node, what, 1, 65535),
            "identity_file": self._local_file,
            "jump": self._jump,
            "gpus": lambda node, what: self.number(node, what, 0, 1024),
            "tags": self._tags,
            "env": self._env,
            "interface": self.word,
            "data": self._data,
            "runtime": lambda node, what: self.one_of(node, what, RUNTIMES),
            "image": self.word,
            "shm_size": lambda node, what: self.matching(node, what, _SIZE, "16g"),
            "workdir": self._workdir,
            "python": self.line,
            "setup": self.text,
            "path": lambda node, what: tuple(
                self._host_path(item, f"an entry of {what}") for item in self.items(node, what)
            ),
            "tmux": self.line,
            "keep": self._keep,
        }

    def _address(self, node: Node, what: str) -> str:
        text = self.word(node, what)
        bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        if destination.is_ipv6(bare):
            return bare
        try:
            found = destination.parse(text)
        except ValueError as error:
            self.fail(node, f"{what}: {error}")
        if found.user is not None or found.port is not None:
            self.fail(
                node, f"{what} is a name or an address alone, not {text!r}", "user and port are keys of their own"
            )
        return found.host

    def _jump(self, node: Node, what: str) -> str:
        text = self.line(node, what)
        for hop in hops.words(text):
            if hop.lower() != "none" or "," in text:
                try:
                    destination.parse(hop)
                except ValueError as error:
                    self.fail(node, f"{what}: {error}", "as in ProxyJump: [user@]host[:port], several by comma")
        return text

    def _tags(self, node: Node, what: str) -> tuple[str, ...]:
        tags = []
        for item in self.items(node, what):
            tag = self.word(item, f"an entry of {what}")
            check_name(self, item, tag, "tag")
            tags.append(tag)
        return tuple(tags)

    def _env(self, node: Node, what: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for name, entry in self.mapping(node, what).items():
            if not _VARIABLE.fullmatch(name):
                self.fail(entry.key, f"{name!r} is no name of an environment variable", "letters, digits and _")
            values[name] = self.environment_value(entry.value, name)
        return values

    def _keep(self, node: Node, what: str) -> Keep:
        values = self.mapping(node, what, ("count", "age", "bytes"))
        count, age, size = (values.get(key) for key in ("count", "age", "bytes"))
        return Keep(
            self.number(count.value, f"count of {what}", 0, 10**9 - 1) if count else None,
            self.matching(age.value, f"age of {what}", _AGE, "30d") if age else None,
            self.matching(size.value, f"bytes of {what}", _SIZE, "200g") if size else None,
        )

    def _workdir(self, node: Node, what: str) -> str:
        text = self._host_path(node, what)
        if posixpath.normpath(text) in ("/", "//", "~", "."):
            self.fail(
                node, f"{what} {text!r} would be the whole home folder or disk", "a folder of its own: ~/.remoterun"
            )
        return text

    def _host_path(self, node: Node, what: str) -> str:
        text = self.line(node, what)
        if not text.startswith(("/", "~/")) and text != "~":
            self.fail(node, f"{what} must begin with / or ~/, not be {text!r}", "it is a path on the host")
        return text

    def _local_file(self, node: Node, what: str) -> str:
        """A path on this machine; a relative one counts from the folder of hosts.yaml."""
        text = self.line(node, what)
        if text.startswith(("/", "~", "%", "$")):
            return text
        return os.path.normpath(os.path.join(self.file.absolute().parent, text))

    def _data(self, node: Node, what: str) -> tuple[DataSource, ...]:
        found: list[DataSource] = []
        variables: dict[str, str] = {}
        mounts: dict[str, str] = {}
        for name, entry in self.mapping(node, what).items():
            if not _DATA_NAME.fullmatch(name):
                self.fail(entry.key, f"{name!r} cannot name data", "letters, digits, _ and -")
            source = self._data_entry(name, entry)
            # REMOTERUN_DATA_<NAME> and the mount must each mean one thing in the job.
            variable = name.upper().replace("-", "_")
            for place, taken, key in (
                ("variable", variables, f"REMOTERUN_DATA_{variable}"),
                ("mount", mounts, source.mount),
            ):
                if key in taken:
                    self.fail(entry.key, f"data {name} and data {taken[key]} have the same {place}: {key}")
                taken[key] = name
            found.append(source)
        return tuple(found)

    def _data_entry(self, name: str, entry: Entry) -> DataSource:
        what = f"data {name}"
        values = self.mapping(entry.value, what, (*DATA_KINDS, "mount", "mode"))
        kinds = [kind for kind in DATA_KINDS if kind in values]
        if len(kinds) != 1:
            self.fail(entry.key, f"{what} needs exactly one of {', '.join(DATA_KINDS)}")
        kind, node = kinds[0], values[kinds[0]].value
        if kind == "path":
            source = self._host_path(node, f"path of {what}")
        elif kind == "upload":
            source = self._local_file(node, f"upload of {what}")
        else:
            source = self.line(node, f"{kind} of {what}")
            if not re.match(r"[^:/-].*:|\[", source):
                self.fail(node, f"{kind} of {what} must name a place there, such as store:/srv/x, not {source!r}")
        mount = f"/data/{name}"
        if "mount" in values:
            mount = self.line(values["mount"].value, f"mount of {what}")
            if not mount.startswith("/") or posixpath.normpath(mount) in ("/", "//"):
                self.fail(values["mount"].value, f"mount of {what} must be an absolute path below /, not {mount!r}")
            mount = "/" + posixpath.normpath(mount).lstrip("/")
        mode = self.one_of(values["mode"].value, f"mode of {what}", ("ro", "rw")) if "mode" in values else "ro"
        return DataSource(name, kind, source, mount, mode)


def merge(name: str, found: Mapping[str, Any], defaults: Mapping[str, Any]) -> Host:
    """A host from what stands at it and the defaults. ``env`` and ``data`` are joined by name; a default jump is
    not for the hosts it names; this machine itself takes nothing that is SSH's or of the hosts' hardware, and runs without a container
    where nobody says otherwise."""
    local = found.get("transport") == "local"
    not_here = (*SSH_KEYS, "gpus", "interface") if local else ()
    under = {key: value for key, value in defaults.items() if key not in not_here}
    if "jump" in under and name in (destination.parse(word).host for word in hops.words(under["jump"])):
        del under["jump"]
    merged = {**under, **found}
    merged["env"] = {**under.get("env", {}), **found.get("env", {})}
    sources = {source.name: source for source in (*under.get("data", ()), *found.get("data", ()))}
    merged["data"] = tuple(sources.values())
    if local:
        merged.setdefault("runtime", "none")
    return Host(name, **merged)
