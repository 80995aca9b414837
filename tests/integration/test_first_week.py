"""What a new user meets: jobs whose host went dark, jobs that had ended, options in the wrong place."""

from __future__ import annotations

import json

import pytest

import remoterun
from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet


def test_a_job_just_launched_is_known_when_its_host_goes_dark(host: TestHost, client: Client) -> None:
    started = client.run("launch", "-d", "-H", host.name, "--name", "exp", "--", "sleep", "60", check=True)
    job = started.stdout.strip()
    host.cut()
    shown = client.run("status", "exp", "--json")
    assert shown.returncode == 255
    document = json.loads(shown.stdout)["job"]
    assert (document["id"], document["state"], document["last_known_state"]) == (job, "unknown", "running")
    assert document["age_s"] is not None
    listed = json.loads(client.run("ps", "--json", check=True).stdout)
    assert [(each["id"], each["state"]) for each in listed["jobs"]] == [(job, "unknown")]
    host.restore()
    stopped = client.run("stop", "--grace", "5", "exp", check=True)
    assert "stopping" in stopped.stderr
    again = client.run("stop", "exp", check=True)
    assert "had ended already: stopped" in again.stderr
    assert "stopping" not in again.stderr
    rank = client.run("logs", "--rank", "5", "exp")
    assert rank.returncode == 2
    assert "no rank 5" in rank.stderr


def test_a_host_never_seen_is_accepted_by_the_same_command_with_one_more_word(host: TestHost, client: Client) -> None:
    client.known_hosts.write_text("")
    refused = client.run("launch", "-H", host.name, "--", "true")
    assert refused.returncode == 255
    assert "SHA256:" in refused.stderr
    assert "--accept-new" in refused.stderr
    client.run("launch", "-H", host.name, "--accept-new", "--", "true", check=True)


def test_a_module_without_torch_gets_a_command_that_runs_it(host: TestHost, client: Client) -> None:
    client.script("pkg/train.py", "import sys\nprint('ran', sys.argv[1:])\n")
    refused = client.run("launch", "-H", host.name, "--python", "/usr/bin/python3", "-m", "pkg.train", "a b")
    assert refused.returncode == 255
    advised = refused.stderr.rpartition("without torchrun: remoterun ")[2].strip()
    assert advised.endswith("-m pkg.train 'a b'")
    done = client.command("sh", "-c", f"python -m remoterun {advised}")
    assert "ran ['a b']" in done.stdout


def test_a_setup_line_that_fails_keeps_the_job_from_starting(host: TestHost, client: Client) -> None:
    refused = client.run("launch", "-H", host.name, "--setup", "sh -c 'exit 5'", "--", "echo", "ran")
    assert refused.returncode == 126
    assert "ran" not in refused.stdout.splitlines()
    assert "the setup line ended with status 5" in refused.stdout
    allowed = client.run("launch", "-H", host.name, "--setup", "false || :", "--", "echo", "ran", check=True)
    assert allowed.stdout == "ran\n"


def test_an_ejected_script_says_how_to_look_after_its_job(host: TestHost, client: Client) -> None:
    client.run("launch", "-H", host.name, "--eject", "start.sh", "--", "sh", "-c", "echo on; sleep 60", check=True)
    there = host.home / "start.sh"
    there.write_bytes((client.project / "start.sh").read_bytes())
    host.give(there)
    said = host.sh("sh start.sh").stdout
    rows = dict(line.strip().split(None, 1) for line in said.splitlines())
    assert rows["job"].endswith(f"on {host.name}")
    assert "file=" not in said, "records are for programs"
    assert "tmux" in rows["session"]
    assert host.sh(rows["log"].replace("tail -f", "timeout 5 head -n 1")).stdout == "on\n"
    host.sh(rows["end"].removeprefix("it").strip())
    assert client.run("wait", "sh", "-H", host.name).returncode == 143
    again = host.sh("sh start.sh; echo status $?")
    assert "status 75" in again.stdout
    assert "nothing was started" in again.stderr


def test_a_tilde_that_the_laptop_expanded_is_told(host: TestHost, client: Client) -> None:
    refused = client.run("launch", "-H", host.name, "--python", f"{client.home}/venv/bin/python", "x.py")
    assert "no script x.py" in refused.stderr
    client.script("x.py", "print(1)\n")
    refused = client.run("launch", "-H", host.name, "--python", f"{client.home}/venv/bin/python", "x.py")
    assert refused.returncode == 255
    assert "--python '~/venv/bin/python'" in refused.stderr


def test_python_callers_get_values_that_read_well(
    host: TestHost, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.use(monkeypatch)
    monkeypatch.chdir(client.project)
    client.script("b.sh", "#!/bin/sh\necho hello\n")
    fleet = remoterun.Fleet.load()
    job = fleet.launch("b.sh", hosts=[host.name])
    assert job.wait().exit_code == 0
    assert repr(job) == f"<Job {job.id} on {host.name}: succeeded>"
    listed = fleet.jobs()
    assert [each.id for each in listed] == [job.id]
    assert len(listed) == 1
    with pytest.raises(remoterun.RemoterunError, match=f"no script gone.sh in {client.project}"):
        fleet.launch("gone.sh", hosts=[host.name])
    assert {"Fleet", "Job", "RemoterunError"} <= set(dir(remoterun))
