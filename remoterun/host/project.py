"""The local project: its root, its identity, what git says of it, and which files make it up."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from remoterun.errors import UsageError
from remoterun.model.job import Project

# Left out of a project that git does not describe (and always, by git's own nature: .git).
LEFT_OUT = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".tox",
        ".nox",
        "node_modules",
        ".venv",
        "venv",
        ".DS_Store",
        "wandb",
        ".remoterun",
    ]
)
IGNORE_FILE = ".remoterunignore"
# What `pull` leaves in a folder that it filled: such a folder does not go back with the next launch.
PULLED = ".remoterun-pulled"


@dataclass(frozen=True, slots=True)
class FileList:
    """Relative paths (with surrogates for bytes that are no UTF-8), and what to tell the user about them."""

    paths: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def find_project(folder: Path, *, force: str | None = None) -> Project:
    """The git repository around ``folder``, else the folder itself.

    Raises UsageError when that is a home folder or ``/`` and ``force`` does not name it.
    """
    folder = folder.resolve()
    top = _git(folder, "rev-parse", "--show-toplevel")
    root = Path(top) if top else folder
    named = force is not None and Path(force).expanduser().resolve() == root
    if root in (Path(root.anchor), Path.home().resolve()) and not named:
        raise UsageError(
            f"{root} as a project would send all of it",
            hint=f"cd into the project's own folder, or insist with --force-project {root}",
        )
    remote = _git(root, "config", "--get", "remote.origin.url") if top else ""
    identity = f"remote {remote}" if remote else f"folder {socket.gethostname()} {root}"
    key = f"{_plain(root.name)}-{hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]}"
    relative = folder.relative_to(root)
    return Project(
        key=key,
        name=root.name,
        root=str(root),
        folder="" if relative == Path() else str(relative),
        commit=_git(root, "rev-parse", "--verify", "-q", "HEAD") or None if top else None,
        branch=_git(root, "symbolic-ref", "-q", "--short", "HEAD") or None if top else None,
        dirty=bool(_git(root, "status", "--porcelain", "--untracked-files=no")) if top else None,
    )


def list_files(root: Path) -> FileList:
    """What git would list (``ls-files -co --exclude-standard``, submodules too), else all but the usual
    leftovers; less what ``.remoterunignore`` names (same syntax as .gitignore), and folders that `pull` filled."""
    warnings: list[str] = []
    paths: Iterable[str] | None = None
    if _git(root, "rev-parse", "--show-toplevel"):
        paths = _git_files(root, warnings)
    if paths is None:
        paths = _walk(root)
    kept = _without_ignored(root, _without_pulled(paths))
    return FileList(tuple(sorted(set(kept))), tuple(warnings))


def _git_files(root: Path, warnings: list[str]) -> Sequence[str] | None:
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        warnings.append(
            f"git could not list {root} ({said[-1] if said else 'no reason given'}); "
            f"all of its files are sent but for {', '.join(sorted(LEFT_OUT))}"
        )
        return None
    found: list[str] = []
    for path in os.fsdecode(done.stdout).split("\0"):
        full = root / path
        if not path:
            continue
        # git lists a submodule, and a repository inside this one, as a folder.
        if full.is_dir() and not full.is_symlink():
            inner = _git_files(full, warnings)
            found += [f"{path.rstrip('/')}/{name}" for name in (inner if inner is not None else _walk(full))]
        elif os.path.lexists(full):
            found.append(path)
    return found


def _walk(root: Path) -> Iterator[str]:
    """Every file under ``root`` but the usual leftovers; virtual environments are known by their pyvenv.cfg."""
    for folder, folders, names in os.walk(root):
        here = os.path.relpath(folder, root)
        prefix = "" if here == "." else f"{here}/"
        kept = []
        for name in sorted(folders):
            full = os.path.join(folder, name)
            if os.path.islink(full):
                yield prefix + name
            elif name not in LEFT_OUT and not os.path.exists(os.path.join(full, "pyvenv.cfg")):
                kept.append(name)
        folders[:] = kept
        if not kept and not names and prefix:
            yield prefix
        for name in names:
            if name not in LEFT_OUT and not name.endswith(".pyc"):
                yield prefix + name


def _without_pulled(paths: Iterable[str]) -> Iterable[str]:
    """Without the folders that `pull` filled."""
    found = list(paths)
    folders = tuple(path.removesuffix(PULLED) for path in found if path.endswith(f"/{PULLED}"))
    return [path for path in found if path != PULLED and not (folders and path.startswith(folders))]


def _without_ignored(root: Path, paths: Iterable[str]) -> Iterable[str]:
    rules = root / IGNORE_FILE
    if not rules.is_file():
        return paths
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(rules.read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    return [path for path in paths if not spec.match_file(path)]


def _git(folder: Path, *arguments: str) -> str:
    """One answer of git's, or "" where it has none (no repository, no git)."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        return ""
    return os.fsdecode(done.stdout).rstrip("\n") if done.returncode == 0 else ""


def _plain(name: str) -> str:
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "-" for sign in name)
    return kept.lstrip(".-")[:40] or "project"
