"""What a shell is offered, by real shells where they are there."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.need import require

REPOSITORY = Path(__file__).resolve().parents[3]
# Prints the events that would mean a network, a program or the heavy parts of the code.
WATCHED = """
import sys
sys.addaudithook(lambda event, _: print(event, file=sys.stderr) if event in
    ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.posix_spawn") else None)
from remoterun.cli.main import run
status = run([])
print(*(name for name in ("paramiko", "rich", "textual") if name in sys.modules), end="", file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture
def laptop(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody with three hosts, two of them in hosts.yaml, and four jobs."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").touch()
    (tmp_path / "project" / "hosts.yaml").write_text("hosts: {gpu1: {tags: [lab]}, gpu2: {}}\ngroups: {lab2: [gpu1]}\n")
    state = tmp_path / "state" / "remoterun"
    state.mkdir(parents=True)
    (state / "hosts.json").write_text(json.dumps(["used"]))
    jobs = {
        f"{name}-0101-00000{at}-abcd": {"name": name, "host": "gpu1", "state": kind, "created": f"2026-01-0{at + 1}"}
        for at, (name, kind) in enumerate(
            [("exp", "succeeded"), ("exp", "running"), ("sweep", "failed"), ("eval", "queued")]
        )
    }
    (state / "jobs.json").write_text(json.dumps({key: {"id": key, **job} for key, job in jobs.items()}))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "remoterun").write_text(f'#!/bin/sh\nexec {sys.executable} -m remoterun "$@"\n')
    (tools / "remoterun").chmod(0o755)
    return {
        "HOME": str(tmp_path),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PWD": str(tmp_path / "project"),
        "PYTHONPATH": str(REPOSITORY),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "LANG": "C.UTF-8",
    }


def at(laptop: dict[str, str], *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env={**laptop, **more}, cwd=laptop["PWD"], capture_output=True, text=True, timeout=60, check=False
    )


def in_bash(laptop: dict[str, str], line: str) -> list[str]:
    """What bash would replace the word at the line's end with."""
    require("bash")
    script = (
        'eval "$(remoterun completion bash)"; COMP_LINE=$1 COMP_POINT=${#1}; compopt() { echo "compopt $*"; }\n'
        '_remoterun_completion remoterun; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = at(laptop, "bash", "-c", script, "bash", line)
    assert done.stderr == ""
    return [each for each in done.stdout.splitlines() if each]


def test_commands_hosts_and_jobs_in_bash(laptop: dict[str, str]) -> None:
    assert {"launch", "logs", "completion"} <= set(in_bash(laptop, "remoterun "))
    assert in_bash(laptop, "remoterun --plain launch -H gp") == ["gpu1", "gpu2"]
    assert in_bash(laptop, "remoterun ps -H gpu1,") == [
        "gpu1,local",
        "gpu1,gpu2",
        "gpu1,@lab2",
        "gpu1,@lab",
        "gpu1,used",
    ]
    assert in_bash(laptop, "remoterun ps -H @l") == ["@lab2", "@lab"]
    # Of a word with = in it bash replaces what stands behind the sign.
    assert in_bash(laptop, "remoterun ps --host=gpu1,us") == ["gpu1,used"]
    assert in_bash(laptop, "remoterun doctor us") == ["used"]
    assert in_bash(laptop, "remoterun logs ex") == ["exp", "exp-0101-000001-abcd", "exp-0101-000000-abcd"]
    assert in_bash(laptop, "remoterun launch -H gpu1 tr") == ["compopt -o default"]
    assert in_bash(laptop, "remoterun launch --runt") == ["--runtime"]
    assert in_bash(laptop, "remoterun no-such-verb ") == []


def test_only_jobs_that_make_sense_are_offered(laptop: dict[str, str]) -> None:
    running = {"exp", "exp-0101-000001-abcd", "eval", "eval-0101-000003-abcd"}
    assert set(in_bash(laptop, "remoterun stop ")) == set(in_bash(laptop, "remoterun attach ")) == running
    assert set(in_bash(laptop, "remoterun rm ")) == {"exp", "exp-0101-000000-abcd", "sweep", "sweep-0101-000002-abcd"}


def test_fish_and_zsh(laptop: dict[str, str]) -> None:
    require("fish")
    lines = "\n".join(
        ["remoterun completion fish | source"]
        + [f"echo = (complete -C 'remoterun {rest}')" for rest in ("ps -H gpu1,g", "ps --host=us", "logs sw")]
    )
    found = at(laptop, "fish", "--no-config", "-c", lines)
    assert found.stdout.splitlines() == [
        "= gpu1,gpu2",
        "= --host=used",
        "= sweep\tfailed on gpu1 sweep-0101-000002-abcd\tfailed on gpu1",
    ]
    asked = {"_REMOTERUN_COMPLETE": "zsh_complete", "COMP_WORDS": "remoterun ps --host=us", "COMP_CWORD": "2"}
    assert at(laptop, "remoterun", **asked).stdout == "plain\n--host=used\n_\n"


@pytest.mark.parametrize("line", ["remoterun ps -H ", "remoterun logs ", "remoterun "])
def test_no_network_no_program_and_nothing_heavy(laptop: dict[str, str], line: str) -> None:
    # (Where $HOME is not the password file's, ssh is asked which of the two it means.)
    home = pwd.getpwuid(os.getuid()).pw_dir
    asked = {"_REMOTERUN_COMPLETE": "bash_complete", "REMOTERUN_LINE": line, "HOME": home}
    done = at(laptop, sys.executable, "-c", WATCHED, **asked)
    assert done.stdout.startswith("plain,")
    assert done.stderr == ""


def test_a_hosts_file_that_is_wrong_just_now_hides_nothing_else(laptop: dict[str, str]) -> None:
    Path(laptop["PWD"], "hosts.yaml").write_text("hosts: {gpu1: {")
    assert in_bash(laptop, "remoterun ps -H ") == ["used"]
