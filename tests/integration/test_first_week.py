"""What a new user meets: jobs whose host went dark, jobs that had ended, options in the wrong place."""

from __future__ import annotations

import json

import pytest

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
