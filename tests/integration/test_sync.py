"""The sync step alone, and snapshots compared, on real hosts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet


def test_sync_sends_what_differs_and_starts_nothing(host: TestHost, client: Client) -> None:
    client.script("a.sh", "#!/bin/sh\ncat data/x\n")
    client.script("data/x", "one\n")
    dry = json.loads(client.run("sync", host.name, "--dry-run", "--json", check=True).stdout)["hosts"][0]
    assert dry["sent_files"] == dry["files"]
    assert host.sh("ls -A .remoterun", check=False).stdout == ""
    assert "data/" in client.run("sync", host.name, "-n", check=True).stdout
    client.run("sync", host.name, check=True)
    assert host.sh("cat .remoterun/trees/*/*/files/data/x").stdout == "one\n"
    assert host.sh("ls -A .remoterun/jobs").stdout == ""
    client.script("data/x", "two\n")
    second = json.loads(client.run("sync", host.name, "--json", check=True).stdout)["hosts"][0]
    assert [entry["path"] for entry in second["sending"]] == ["data/x"]
    assert "has all of it" in client.run("sync", host.name, check=True).stdout
    # The launch finds it there.
    plan = client.run("launch", "-H", host.name, "--dry-run", "a.sh", check=True).stdout
    assert "to send 0 bytes" in plan
    assert client.run("launch", "-H", host.name, "a.sh", check=True).stdout == "two\n"


def test_what_is_heavy_is_named_with_the_line_that_leaves_it_at_home(host: TestHost, client: Client) -> None:
    client.script("a.sh", "#!/bin/sh\ntrue\n")
    heavy = client.project / "big [1]*.bin"
    with open(heavy, "wb") as out:
        out.truncate(60 << 20)
    for words in (("sync", host.name, "-n"), ("launch", "-H", host.name, "--dry-run", "a.sh")):
        done = client.run(*words, check=True)
        assert "/big \\[1]\\*.bin" in done.stdout + done.stderr, words
    line = json.loads(client.run("sync", host.name, "-n", "--json").stdout)["hosts"][0]["ignore"]
    client.script(".remoterunignore", line[0] + "\n")
    assert json.loads(client.run("sync", host.name, "-n", "--json").stdout)["hosts"][0]["bytes"] < 1000


def test_diff_between_jobs_and_from_the_tree_here(fleet: Callable[..., list[TestHost]], client: Client) -> None:
    one, two = fleet(2)
    client.knows([one, two])
    client.script("a.sh", "#!/bin/sh\necho one\n")
    client.script("gone.txt", "was here\n")
    (client.project / "binary").write_bytes(b"\0\1")
    (client.project / "link").symlink_to("a.sh")
    first = client.run("launch", "-d", "-H", one.name, "a.sh", check=True).stdout.strip()
    same = client.run("diff", first)
    assert (same.returncode, same.stdout) == (0, "")
    client.script("a.sh", "#!/bin/sh\necho two\n")
    (client.project / "gone.txt").unlink()
    (client.project / "binary").write_bytes(b"\0\2")
    (client.project / "link").unlink()
    (client.project / "link").symlink_to("binary")
    client.script("new file.txt", "new\n")
    here = client.run("diff", first)
    assert here.returncode == 1
    for line in (
        "-echo one",
        "+echo two",
        "-was here",
        "+new",
        "--- /dev/null",
        "changed: binary (not text, or large)",
        "-a.sh",
        "+binary",
    ):
        assert line in here.stdout.splitlines(), line
    second = client.run("launch", "-d", "-H", two.name, "a.sh", check=True).stdout.strip()
    assert client.run("diff", first, second).stdout == here.stdout
    names = client.run("diff", "--name-only", first, second).stdout.splitlines()
    assert names == ["C  a.sh", "C  binary", "R  gone.txt", "C  link", "A  new file.txt"]
    one.sh("rm -r .remoterun/trees")
    assert client.run("diff", first).returncode == 255
