"""YAML as nodes that know where they stand, and readers of the plain kinds of value. Errors name file:line:column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from remoterun.errors import ConfigError

# A yaml.Node; yaml is imported only when there is a file to read, and its annotations do not know the kinds.
Node = Any

_TAG = "tag:yaml.org,2002:"
# Kinds that YAML finds by itself, or that text may be called outright.
_TAGS = {_TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "map", "seq")}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST = 1 << 20
# What the sign at which YAML stumbled calls for.
_HINTS = {"\t": "indent with spaces: YAML takes no tabs", **dict.fromkeys("@`%*", "put it in quotes")}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a mapping: where its key stands, and its value."""

    key: Node
    value: Node


def compose(file: Path) -> Node | None:
    """The root node of a file, None for an empty one. Raises ConfigError."""
    import yaml

    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise ConfigError(f"{file}: {len(data)} bytes is too large for a list of hosts (at most {_LARGEST})")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise ConfigError(
            f"{file}:{line}:{column}: this byte (0x{data[error.start]:02x}) is not UTF-8", hint="save the file as UTF-8"
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        rest = text[mark.index :] if mark else ""
        hint = _HINTS.get(rest[:1], "")
        said = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{where}: {said or 'this is not YAML'}", hint=hint) from None
    except yaml.reader.ReaderError as error:
        # Its position counts characters of the whole text.
        place = text[: error.position]
        where = f"{file}:{place.count(chr(10)) + 1}:{len(place) - (place.rfind(chr(10)) + 1) + 1}"
        raise ConfigError(f"{where}: {error.reason}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{file}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file}: brackets are nested too deep") from None


def is_null(node: Node) -> bool:
    """Whether nothing (or ``null``) is written there."""
    return bool(node.id == "scalar" and node.tag == f"{_TAG}null")


class Reader:
    """Turns nodes into values; knows the file's name for its errors. ``what`` names the value for people."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def fail(self, node: Node, text: str, hint: str = "") -> NoReturn:
        """Raise ConfigError at a node's place."""
        mark = node.start_mark
        raise ConfigError(f"{self.file}:{mark.line + 1}:{mark.column + 1}: {text}", hint=hint)

    def mapping(
        self, node: Node, what: str, known: tuple[str, ...] | None = None, *, meant: dict[str, str] | None = None
    ) -> dict[str, Entry]:
        """A mapping's entries by key; ``known`` keys only, where given. Nothing written is an empty mapping.

        ``meant`` are words that people take for a known key.
        """
        if is_null(node):
            return {}
        if node.id != "mapping":
            self.fail(node, f"{what} must be a mapping (lines of `key: value`)")
        self._check_tag(node, what)
        found: dict[str, Entry] = {}
        for key, value in node.value:
            if key.id != "scalar":
                self.fail(key, f"a key of {what} must be a word")
            name = str(key.value)
            if key.tag == f"{_TAG}merge":
                self.fail(key, "merge keys (<<) are not read here", "what hosts share goes into defaults")
            if name in found:
                first = found[name].key.start_mark
                self.fail(key, f"{name!r} stands twice in {what}", f"the first is in line {first.line + 1}")
            if known is not None and name not in known:
                self.fail(key, f"unknown key {name!r} in {what}", _nearest(name, known, meant or {}))
            found[name] = Entry(key, value)
        return found

    def text(self, node: Node, what: str) -> str:
        """One value, as it is written. Never empty."""
        if node.id != "scalar":
            self.fail(node, f"{what} must be one value, not a {'list' if node.id == 'sequence' else 'mapping'}")
        self._check_tag(node, what)
        if not node.value or is_null(node):
            self.fail(node, f"{what} is empty")
        if "\0" in node.value:
            self.fail(node, f"{what} holds a zero byte")
        return str(node.value)

    def line(self, node: Node, what: str) -> str:
        """A text in one line."""
        text = self.text(node, what)
        if _CONTROL.search(text):
            self.fail(node, f"{what} must be one line without control characters, not {text!r}")
        return text

    def word(self, node: Node, what: str) -> str:
        """A text without blanks that no program takes for an option."""
        text = self.line(node, what)
        if re.search(r"\s", text):
            self.fail(node, f"{what} must be one word, not {text!r}")
        if text.startswith("-"):
            self.fail(node, f"{what} must not begin with a dash, as {text!r} does")
        return text

    def number(self, node: Node, what: str, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        text = self.text(node, what)
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            self.fail(node, f"{what} must be a number from {low} to {high}, not {text!r}")
        return int(text)

    def one_of(self, node: Node, what: str, words: tuple[str, ...]) -> str:
        """One of a few words."""
        text = self.text(node, what)
        if text not in words:
            near = get_close_matches(text, words, 1)
            hint = f"did you mean {near[0]!r}?" if near else ""
            self.fail(node, f"{what} is one of {', '.join(words)}, not {text!r}", hint)
        return text

    def items(self, node: Node, what: str) -> list[Node]:
        """A list's nodes; one value alone is a list of one."""
        if node.id == "scalar" and not is_null(node):
            return [node]
        if node.id != "sequence":
            self.fail(node, f"{what} must be a list such as [a, b]")
        self._check_tag(node, what)
        return list(node.value)

    def matching(self, node: Node, what: str, pattern: re.Pattern[str], example: str) -> str:
        """A text of a given form."""
        text = self.text(node, what)
        if not pattern.fullmatch(text):
            self.fail(node, f"{what} must be such as {example}, not {text!r}")
        return text

    def environment_value(self, node: Node, name: str) -> str:
        """A variable's value: a text (an empty one in quotes too) or a number, as it is written."""
        if node.id != "scalar":
            self.fail(node, f"{name} must be one value, not a {'list' if node.id == 'sequence' else 'mapping'}")
        self._check_tag(node, name)
        if is_null(node):
            self.fail(node, f"{name} has no value", f'an empty one is written {name}: "", the word null "null"')
        if node.tag == f"{_TAG}bool":
            self.fail(node, f"{name}: YAML reads {node.value} as true or false", f'put it in quotes: "{node.value}"')
        if "\0" in node.value:
            self.fail(node, f"{name} holds a zero byte")
        return str(node.value)

    def _check_tag(self, node: Node, what: str) -> None:
        if node.tag not in _TAGS:
            self.fail(node, f"{what}: the tag {node.tag.replace(_TAG, '!!')} is not read here")


def _nearest(name: str, known: tuple[str, ...], meant: dict[str, str]) -> str:
    plain = name.lower().replace("-", "_")
    if meant.get(plain.replace("_", "")) in known:
        return f"did you mean {meant[plain.replace('_', '')]!r}?"
    near = get_close_matches(plain, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
