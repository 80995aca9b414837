"""Which files make up a project (field report B19), and which folders are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from remoterun.errors import UsageError
from remoterun.host.project import find_project, list_files


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "-q")
    put(
        made,
        "train.py",
        "data/big",
        "src/data/__init__.py",
        "scripts/entry.sh",
        "scripts/other.sh",
        "build/kept",
        "ü/n.txt",
        "sub/x.log",
    )
    (made / ".gitignore").write_text("/data/*\nscripts/*\n!scripts/entry.sh\nbuild/\n")
    (made / "sub" / ".gitignore").write_text("*.log\n")
    (made / ".git" / "info" / "exclude").write_text("excluded\n")
    put(made, "excluded")
    git(made, "add", "-f", "build/kept")
    return made


def test_the_set_is_gits_own(root: Path) -> None:
    listed = list_files(root)
    wanted = git(root, "ls-files", "-z", "-co", "--exclude-standard").split("\0")[:-1]
    assert listed.paths == tuple(sorted(wanted))
    assert {"train.py", "src/data/__init__.py", "scripts/entry.sh", "build/kept", "ü/n.txt"} <= set(listed.paths)
    assert not {"data/big", "scripts/other.sh", "excluded", "sub/x.log"} & set(listed.paths)
    assert listed.warnings == ()


def test_deleted_files_are_absent_and_the_ignore_file_takes_more_away(root: Path) -> None:
    git(root, "add", "-A")
    (root / "train.py").unlink()
    (root / ".remoterunignore").write_text("*.txt\n!keep.txt\n/src/\n")
    put(root, "keep.txt")
    paths = set(list_files(root).paths)
    assert not {"train.py", "ü/n.txt", "src/data/__init__.py"} & paths
    assert "keep.txt" in paths


def test_submodules_and_inner_repositories_come_along(root: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    put(inner, "lib.py", "junk.o")
    (inner / ".gitignore").write_text("*.o\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "x")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "vendor/inner")
    put(root, "vendor/inner/new.py", "vendor/inner/more.o")
    paths = set(list_files(root).paths)
    assert {"vendor/inner/lib.py", "vendor/inner/new.py"} <= paths
    assert "vendor/inner/more.o" not in paths


def test_without_git_the_usual_left_overs_stay_here(tmp_path: Path) -> None:
    put(tmp_path, "a.py", "pkg/b.py", "pkg/__pycache__/b.pyc", "env/pyvenv.cfg", "env/bin/python", "node_modules/x/y")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("pkg")
    assert list_files(tmp_path).paths == ("a.py", "empty/", "link", "pkg/b.py")


def test_a_damaged_index_is_told_and_all_is_sent(root: Path) -> None:
    (root / ".git" / "index").write_bytes(b"junk")
    listed = list_files(root)
    assert "git could not list" in listed.warnings[0]
    assert "data/big" in listed.paths
    assert not [path for path in listed.paths if path.startswith(".git/")]


def test_identity_commit_and_changes(root: Path, tmp_path: Path) -> None:
    first = find_project(root / "src")
    assert (first.root, first.folder, first.commit) == (str(root.resolve()), "src", None)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")
    assert find_project(root).dirty is False
    (root / "train.py").write_text("changed")
    second = find_project(root)
    assert second.dirty is True
    assert second.commit == git(root, "rev-parse", "HEAD").strip()
    # With a remote the project is the same on every laptop.
    git(root, "remote", "add", "origin", "git@example.invalid:me/it.git")
    clone = tmp_path / "elsewhere" / "repo"
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    git(clone, "remote", "add", "origin", "git@example.invalid:me/it.git")
    assert find_project(root).key == find_project(clone).key != first.key


def test_a_home_folder_is_no_project_unless_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("/")):
        with pytest.raises(UsageError, match="would send all of it"):
            find_project(folder)
    assert find_project(tmp_path, force=str(tmp_path)).root == str(tmp_path)
