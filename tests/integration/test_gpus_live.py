"""The live view, driven as a person does: in a real terminal, over real hosts, some of them dead."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.nvidia import Card, cards
from tests.fleet.terminal import Terminal

pytestmark = pytest.mark.fleet


def gone(terminal: Terminal, text: str, timeout: float = 15) -> str:
    """The screen once ``text`` has left it."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if text not in (screen := terminal.screen()):
            return screen
        time.sleep(0.1)
    raise AssertionError(f"{text!r} never left:\n{terminal.screen()}")


def test_the_live_view_at_80x24_and_200x60(fleet: Callable[..., list[TestHost]], client: Client) -> None:
    one, two, dark = fleet(3, gpus=4)
    client.knows([one, two])
    for number in range(6):
        client.knows([one], name=f"many{number}")
    for name in ("dead1", "dead2"):
        client.knows([dark], name=name)
    dark.cut()
    names = f"{one.name},{two.name},dead1,dead2,{','.join(f'many{number}' for number in range(6))}"
    job = client.run(
        "launch", "-d", "-H", one.name, "--gpus", "1,", "--", "sh", "-c", "echo hello; sleep 300", check=True
    ).stdout.strip()
    view = client.terminal("gpus", "-H", names, columns=80, lines=24)
    screen = view.wait_for("10 hosts")
    screen = view.wait_for(job[:12], timeout=30)
    # Nobody is late for the dead ones.
    view.wait_for("4 GPUs, 4 free", timeout=30)
    assert all(len(line) <= 80 for line in screen.splitlines())
    # Down to the end, and what was not on the screen is there.
    view.send("End")
    view.wait_for("many5")
    view.resize(200, 60)
    screen = view.wait_for("dead2", timeout=30)
    assert "A100-SXM4-80GB" in screen
    assert "61/400W" in screen
    # Filters, typed and by key.
    view.send("/")
    view.send("user:", one.login, "Enter")
    screen = gone(view, two.name)
    assert "filter: user:" in screen
    assert job in screen
    view.send("Escape")
    view.wait_for(two.name)
    view.send("/")
    view.send("host:dead*", "Enter")
    gone(view, "many0")
    view.send("Escape")
    view.wait_for("many0")
    view.send("g")
    gone(view, "A100-SXM4-80GB")
    view.send("g")
    view.wait_for("A100-SXM4-80GB")
    # The card that is busy goes to the top, and is looked at from near; then its job.
    two.nvidia.show([Card(0, cards(1, two.name)[0].uuid, utilization="97")])
    view.send("s")
    view.wait_for("by util")
    view.wait_for("97%")
    view.send("Home", "Enter")
    screen = view.wait_for("utilisation, seen from here")
    assert two.name in screen
    view.send("Escape")
    gone(view, "seen from here")
    view.send("/")
    view.send(f"job:{job}", "Enter")
    view.wait_for(f"filter: job:{job}")
    gone(view, two.name)
    view.send("Home", "j")
    view.wait_for(f"{job}  on")
    view.send("l")
    view.wait_for("hello")
    view.send("C-c")
    view.wait_for(f"{job}  on")
    view.send("Escape")
    view.wait_for("filter:")
    view.send("q")
    view.wait_for("EXIT=0")
    client.run("stop", job, check=True)


def test_a_host_that_goes_dark_turns_grey_and_comes_back(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(2, host.name))
    view = client.terminal("gpus", "-H", host.name, columns=100, lines=24)
    view.wait_for("2 GPUs, 2 free")
    host.nvidia.hang(60)
    view.wait_for("does not answer", timeout=40)
    host.nvidia.hang(None)
    gone(view, "does not answer", timeout=60)
    host.stop_sshd()
    for pid in host.sshd_sessions():
        host.kill(pid)
    screen = view.wait_for("values are", timeout=30)
    assert "2 GPUs, 2 free" in screen, "what was known stays"
    host.start_sshd()
    gone(view, "values are", timeout=40)
    view.send("C-c")
    screen = view.wait_for("EXIT=")
    assert "hosts" not in screen, "the terminal is as it was"


def test_plain_signs_and_every_size_of_terminal(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(1, host.name))
    shell = client.terminal("exec", "-H", "local", "--", "true", columns=100, lines=24)
    shell.wait_for("EXIT=0")
    shell.send("C-c")
    view = client.terminal("gpus", "-H", host.name, "--ascii", columns=100, lines=24)
    screen = view.wait_for("1 GPUs, 1 free")
    assert screen.isascii()
    view.resize(20, 5)
    time.sleep(1)
    view.resize(300, 80)
    view.wait_for("A100-SXM4-80GB")
    view.send("q")
    view.wait_for("EXIT=0")


def test_one_table_streams_and_metrics(fleet: Callable[..., list[TestHost]], client: Client) -> None:
    one, dark = fleet(2, gpus=2)
    client.knows([one])
    client.knows([dark], name="dead")
    dark.cut()
    done = client.run("gpus", "-H", f"dead,{one.name}", check=True)
    assert done.stdout.index("[0]") < done.stdout.index("dead  unreachable")
    assert "61/400 W" in done.stdout
    assert client.run("gpus", "-H", one.name, "--user", "nobody", check=True).stdout == ""
    text = client.run("gpus", "-H", f"dead,{one.name}", "--prometheus", check=True).stdout
    assert f'remoterun_host_up{{host="{one.name}"}} 1' in text
    assert 'remoterun_host_up{host="dead"} 0' in text
    assert text.count("# TYPE remoterun_gpu_utilization_ratio gauge") == 1
    watching = client.start("gpus", "-H", one.name, "--json", "--watch", "--interval", "1")
    assert watching.stdout is not None
    while not json.loads(watching.stdout.readline())["hosts"][0]["reachable"]:
        pass
    documents = [json.loads(watching.stdout.readline()) for _ in range(4)]
    assert all(len(document["hosts"][0]["gpus"]) == 2 for document in documents)
    assert all(document["hosts"][0]["age_s"] < 9 for document in documents)
    assert one.log.read_text().count("Accepted publickey") == 4, "one login serves all documents"
    assert client.run("gpus", "--watch").returncode == 2
