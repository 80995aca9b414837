"""--wait: the queue on the host itself, with no laptop on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.nvidia import Card, Process, cards

pytestmark = pytest.mark.fleet

SHOW = ("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 300")


def launch(client: Client, host: TestHost, *arguments: str) -> str:
    return client.run("launch", "-d", "-H", host.name, *arguments, check=True).stdout.strip()


def job(client: Client, host: TestHost, job_id: str) -> dict[str, Any]:
    listed = json.loads(client.run("ps", "-H", host.name, "--json", check=True).stdout)["jobs"]
    found: dict[str, Any] = next(each for each in listed if each["id"] == job_id)
    return found


def until(
    client: Client, host: TestHost, job_id: str, state: str, why: str = "", timeout: float = 40
) -> dict[str, Any]:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = job(client, host, job_id)
        if found["state"] == state and why in (found["reason"] or ""):
            return found
        time.sleep(0.5)
    raise AssertionError(f"{job_id} never {state} {why!r}: {found}")


def test_who_waits_is_served_in_turn_and_nobody_passes(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(2, host.name))
    uuids = [card.uuid for card in cards(2, host.name)]
    first = launch(client, host, "--gpus", "1", *SHOW)
    large = launch(client, host, "--gpus", "2", "--wait", "--name", "large", *SHOW)
    shown = job(client, host, large)
    assert (shown["state"], shown["gpus"]) == ("queued", [])
    assert "waits for 2 GPUs: 1 free, 1 held by jobs" in shown["reason"]
    assert "waits for 2 GPUs" in client.run("ps", "-H", host.name, check=True).stdout
    # One GPU is free, but somebody has waited for longer.
    small = launch(client, host, "--gpus", "1", "--wait", "--name", "small", *SHOW)
    until(client, host, small, "queued", f"waits behind job {large}")
    done = client.run("launch", "-d", "-H", host.name, "--gpus", "1", *SHOW)
    assert done.returncode == 255
    assert large in done.stderr
    assert "--wait" in done.stderr
    client.run("stop", first, "--grace", "2", check=True)
    running = until(client, host, large, "running")
    assert sorted(running["gpus"]) == sorted(uuids)
    assert sorted(client.run("logs", large, check=True).stdout.strip().split(",")) == sorted(uuids)
    gpus = json.loads(client.run("gpus", "-H", host.name, "--json", check=True).stdout)["hosts"][0]["gpus"]
    assert [gpu["job"] for gpu in gpus] == [large, large]
    until(client, host, small, "queued", "waits for 1 GPUs: 0 free, 2 held by jobs")
    # Who waits can be stopped, and leaves nothing.
    done = client.run("stop", small, "--grace", "2", check=True)
    assert job(client, host, small)["state"] == "stopped"
    client.run("stop", large, "--grace", "2", check=True)
    assert not host.sh("ls /dev/shm/remoterun-*/ticket.* 2>/dev/null || true").stdout
    assert not [words for words in host.login_processes().values() if "supervise.sh" in words]


def test_a_process_that_came_in_between_is_seen_under_the_lock(host: TestHost, client: Client) -> None:
    free, other = cards(2, host.name)
    host.nvidia.show([free, Card(other.index, other.uuid, processes=[Process(99999999, 2000)])])
    waits = launch(client, host, "--gpus", "2", "--wait", *SHOW)
    until(client, host, waits, "queued", "1 free, 0 held by jobs")
    host.nvidia.show([free, other])
    until(client, host, waits, "running")
    client.run("stop", waits, "--grace", "2", check=True)
    # Between the look of a launch and its start: the setup of the login takes a moment, and the card is gone.
    host.sh("printf 'sleep 3\n' >>.profile")
    started = client.start("launch", "-d", "-H", host.name, "--gpus", "2", *SHOW)
    for _ in range(300):
        if any("RR_SUPERVISE" in words for words in host.login_processes().values()):
            break
        time.sleep(0.05)
    host.nvidia.show([free, Card(other.index, other.uuid, processes=[Process(99999999, 2000)])])
    _, said = started.communicate(timeout=60)
    assert started.returncode == 255
    assert b"a moment before" in said


def test_a_reboot_is_told_to_who_waited_and_rerun_queues_again(
    fleet: Callable[..., list[TestHost]], client: Client
) -> None:
    (host,) = fleet(1, gpus=1)
    client.knows([host])
    first = launch(client, host, "--gpus", "1", *SHOW)
    waits = launch(client, host, "--gpus", "1", "--wait", "--name", "patient", *SHOW)
    assert job(client, host, waits)["state"] == "queued"
    host.reboot()
    found = until(client, host, waits, "lost", "rebooted while it waited")
    assert f"rerun {waits}" in found["reason"]
    assert job(client, host, first)["state"] == "lost"
    again = client.run("rerun", "-d", waits, check=True).stdout.strip()
    until(client, host, again, "running")
    client.run("stop", again, "--grace", "2", check=True)
