"""What a project's files weigh, and what of it should perhaps stay at home. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# One file above this, or a first launch above that, is most often a mistake: bytes.
LARGE_FILE = 50 << 20
LARGE_SEND = 500 << 20


@dataclass(frozen=True, slots=True)
class Weight:
    """A file or folder of the top level: how many files, how many bytes."""

    name: str
    files: int
    bytes: int


def by_folder(sizes: Mapping[str, int]) -> tuple[Weight, ...]:
    """Top-level folders (``name/``) and files, the heaviest first."""
    files: dict[str, int] = {}
    weights: dict[str, int] = {}
    for path, size in sizes.items():
        first, slash, _ = path.partition("/")
        name = first + slash
        files[name] = files.get(name, 0) + 1
        weights[name] = weights.get(name, 0) + size
    found = [Weight(name, files[name], weights[name]) for name in files]
    return tuple(sorted(found, key=lambda weight: (-weight.bytes, weight.name)))


def ignore_lines(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Lines for .remoterunignore that would keep the heavy part at home: large files, and, where all of it is too
    much, the heaviest folder."""
    lines = [f"/{_escaped(path)}" for path, size in sizes.items() if size > LARGE_FILE]
    if not lines and sum(sizes.values()) > LARGE_SEND:
        lines = [f"/{_escaped(by_folder(sizes)[0].name)}"]
    return tuple(sorted(lines))


def _escaped(path: str) -> str:
    """A path as a pattern that means only itself (the syntax of .gitignore)."""
    for sign in "\\*?[":
        path = path.replace(sign, f"\\{sign}")
    return path[:-1] + "\\ " if path.endswith(" ") else path
