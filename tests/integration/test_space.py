"""Making room on a real host."""

from __future__ import annotations

import json

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet


def test_gc_says_first_and_removes_what_the_rule_does_not_keep(host: TestHost, client: Client) -> None:
    jobs = []
    for number in range(3):
        client.script("a.sh", f"#!/bin/sh\nhead -c 300000 /dev/zero >big{number}\n")
        jobs.append(client.run("launch", "-d", "-H", host.name, "a.sh", check=True).stdout.strip())
        client.run("wait", jobs[-1], check=True)
    live = client.run(
        "launch", "-d", "-H", host.name, "--name", "live", "--", "sleep", "1000", check=True
    ).stdout.strip()
    host.sh("touch -d '2 days ago' .remoterun/trees/*/*; mkdir -p .remoterun/jobs/.aside.x.999999999")
    host.sh(
        f"touch -d '3 days ago' .remoterun/jobs/{jobs[0]}/exit; touch -d '2 days ago' .remoterun/jobs/{jobs[1]}/exit"
    )
    # Without a rule no job goes.
    nothing = json.loads(client.run("gc", "-H", host.name, "-n", "--json", check=True).stdout)["hosts"][0]
    assert (nothing["jobs"], nothing["error"]) == ([], None)
    shown = client.run("gc", "-H", host.name, "-n", "--keep-count", "1", check=True).stdout
    assert jobs[0] in shown
    assert jobs[2] not in shown
    refused = client.run("gc", "-H", host.name, "--keep-count", "1")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    client.script("hosts.yaml", f"hosts:\n  {host.name}: {{keep: {{age: 60h}}}}\n")
    done = json.loads(client.run("gc", "-H", host.name, "--yes", "--json", check=True).stdout)["hosts"][0]
    assert done["jobs"] == [jobs[0]]
    assert done["frees_bytes"] >= 300000
    left = host.sh("ls -A .remoterun/jobs").stdout.split()
    assert sorted(left) == sorted([jobs[1], jobs[2], live])
    client.run("gc", "-H", host.name, "--yes", "--keep-count", "0", check=True)
    assert host.sh("ls -A .remoterun/jobs").stdout.split() == [live]
    # The newest snapshot and that of the live job are all that is left; the next launch works.
    assert len(host.sh("ls -d .remoterun/trees/*/*").stdout.split()) <= 2
    client.run("launch", "-H", host.name, "a.sh", check=True)
    client.run("stop", live, check=True)
