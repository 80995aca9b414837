"""Data that a job is given, on a real host."""

from __future__ import annotations

import json

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet


def test_a_job_gets_the_data_it_names_and_never_an_empty_folder(host: TestHost, client: Client) -> None:
    client.script("a.sh", '#!/bin/sh\ncat "$REMOTERUN_DATA_SET/x"\necho trained\n')
    words = ("launch", "-H", host.name, "--data", "~/the set:/data/set")
    host.sh("mkdir 'the set'")
    # A disk that is not mounted (B56).
    failed = client.run(*words, "--restart", "on-failure:3", "a.sh")
    assert failed.returncode == 126
    assert "the set is empty: is it mounted?" in failed.stdout
    assert "trained" not in failed.stdout
    host.sh("echo here >'the set/x'")
    done = client.run(*words, "a.sh", check=True)
    assert done.stdout == "here\ntrained\n"
    assert "cannot bind" in done.stderr
    # The same mounts when it runs again.
    assert client.run("rerun", check=True).stdout == "here\ntrained\n"
    record = json.loads(client.run("status", "--json", check=True).stdout)["job"]
    assert "/the set" in json.dumps(record)
    refused = client.run("launch", "-H", host.name, "--data", "corpus", "a.sh")
    assert refused.returncode == 2
    assert "has no data 'corpus'" in refused.stderr
