"""The names that the user's SSH configuration has ``Host`` blocks for: to list, to complete, to suggest.

What a name means is never decided here: that is ``ssh -G``'s answer (:mod:`remoterun.config.ssh_config`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path

from remoterun.config import ssh_command

_SYSTEM_FILE = Path("/etc/ssh/ssh_config")
_KEYWORD = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")
_ARGUMENT = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(\S+))""")
_MOST_FILES = 1000


def ssh_config_hosts(file: Path | None = None) -> tuple[str, ...]:
    """Names that the configuration gives a ``Host`` block without wildcards, in its order, each once.

    Include is followed as OpenSSH follows it: relative to ~/.ssh (or /etc/ssh for the system's file), and only
    for hosts that the block around it applies to. With ``file`` only that one, as ``ssh -F`` reads it.
    """
    home = Path(ssh_command.home(), ".ssh")
    if file is not None:
        starts = [(file, home)]
    else:
        user = home / "config"
        if not user.is_file():
            # A wrapper of ssh that passes -F $HOME/.ssh/config, where $HOME is not the password file's.
            user = Path("~/.ssh/config").expanduser()
        starts = [(user, home), (_SYSTEM_FILE, _SYSTEM_FILE.parent)]
    names: dict[str, None] = {}
    for start, base in starts:
        walk = _Walk(base)
        names.update(dict.fromkeys(walk.names(start, (), ())))
    return tuple(names)


def known_in_ssh_config(name: str) -> bool:
    """Whether the configuration has a ``Host`` block for just this name."""
    return name in ssh_config_hosts()


@dataclass
class _Walk:
    """One way through a configuration and what it includes."""

    base: Path
    files_left: int = _MOST_FILES

    def names(self, file: Path, above: tuple[str, ...], around: tuple[tuple[str, ...], ...]) -> Iterator[str]:
        """``above``: the files that include this one; ``around``: the patterns of the Host blocks it stands in."""
        real = os.path.realpath(file)
        if real in above or self.files_left == 0:
            return
        self.files_left -= 1
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return
        block: tuple[str, ...] = ("*",)
        for line in text.split("\n"):
            found = _KEYWORD.match(line)
            keyword = found[1].lower() if found else ""
            if found is None or keyword not in ("host", "match", "include"):
                continue
            words = _arguments(found[2])
            if keyword == "host":
                block = tuple(words)
                for word in words:
                    if not set("*?!") & set(word) and all(_applies(word, patterns) for patterns in around):
                        yield word
            elif keyword == "match":
                # Its conditions are ssh's to judge; for a list of names they count as met.
                block = ("*",)
            else:
                for word in words:
                    for inner in self._included(word):
                        yield from self.names(inner, (*above, real), (*around, block))

    def _included(self, pattern: str) -> list[Path]:
        if pattern.startswith("~/"):
            pattern = os.path.join(self.base.parent, pattern[2:])
        return [Path(name) for name in sorted(glob(os.path.join(self.base, os.path.expanduser(pattern))))]


def _arguments(text: str) -> list[str]:
    """Words of a line: quotes hold blanks together, ``#`` begins a comment."""
    words: list[str] = []
    for found in _ARGUMENT.finditer(text):
        plain = found[3]
        if plain is not None and plain.startswith("#"):
            break
        quoted = found[1] if found[1] is not None else found[2]
        words.append(plain if plain is not None else re.sub(r"\\(.)", r"\1", quoted))
    return words


def _applies(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a Host line fits a name: one pattern does, and none that begins with ``!``."""
    # In ssh only * and ? are wild; fnmatch would also take brackets.
    fits = [pattern for pattern in patterns if fnmatchcase(name, pattern.lstrip("!").replace("[", "[[]"))]
    return bool(fits) and not any(pattern.startswith("!") for pattern in fits)
