"""hosts.yaml: found, read, checked. Every error names file, line, column and the nearest known key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from remoterun.errors import ConfigError
from remoterun.model.host import DataSource, Host

# A yaml.Node; its annotations do not know the attributes of its kinds.
Node = Any

FILE_NAME = "hosts.yaml"
LOCAL = Host("local", transport="local", runtime="none")
DATA_KINDS = ("path", "upload", "sshfs", "rclone", "nfs")
RUNTIMES = ("auto", "docker", "podman", "none")
_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SIZE = re.compile(r"\d+(\.\d+)?\s*[bkmgtBKMGT]?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class HostsFile:
    """What hosts.yaml says, checked. ``default_host`` is what launch takes without -H."""

    hosts: Mapping[str, Host] = field(default_factory=lambda: {"local": LOCAL})
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_host: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None


def find(explicit: str | None, environ: Mapping[str, str], folder: Path, user_folder: Path) -> Path | None:
    """The file, by contract §4: named, ``$REMOTERUN_HOSTS``, here and above up to the repository root, the
    user's configuration folder. Raises ConfigError when a named one is not there."""
    named = explicit or environ.get("REMOTERUN_HOSTS")
    if named:
        file = Path(named).expanduser()
        if not file.is_file():
            origin = "--hosts-file" if explicit else "$REMOTERUN_HOSTS"
            raise ConfigError(f"{named}, which {origin} names, is not a file", hint="remoterun init writes one")
        return file
    for place in (folder, *folder.parents):
        if (place / FILE_NAME).is_file():
            return place / FILE_NAME
        if (place / ".git").exists():
            break
    file = user_folder / FILE_NAME
    return file if file.is_file() else None


def read(file: Path) -> HostsFile:
    """The file's content. Raises ConfigError with file:line:column."""
    import yaml

    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: byte {error.start} is not UTF-8") from None
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        hint = "indent with spaces" if "\t" in text else ""
        raise ConfigError(f"{where}: {error.problem or 'not YAML'}", hint=hint) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{file}: {error}") from None
    return _Reader(file).document(root)


