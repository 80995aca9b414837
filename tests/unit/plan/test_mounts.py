"""Which mounts the words of --data come to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from remoterun.errors import UsageError
from remoterun.model.host import DataSource, Host, Mount
from remoterun.plan import shell
from remoterun.plan.mounts import choose_mounts, unbound

HOST = Host(
    "h",
    data=(
        DataSource("my-corpus", "path", "~/it's here", "/workspace/data"),
        DataSource("shards", "upload", "/shards", "/workspace/shards"),
    ),
)


def test_names_and_paths() -> None:
    found = choose_mounts(["my-corpus", "/a//b/:/x/My Set!:rw"], HOST, "/home/u")
    assert found == (
        Mount("my-corpus", "/home/u/it's here", "/workspace/data", "ro"),
        Mount("My_Set_", "/a/b", "/x/My Set!", "rw"),
    )
    assert [mount.variable for mount in found] == ["REMOTERUN_DATA_MY_CORPUS", "REMOTERUN_DATA_MY_SET_"]


def test_only_another_place_is_worth_a_word() -> None:
    assert unbound(choose_mounts(["/a:/a"], HOST, "/home/u")) == ()
    assert "/a" in unbound(choose_mounts(["/a:/b"], HOST, "/home/u"))[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["my-corpsu"], "my-corpsu"),
        (["shards"], "kind upload"),
        (["data:/x"], "no path on the host"),
        (["store:/srv/x:/x"], "neither NAME nor"),
        (["/a:/"], "below /"),
        (["/a:x"], "below /"),
        (["/a:/b:rx"], "neither NAME nor"),
        (["/a:"], "below /"),
        (["/a\n:/b"], "neither NAME nor"),
        (["/a:/x/b", "/c:/y/b"], "REMOTERUN_DATA_B"),
        (["/a:/x/b", "my-corpus", "/c:/workspace/data"], "/workspace/data"),
    ],
)
def test_what_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose_mounts(words, HOST, "/home/u")


@pytest.mark.parametrize("sh", ["dash", "bash", "busybox sh"])
def test_data_that_is_not_there_ends_the_script(tmp_path: Path, sh: str) -> None:
    def run(path: Path, mode: str) -> tuple[int, str]:
        text = shell.data_check("d", str(path), mode) + "echo on\n"
        done = subprocess.run([*sh.split(), "-c", text], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    full, empty = tmp_path / "it's $full", tmp_path / "-e\nmpty"
    full.mkdir()
    (full / ".hidden").touch()
    empty.mkdir()
    assert run(full, "ro") == (0, "on\n")
    assert run(full / ".hidden", "ro") == (0, "on\n")
    assert run(empty, "rw") == (0, "on\n")
    code, said = run(empty, "ro")
    assert (code, "is empty: is it mounted?" in said) == (126, True)
    code, said = run(tmp_path / "gone", "rw")
    assert (code, "gone is not there" in said) == (126, True)
