"""The main job on a real host over real SSH: launch, follow, list, stop."""

from __future__ import annotations

import json

from tests.fleet.client import Client
from tests.fleet.host import TestHost


def test_launch_follows_to_the_end_and_exits_with_the_jobs_status(host: TestHost, client: Client) -> None:
    client.script("b.sh", '#!/bin/sh\necho "hello from $(hostname) $1"\necho made >made.txt\nexit 7\n')
    done = client.run("launch", "-H", host.name, "b.sh", "it's $x")
    assert done.stdout == f"hello from {host.name} it's $x\n"
    assert done.returncode == 7, done.stderr
    listed = json.loads(client.run("ps", "--json", check=True).stdout)
    assert [(job["host"], job["state"], job["exit_code"]) for job in listed["jobs"]] == [(host.name, "failed", 7)]
    made = host.sh("cat .remoterun/jobs/*/code/made.txt").stdout
    assert made == "made\n"
    assert not (client.project / "made.txt").exists()