class _Reader:
    """Turns nodes into values; knows the file's name for its errors."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def fail(self, node: Node, text: str, hint: str = "") -> NoReturn:
        mark = node.start_mark
        raise ConfigError(f"{self.file}:{mark.line + 1}:{mark.column + 1}: {text}", hint=hint)

    def document(self, root: Node | None) -> HostsFile:
        if root is None:
            return HostsFile(source=str(self.file))
        top = self.mapping(root, "hosts.yaml", ("defaults", "hosts", "groups", "keep"))
        defaults = self.defaults(top["defaults"]) if "defaults" in top else {}
        default_host = defaults.pop("host", None)
        hosts: dict[str, Host] = {}
        if "hosts" in top:
            for name, node in self.mapping(top["hosts"], "hosts", None).items():
                hosts[name] = self.host(name, node, top["hosts"], defaults)
        hosts.setdefault("local", LOCAL)
        groups = self.groups(top["groups"], hosts) if "groups" in top else {}
        return HostsFile(hosts, groups, default_host, defaults, str(self.file))

    def mapping(self, node: Node, what: str, known: tuple[str, ...] | None) -> dict[str, Node]:
        """A mapping's nodes by key; ``known`` keys only, where given. An empty value is an empty mapping."""
        if node.id == "scalar" and node.value in ("", "~", "null"):
            return {}
        if node.id != "mapping":
            self.fail(node, f"{what} must be a mapping (key: value lines)")
        found: dict[str, Node] = {}
        for key, value in node.value:
            name = key.value if key.id == "scalar" else None
            if not isinstance(name, str):
                self.fail(key, f"a key of {what} must be a word")
            if name in found:
                self.fail(key, f"{name!r} stands twice in {what}")
            if known is not None and name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
                self.fail(key, f"unknown key {name!r} in {what}", hint)
            found[name] = value
        return found

    def text(self, node: Node, what: str) -> str:
        if node.id != "scalar":
            self.fail(node, f"{what} must be one word or line")
        if not node.value:
            self.fail(node, f"{what} is empty")
        return str(node.value)

    def number(self, node: Node, what: str, low: int, high: int) -> int:
        text = self.text(node, what)
        if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
            self.fail(node, f"{what} must be a number from {low} to {high}, not {text!r}")
        return int(text)

    def one_of(self, node: Node, what: str, words: tuple[str, ...]) -> str:
        text = self.text(node, what)
        if text not in words:
            near = get_close_matches(text, words, 1)
            self.fail(
                node, f"{what} is one of {', '.join(words)}, not {text!r}", f"did you mean {near[0]!r}?" if near else ""
            )
        return text

    def words(self, node: Node, what: str) -> tuple[str, ...]:
        if node.id == "scalar":
            return (self.text(node, what),)
        if node.id != "sequence":
            self.fail(node, f"{what} must be a list")
        return tuple(self.text(item, f"an entry of {what}") for item in node.value)

    def env(self, node: Node, what: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for key, value in self.mapping(node, what, None).items():
            if not _VARIABLE.fullmatch(key):
                self.fail(value, f"{key!r} is no name of an environment variable")
            if value.id != "scalar":
                self.fail(value, f"{key} must be one value")
            if value.tag.endswith(":bool"):
                self.fail(
                    value, f"{key}: YAML reads {value.value} as true or false", f'put it in quotes: "{value.value}"'
                )
            values[key] = str(value.value)
        return values

    def size(self, node: Node, what: str) -> str:
        text = self.text(node, what)
        if not _SIZE.fullmatch(text):
            self.fail(node, f"{what} must be a size such as 16g, not {text!r}")
        return text

    def data(self, node: Node, what: str) -> tuple[DataSource, ...]:
        found = []
        for name, entry in self.mapping(node, what, None).items():
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                self.fail(entry, f"{name!r} cannot name data", "letters, digits, _ and -")
            values = self.mapping(entry, f"data {name}", (*DATA_KINDS, "mount", "mode"))
            kinds = [kind for kind in DATA_KINDS if kind in values]
            if len(kinds) != 1:
                self.fail(entry, f"data {name} needs exactly one of {', '.join(DATA_KINDS)}")
            kind = kinds[0]
            source = self.text(values[kind], f"{kind} of data {name}")
            mount = self.text(values["mount"], f"mount of data {name}") if "mount" in values else f"/data/{name}"
            if not mount.startswith("/"):
                self.fail(values["mount"], f"mount of data {name} must be an absolute path, not {mount!r}")
            mode = self.one_of(values["mode"], f"mode of data {name}", ("ro", "rw")) if "mode" in values else "ro"
            found.append(DataSource(name, kind, source, mount, mode))
        return tuple(found)

    def fields(self) -> dict[str, Callable[[Node, str], Any]]:
        """How each key of a host (and, but for those of one machine, of the defaults) is read."""
        return {
            "transport": lambda node, what: self.one_of(node, what, ("ssh", "local")),
            "address": self.text,
            "user": self.text,
            "port": lambda node, what: self.number(node, what, 1, 65535),
            "identity_file": self.text,
            "jump": self.text,
            "gpus": lambda node, what: self.number(node, what, 0, 1024),
            "tags": self.words,
            "env": self.env,
            "interface": self.text,
            "data": self.data,
            "runtime": lambda node, what: self.one_of(node, what, RUNTIMES),
            "image": self.text,
            "shm_size": self.size,
            "workdir": self.workdir,
            "python": self.text,
            "setup": self.text,
            "path": self.words,
            "tmux": self.text,
        }

    def workdir(self, node: Node, what: str) -> str:
        text = self.text(node, what)
        if not text.startswith(("/", "~/", "~")) or (text.startswith("~") and text[1:2] not in ("", "/")):
            self.fail(node, f"{what} must begin with / or ~/, not be {text!r}")
        if text.rstrip("/") in ("", "~"):
            self.fail(
                node, f"{what} {text!r} would be the whole home folder or disk", "a folder of its own: ~/.remoterun"
            )
        return text

    def defaults(self, node: Node) -> dict[str, Any]:
        of_one_machine = ("transport", "address", "gpus", "tags", "interface")
        fields = {key: read for key, read in self.fields().items() if key not in of_one_machine}
        values = self.mapping(node, "defaults", ("host", *fields))
        found = {key: fields[key](value, f"{key} in defaults") for key, value in values.items() if key != "host"}
        if "host" in values:
            found["host"] = self.text(values["host"], "host in defaults")
        return found

    def host(self, name: str, node: Node, place: Node, defaults: Mapping[str, Any]) -> Host:
        if not _HOST_NAME.fullmatch(name):
            where = next(key for key, _ in place.value if key.value == name)
            self.fail(
                where,
                f"{name!r} cannot name a host",
                "letters, digits, '.', '_' and '-'; @, [ and * have meanings of their own",
            )
        fields = self.fields()
        values = self.mapping(node, f"host {name}", tuple(fields))
        found = {key: fields[key](value, f"{key} of {name}") for key, value in values.items()}
        merged = {**defaults, **found}
        merged["env"] = {**defaults.get("env", {}), **found.get("env", {})}
        if found.get("transport") == "local" and "runtime" not in merged:
            merged["runtime"] = "none"
        return Host(name, **merged)

    def groups(self, node: Node, hosts: Mapping[str, Host]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, members in self.mapping(node, "groups", None).items():
            if not _HOST_NAME.fullmatch(name):
                self.fail(members, f"{name!r} cannot name a group")
            names = self.words(members, f"group {name}")
            for member in names:
                if member not in hosts and not set("*[@").intersection(member):
                    near = get_close_matches(member, hosts, 1)
                    self.fail(
                        members, f"group {name}: no host {member!r}", f"did you mean {near[0]!r}?" if near else ""
                    )
            found[name] = names
        return found
