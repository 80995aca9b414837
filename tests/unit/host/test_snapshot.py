"""Trees, their differences, and the payload that carries one."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remoterun.errors import HostError
from remoterun.host.snapshot import (
    ChangedWhileRead,
    Entry,
    HashCache,
    Payload,
    Tree,
    decode_manifest,
    difference,
    read_tree,
)
from remoterun.plan.launch import PlanFile


def tree_of(root: Path, *names: str) -> Tree:
    return read_tree(root, names, HashCache(root.parent / "cache.bin"))


def test_content_mode_and_links_make_the_id(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    (root / "a").write_text("x")
    (root / "l").symlink_to("nowhere")
    first = tree_of(root, "a", "l").id
    assert tree_of(root, "a", "l").id == first
    (root / "a").chmod(0o755)
    second = tree_of(root, "a", "l").id
    (root / "l").unlink()
    (root / "l").symlink_to("elsewhere")
    third = tree_of(root, "a", "l").id
    (root / "a").write_text("y")
    assert len({first, second, third, tree_of(root, "a", "l").id}) == 4


def test_a_file_changed_within_its_time_stamp_is_seen(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    file = root / "a"
    file.write_text("one")
    old = file.stat()
    first = tree_of(root, "a").id
    file.write_text("two")
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert tree_of(root, "a").id != first


def test_the_cache_saves_the_reading(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    file = root / "a"
    file.write_text("one")
    os.utime(file, (1, 1))
    first = tree_of(root, "a").id
    inode = file.stat().st_ino
    # Same size, time and inode: by all signs unchanged, so it is not read.
    with open(file, "r+") as target:
        target.write("two")
    os.utime(file, (1, 1))
    assert file.stat().st_ino == inode
    assert tree_of(root, "a").id == first


def test_odd_files_are_named_not_sent(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    os.mkfifo(root / "pipe")
    tree = tree_of(root, "pipe", "gone")
    assert tree.entries == {}
    assert "pipe" in tree.skipped[0]


NAMES = st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=3).map(b"/".join)
ENTRIES = st.sampled_from(
    [Entry("f", 0o644, 1, b"1"), Entry("f", 0o755, 1, b"1"), Entry("f", 0o644, 1, b"2"), Entry("l", 0o777, 0, b"t")]
)


def valid(entries: dict[bytes, Entry]) -> bool:
    """No name is both a file and a folder."""
    return not any(other.startswith(name + b"/") for name in entries for other in entries)


TREES = st.dictionaries(NAMES, ENTRIES, max_size=6).filter(valid)


@given(TREES, TREES)
def test_a_difference_turns_one_tree_into_the_other(old: dict[bytes, Entry], new: dict[bytes, Entry]) -> None:
    change = difference(old, new)
    held = dict(old)
    for gone in change.remove:
        held = {name: entry for name, entry in held.items() if name != gone and not name.startswith(gone + b"/")}
    for name in change.send:
        assert name not in held, "a file that is sent must not meet another: it may be a hard link"
        held[name] = new[name]
    assert held == new
    folders = {name.rsplit(b"/", 1)[0] for name in old if b"/" in name}
    alive = {name[: len(folder)] for folder in folders for name in new if name.startswith(folder + b"/")}
    assert folders - alive <= set(change.remove) | alive


def test_payload_holds_just_what_is_missing(tmp_path: Path) -> None:
    root = tmp_path / "it's $a (v2)"
    root.mkdir()
    odd = os.fsdecode(b"na\xefve \n'q")
    (root / odd).write_text("new")
    (root / "old").write_text("old")
    (root / "link").symlink_to("/no/such")
    tree = tree_of(root, odd, "old", "link")
    base = {b"old": tree.entries[b"old"], b"gone": Entry("f", 0o644, 1, b"1")}
    payload = Payload(root, tree, difference(base, tree.entries), [PlanFile("run.sh", "x\n", 0o700)])
    data = b"".join(payload.pieces())
    assert len(data) == payload.size
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz", errors="surrogateescape") as tar:
        names = tar.getnames()
        assert names[-1] == "whole"
        assert {name for name in names if name.startswith("tree/")} == {f"tree/{odd}", "tree/link"}
        removed = tar.extractfile("removed")
        assert removed is not None
        assert removed.read() == b"gone\0"
        manifest = tar.extractfile("manifest")
        assert manifest is not None
        assert decode_manifest(manifest.read()) == tree.entries
        assert tar.getmember("job/run.sh").mode == 0o700


@pytest.mark.parametrize("text", ["longer than it was", "sh", "diff"])
def test_a_file_that_changes_meanwhile_is_noticed(tmp_path: Path, text: str) -> None:
    root = tmp_path / "p"
    root.mkdir()
    (root / "a").write_text("same")
    tree = tree_of(root, "a")
    (root / "a").write_text(text)
    with pytest.raises(ChangedWhileRead):
        Payload(root, tree, difference({}, tree.entries), [])


@given(st.binary(max_size=200))
@settings(max_examples=50)
def test_a_damaged_manifest_is_an_error(data: bytes) -> None:
    with pytest.raises(HostError):
        decode_manifest(data)
