"""A job's files on their way back, from real hosts over real SSH."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet


def launch(client: Client, host: TestHost, script: str) -> str:
    client.script("job.sh", f"#!/bin/sh\n{script}\n")
    return client.run("launch", "-d", "-H", host.name, "job.sh", check=True).stdout.strip()


def done(client: Client, job: str) -> None:
    client.run("wait", job)


def pull(client: Client, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.run("pull", *words, "--json", check=True).stdout)
    return found


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_dir() and path.name != ".remoterun-pulled"
    }


def test_what_the_job_made_comes_back_and_only_once(host: TestHost, client: Client) -> None:
    client.script("keep.txt", "as it was\n")
    client.script("change.txt", "old\n")
    job = launch(
        client, host,
        'mkdir -p "$REMOTERUN_OUT/a b" made __pycache__; echo 1 >"$REMOTERUN_OUT/a b/x.pt"; echo new >change.txt; echo 2 >made/y\n'
        'ln -s x.pt "$REMOTERUN_OUT/a b/link"; echo z >__pycache__/z; mkfifo "$REMOTERUN_OUT/fifo"; mkdir "$REMOTERUN_OUT/empty"; chmod +x made/y',
    )  # fmt: skip
    done(client, job)
    first = pull(client)
    target = client.project / "runs" / job
    assert first["to"] == f"runs/{job}"
    assert files(target) == {"out/a b/x.pt", "out/a b/link", "code/change.txt", "code/made/y"}
    assert (target / "code/change.txt").read_text() == "new\n"
    assert os.readlink(target / "out/a b/link") == "x.pt"
    assert os.access(target / "code/made/y", os.X_OK)
    assert (target / "out/empty").is_dir()
    assert first["skipped"] == ["out/fifo is neither file, folder nor link"]
    assert pull(client)["files"] == 0
    # What was pulled does not go back with the next launch.
    sending = json.loads(client.run("sync", host.name, "-n", "--json", check=True).stdout)["hosts"][0]["sending"]
    assert [entry["path"] for entry in sending if "runs" in entry["path"]] == []
    host.sh(f"echo more >>'.remoterun/jobs/{job}/out/a b/x.pt'")
    assert pull(client)["files"] == 1
    assert (target / "out/a b/x.pt").read_text() == "1\nmore\n"


def test_paths_and_globs(host: TestHost, client: Client) -> None:
    job = launch(
        client,
        host,
        'cd "$REMOTERUN_OUT"; mkdir -p d/e; for n in a.pt d/b.pt d/e/c.pt d/e/c.txt -x; do echo $n >./$n; done; echo said',
    )
    done(client, job)
    for words, expected in (
        (["log"], {"log"}),
        (["out/d/e"], {"out/d/e/c.pt", "out/d/e/c.txt"}),
        (["out/*.pt"], {"out/a.pt"}),
        (["out/**/*.pt"], {"out/a.pt", "out/d/b.pt", "out/d/e/c.pt"}),
        (["out/d/?.pt", "out/-x"], {"out/d/b.pt", "out/-x"}),
        (["out/[!a]"], {"out/d/b.pt", "out/d/e/c.pt", "out/d/e/c.txt"}),
    ):
        to = client.folder / f"to{len(words[0])}{words[0].count('*')}"
        pull(client, job, *words, "-o", str(to))
        assert files(to) == expected, words
    assert (client.folder / "to30" / "log").read_text() == "said\n"
    for wrong in ("../x", "/etc/passwd", "out/none", "."):
        assert client.run("pull", job, wrong).returncode == 2, wrong


def test_an_edit_here_is_never_lost(host: TestHost, client: Client) -> None:
    job = launch(client, host, 'echo one >"$REMOTERUN_OUT/a"; echo one >"$REMOTERUN_OUT/b"')
    done(client, job)
    pull(client)
    here = client.project / "runs" / job / "out"
    (here / "a").write_text("mine\n")
    host.sh(f"cd .remoterun/jobs/{job}/out; echo two >a; echo two >b")
    second = pull(client)
    assert second["kept"] == ["out/a"]
    assert ((here / "a").read_text(), (here / "b").read_text()) == ("mine\n", "two\n")
    assert pull(client, job, "--force")["files"] == 1
    assert (here / "a").read_text() == "two\n"
    # Nor a file that was there before any pull.
    other = client.folder / "other"
    (other / "out").mkdir(parents=True)
    (other / "out" / "a").write_text("not from us\n")
    assert pull(client, job, "-o", str(other))["kept"] == ["out/a"]
    # A link here does not lead a file out of the folder.
    trap = client.folder / "trap"
    trap.mkdir()
    (trap / "out").symlink_to(client.folder)
    refused = client.run("pull", job, "-o", str(trap))
    assert refused.returncode == 2
    assert not (client.folder / "a").exists()


def test_a_large_file_goes_on_where_it_was_cut_off(host: TestHost, client: Client) -> None:
    job = launch(client, host, 'head -c 60000000 /dev/urandom >"$REMOTERUN_OUT/big"')
    done(client, job)
    wanted = hashlib.sha256(Path(host.home, ".remoterun", "jobs", job, "out", "big").read_bytes()).hexdigest()
    target = client.project / "runs" / job / "out"
    process = client.start("pull", job)
    part = target / ".big.remoterun-part"
    until = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size > 1 << 20) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.002)
    process.kill()
    process.wait()
    left = part.stat().st_size
    again = pull(client)
    assert hashlib.sha256((target / "big").read_bytes()).hexdigest() == wanted
    assert again["bytes"] == 60000000 - left
    assert not part.exists()
    # What has only grown is fetched from its old end; what has become another file, whole.
    host.sh(f"echo tail >>.remoterun/jobs/{job}/out/big")
    assert pull(client)["bytes"] == 5
    host.sh(f"head -c 60000010 /dev/urandom >.remoterun/jobs/{job}/out/big")
    assert pull(client)["bytes"] == 60000010


def test_watch_pulls_until_the_end_over_a_cut(host: TestHost, client: Client) -> None:
    job = launch(
        client,
        host,
        'for n in 1 2 3 4 5 6 7 8; do echo $n >"$REMOTERUN_OUT/.tmp"; mv "$REMOTERUN_OUT/.tmp" "$REMOTERUN_OUT/ckpt-$n"; sleep 0.7; done',
    )
    process = client.start("pull", "--watch", "--every", "0.5", job)
    target = client.project / "runs" / job / "out"
    until = time.monotonic() + 20
    while not (target / "ckpt-2").exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    for pid in host.sshd_sessions():
        host.kill(pid)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert files(target) == {f"ckpt-{n}" for n in range(1, 9)}
    assert all((target / f"ckpt-{n}").read_text() == f"{n}\n" for n in range(1, 9))


def test_hostile_names_come_back_as_they_are(host: TestHost, client: Client) -> None:
    names = [
        b"sp ace",
        b'it\'s "q" $x `y`',
        b"new\nline",
        b"-dash",
        b"\xff\xfe",
        "e\u0301".encode(),
        "\u00e9".encode(),
        b"x" * 200,
    ]
    job = launch(client, host, "true")
    done(client, job)
    out = Path(host.home, ".remoterun", "jobs", job, "out")
    for name in names:
        file = os.path.join(os.fsencode(out), name)
        with open(file, "wb") as target:
            target.write(name)
        host.give(Path(os.fsdecode(file)))
    assert pull(client)["files"] == len(names)
    here = os.path.join(os.fsencode(client.project), b"runs", job.encode(), b"out")
    assert sorted(entry.name for entry in os.scandir(here)) == sorted(names)
    for name in names:
        with open(os.path.join(here, name), "rb") as source:
            assert source.read() == name


def test_files_that_change_and_vanish_meanwhile_are_no_failure(host: TestHost, client: Client) -> None:
    job = launch(
        client, host,
        'cd "$REMOTERUN_OUT"; n=0; while :; do n=$((n+1)); echo $n >f$((n % 50)); rm -f f$(((n + 25) % 50)); echo $n >>grows; sleep 0.02; done',
    )  # fmt: skip
    for _ in range(5):
        client.run("pull", job, check=True)
    client.run("stop", job, "--grace", "1", check=True)
    client.run("pull", job, check=True)
    here = client.project / "runs" / job / "out"
    there = Path(host.home, ".remoterun", "jobs", job, "out")
    for file in there.iterdir():
        assert (here / file.name).read_bytes() == file.read_bytes(), file.name
