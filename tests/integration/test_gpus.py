"""GPUs of real hosts (with cards that are not there): shown, chosen, lent."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.nvidia import Card, Process, cards

pytestmark = pytest.mark.fleet


def gpus(client: Client, host: TestHost) -> list[dict[str, Any]]:
    document = json.loads(client.run("gpus", "-H", host.name, "--json", check=True).stdout)
    found: list[dict[str, Any]] = document["hosts"][0]["gpus"]
    return found


def launch(client: Client, host: TestHost, *arguments: str) -> str:
    return client.run("launch", "-d", "-H", host.name, *arguments, check=True).stdout.strip()


def test_a_job_gets_its_cards_by_uuid_and_holds_them(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(4, host.name))
    uuids = [card.uuid for card in cards(4, host.name)]
    show = ("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER; sleep 60")
    first = launch(client, host, "--gpus", "1,3", *show)
    for _ in range(50):
        if said := client.run("logs", first, check=True).stdout:
            break
        time.sleep(0.1)
    assert said == f"{uuids[1]},{uuids[3]} PCI_BUS_ID\n"
    shown = gpus(client, host)
    assert [(gpu["state"], gpu["job"]) for gpu in shown] == [("free", None), ("reserved", first)] * 2
    # All of them are refused, naming the holder and the ways out; two more are free.
    done = client.run("launch", "-H", host.name, *show)
    assert done.returncode == 255
    assert first in done.stderr
    assert "--gpus 2" in done.stderr
    second = launch(client, host, "--gpus", "2", *show)
    record = json.loads(client.run("status", second, "--json", check=True).stdout)["job"]
    assert sorted(record["gpus"]) == sorted([uuids[0], uuids[2]])
    assert client.run("launch", "-H", host.name, "--gpus", "1", *show).returncode == 255
    client.run("stop", first, check=True)
    assert [gpu["state"] for gpu in gpus(client, host)] == ["reserved", "free"] * 2
    client.run("stop", second, check=True)
    assert [gpu["state"] for gpu in gpus(client, host)] == ["free"] * 4


def test_a_lease_lives_as_long_as_the_job_not_as_its_supervisor(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(1, host.name))
    job = launch(client, host, "--", "sleep", "4")
    for pid, words in host.login_processes().items():
        if "supervise.sh" in words:
            host.kill(pid)
    assert gpus(client, host)[0]["state"] == "reserved"
    assert client.run("wait", job).returncode == 255
    assert gpus(client, host)[0]["state"] == "free"


def test_two_launches_at_once_never_share_a_card(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(2, host.name))
    other = Client(client.yard, "other")
    other.knows([host])
    for _ in range(3):
        started = [
            each.start("launch", "-d", "--json", "-H", host.name, "--gpus", "2", "--", "sleep", "60")
            for each in (client, other) * 2
        ]
        done = [(*process.communicate(timeout=60), process.returncode) for process in started]
        codes = sorted(code for _, _, code in done)
        assert codes == [0, 255, 255, 255], done
        refused = [json.loads(out)["error"]["code"] for out, _, code in done if code]
        assert refused == ["gpus-taken"] * 3
        listed = json.loads(client.run("ps", "-H", host.name, "--json", check=True).stdout)["jobs"]
        running = [job["id"] for job in listed if job["state"] == "running"]
        assert len(running) == 1
        client.run("stop", running[0], "--grace", "2", check=True)
    assert [gpu["state"] for gpu in gpus(client, host)] == ["free", "free"]


def test_other_peoples_processes_are_seen_and_respected(host: TestHost, client: Client) -> None:
    pid = int(
        host.sh("setsid -f sh -c 'echo $$ >pid; exec sleep 300' >/dev/null 2>&1 </dev/null; sleep 0.3; cat pid").stdout
    )
    free, taken = cards(2, host.name)
    host.nvidia.show([free, Card(taken.index, taken.uuid, processes=[Process(pid, 2000)])])
    shown = gpus(client, host)
    assert [gpu["state"] for gpu in shown] == ["free", "busy"]
    assert shown[1]["processes"][0] == {"pid": pid, "user": host.login, "memory_mib": 2000, "command": "sleep 300"}
    done = client.run("launch", "-H", host.name, "--gpus", "2", "--", "true")
    assert done.returncode == 255
    assert str(pid) in done.stderr
    job = launch(client, host, "--gpus", "1", "--", "true")
    assert json.loads(client.run("status", job, "--json", check=True).stdout)["job"]["gpus"] == [free.uuid]


def test_no_gpus_asked_for_hides_them_and_none_there_is_said(host: TestHost, client: Client) -> None:
    done = client.run("launch", "-H", host.name, "--gpus", "2", "--", "true")
    assert done.returncode == 255
    assert "--gpus none" in done.stderr
    host.nvidia.show(cards(1, host.name))
    done = client.run(
        "launch",
        "-H",
        host.name,
        "--gpus",
        "none",
        "--",
        "sh",
        "-c",
        "echo [${CUDA_VISIBLE_DEVICES-unset}]",
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_broken_driver_is_told_in_its_row(host: TestHost, client: Client) -> None:
    host.nvidia.fail(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
    document = json.loads(client.run("gpus", "-H", host.name, "--json", check=True).stdout)["hosts"][0]
    assert (document["reachable"], document["gpus"]) == (True, [])
    assert "driver is not loaded" in document["error"]
    assert "driver is not loaded" in client.run("gpus", "-H", host.name, check=True).stdout


def test_use_over_the_run_is_sampled_on_the_host(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(2, host.name))
    job = launch(client, host, "--gpus", "1,", "--", "sleep", "5")
    sampled = ""
    for _ in range(50):
        sampled = host.sh(f"cat .remoterun/jobs/{job}/gpu.csv 2>/dev/null || true").stdout
        if sampled:
            break
        time.sleep(0.1)
    assert cards(2, host.name)[1].uuid in sampled


def test_doctor_names_each_failure_with_its_fix(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(2, host.name))
    (client.project / "hosts.yaml").write_text(f"hosts:\n  {host.name}: {{gpus: 8, tmux: /no/tmux}}\n")
    done = client.run("doctor", host.name, "--json")
    assert done.returncode == 1
    checks = {check["name"]: check for check in json.loads(done.stdout)["hosts"][0]["checks"]}
    assert checks["connection"]["ok"] is True
    assert checks["flock"]["ok"] is True
    for name, words in (("gpus", "hosts.yaml says 8"), ("tmux", "not in")):
        assert checks[name]["ok"] is False
        assert words in checks[name]["found"]
        assert checks[name]["fix"]
    host.cut()
    done = client.run("doctor", host.name)
    assert done.returncode == 1
    assert "FAIL connection" in done.stdout
