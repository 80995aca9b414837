"""The test hosts themselves: what other tests lean on must be true."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import require
from tests.fleet.client import REPOSITORY, Client
from tests.fleet.host import TestHost
from tests.fleet.nvidia import SAMPLES, Card, Process, cards
from tests.fleet.proxy import Proxy
from tests.fleet.yard import PREFIX, ROOT, Yard, runs, sweep

pytestmark = pytest.mark.fleet

CORE = json.loads((SAMPLES / "02-lost-gpu" / "expected.json").read_text())["runs"][0]["command"]


def ssh(client: Client, host: TestHost, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return client.command("ssh", host.name, *command, check=check)


def test_three_hosts_have_names_homes_and_memory_of_their_own(
    fleet: Callable[..., list[TestHost]], client: Client
) -> None:
    require(root=True)
    hosts = fleet(3)
    client.knows(hosts)
    asked = "uname -n; pwd; echo $HOME; id -un; cat /proc/sys/kernel/random/boot_id; touch /dev/shm/mine; ls /dev/shm"
    seen = [ssh(client, host, asked).stdout.split() for host in hosts]
    for host, words in zip(hosts, seen, strict=True):
        assert words[:4] == [host.name, str(host.home), str(host.home), host.login]
        assert words[5:] == ["mine"]
        assert host.sh("uname -n; pwd; id -un").stdout.split() == [host.name, str(host.home), host.login]
    assert len({words[4] for words in seen}) == 3
    assert not Path("/dev/shm/mine").exists()
    # Each other's names, and Debian's own line for the own one.
    assert hosts[0].sh(f"getent ahostsv4 {hosts[2].name}").stdout.split()[0] == hosts[2].address
    assert hosts[2].sh(f"getent ahostsv4 {hosts[2].name}").stdout.split()[0] == "127.0.1.1"


def test_a_host_is_reached_and_its_home_is_its_own(host: TestHost, client: Client) -> None:
    assert ssh(client, host, "echo $HOME").stdout == f"{host.home}\n"
    assert "Accepted publickey" in host.log.read_text()
    assert ssh(client, host, "exit 3", check=False).returncode == 3


@pytest.mark.parametrize("home", ["my home", "it's $x (2)"])
def test_a_home_of_any_name(fleet: Callable[..., list[TestHost]], client: Client, home: str) -> None:
    require(root=True)
    (host,) = fleet(1, home=home)
    client.knows([host])
    assert ssh(client, host, "pwd").stdout == f"{host.home}\n"
    assert host.home.name == home


@pytest.mark.parametrize("shell", ["sh", "bash", "fish", "zsh", "tcsh"])
def test_any_login_shell_chatty_or_not(fleet: Callable[..., list[TestHost]], client: Client, shell: str) -> None:
    require(shell, root=True)
    (quiet,) = fleet(1, shell=f"/bin/{shell}" if shell != "fish" else "/usr/bin/fish")
    (loud,) = fleet(
        1, shell=f"/bin/{shell}" if shell != "fish" else "/usr/bin/fish", chatty=True, banner="stand back\n"
    )
    client.knows([quiet, loud])
    assert ssh(client, quiet, "echo on").stdout == "on\n"
    done = ssh(client, loud, "echo on")
    assert done.stdout.endswith("on\n")
    assert "stand back" in done.stderr
    # A plain sh reads no file of its own when it is given a command.
    assert ("welcome {gpu-box}" in done.stdout) == (shell != "sh")


def test_several_logins_and_lines_of_sshd_config(fleet: Callable[..., list[TestHost]], client: Client) -> None:
    require(root=True)
    (host,) = fleet(1, sshd="MaxSessions 0\nMatch User nobody\n  X11Forwarding no\n")
    other = host.add_login(home="second")
    client.knows([host])
    client.knows([host], name="second", login=other.name)
    assert ssh(client, host, "true", check=False).returncode == 255
    (open_host,) = fleet(1)
    second = open_host.add_login(home="second", shell="/bin/sh")
    client.knows([open_host])
    client.knows([open_host], name="two", login=second.name)
    assert client.command("ssh", "two", "id -un; pwd", check=True).stdout.split() == [second.name, str(second.home)]
    assert second.sh("id -un").stdout.split() == [second.name]


def test_the_clients_ssh_reads_its_home_as_a_users_ssh_does(host: TestHost, client: Client) -> None:
    if not client.honest:
        require("a-mount-namespace-of-ones-own")
    folder = client.home / ".ssh" / "conf.d"
    folder.mkdir()
    client.config.rename(folder / "box")
    client.config.write_text("Include conf.d/*\n")
    assert ssh(client, host, "echo in").stdout == "in\n"
    assert f"userknownhostsfile {client.home}/.ssh/known_hosts " in client.command("ssh", "-G", "nowhere").stdout
    assert pwd.getpwuid(os.getuid()).pw_dir != str(client.home)


def test_an_unknown_and_a_changed_host_key_are_seen(host: TestHost, client: Client) -> None:
    client.known_hosts.write_text("")
    assert "Host key verification failed" in ssh(client, host, "true", check=False).stderr


def test_a_cut_link_is_silent_and_comes_back(host: TestHost, client: Client) -> None:
    process = subprocess.Popen(
        [str(client.bin / "ssh"), host.name, "for i in 1 2 3 4; do echo $i; sleep 0.5; done"],
        env=client.env,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    host.cut()
    cut_at = time.monotonic()
    new = ssh(client, host, "-o", "ConnectTimeout=1", "true", check=False)
    assert new.returncode == 255
    assert time.monotonic() - cut_at > 0.9
    host.restore()
    assert process.stdout.read() == b"2\n3\n4\n"
    assert process.wait() == 0
    assert ssh(client, host, "echo back").stdout == "back\n"


def test_sshd_stops_and_starts_and_sessions_are_killed_by_pid(host: TestHost, client: Client) -> None:
    process = subprocess.Popen(
        [str(client.bin / "ssh"), host.name, "echo on; sleep 600"],
        env=client.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"on\n"
    host.stop_sshd()
    assert "refused" in ssh(client, host, "true", check=False).stderr
    assert [words for words in host.login_processes().values() if words == "sleep 600"]
    assert process.poll() is None
    for pid in host.sshd_sessions():
        host.kill(pid)
    assert process.wait(5) == 255
    host.kill_login_processes()
    assert host.login_processes() == {}
    host.start_sshd()
    assert ssh(client, host, "echo again").stdout == "again\n"


def test_a_reboot_ends_all_and_changes_the_boot_id(host: TestHost, client: Client) -> None:
    require(root=True)
    asked = "cat /proc/sys/kernel/random/boot_id; ls /dev/shm"
    host.sh("setsid -f sleep 600 >/dev/null 2>&1; touch /dev/shm/x; echo kept >kept")
    before = ssh(client, host, asked).stdout.split()
    host.reboot()
    after = ssh(client, host, asked).stdout.split()
    assert (len(before), len(after)) == (2, 1)
    assert before[0] != after[0]
    assert host.login_processes() == {}
    assert host.sh("cat kept; uname -n").stdout.split() == ["kept", host.name]


def test_delay_costs_time_for_each_round_trip_and_no_bandwidth(
    host: TestHost, client: Client, proxy: Callable[..., Proxy]
) -> None:
    way = proxy(host, 0.0)
    client.knows([host], via=way, name="via")

    def wall(command: str) -> float:
        started = time.monotonic()
        client.command("ssh", "via", command, check=True)
        return time.monotonic() - started

    wall("true")
    trips = way.round_trips
    assert way.connections == 1
    plain = wall("true")
    way.delay = 0.1
    way.reset()
    slow = wall("true")
    # OpenSSH needs ten or so: each costs twice the delay. Words that cross on the way count once, so fewer than without.
    assert 6 <= way.round_trips <= trips <= 20
    assert 0.8 * way.round_trips < (slow - plain) / 0.2 < 1.5 * way.round_trips + 2
    # 40 MB at 200 ms round trip: SSH's window of 2 MB would need 4 s and more; a sleep for each 64 kB 64 s.
    assert wall("head -c 40000000 /dev/zero") < 16
    assert way.bytes_down > 40_000_000


def _echo(sock: socket.socket) -> None:
    with sock.accept()[0] as peer:
        while data := peer.recv(100):
            peer.sendall(data * 2)


def test_round_trips_are_counted_by_who_answers_whom() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        way = Proxy("127.0.0.1", server.getsockname()[1], 0.02)
        with socket.create_connection(("127.0.0.1", way.port)) as sock:
            for _ in range(5):
                sock.sendall(b"a")
                assert sock.recv(10) == b"aa"
            assert (way.connections, way.round_trips) == (1, 6)
            way.reset()
            # Not one of these waited for an answer, though the last ones cross the first answers on the way.
            way.delay = 0.4
            started = time.monotonic()
            for _ in range(10):
                sock.sendall(b"b")
                time.sleep(0.06)
            got = b""
            while len(got) < 20:
                got += sock.recv(100)
            assert time.monotonic() - started < 3
            assert (way.round_trips, way.bytes_up, way.bytes_down) == (1, 10, 20)
        way.close()


def test_a_proxy_is_cut_in_three_ways(host: TestHost, proxy: Callable[..., Proxy]) -> None:
    way = proxy(host)

    def banner() -> bytes:
        with socket.create_connection(("127.0.0.1", way.port), 1) as sock:
            return sock.recv(4)

    assert banner() == b"SSH-"
    way.cut("refuse")
    with pytest.raises(ConnectionRefusedError):
        banner()
    way.restore()
    with socket.create_connection(("127.0.0.1", way.port), 2) as sock:
        assert sock.recv(4) == b"SSH-"
        way.cut("reset")
        with pytest.raises(ConnectionResetError):
            while sock.recv(100):
                pass
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        banner()
    way.restore()
    way.cut("hold")
    with pytest.raises(TimeoutError):
        banner()
    with socket.create_connection(("127.0.0.1", way.port), 5) as sock:
        way.restore()
        assert sock.recv(4) == b"SSH-"


def test_a_sample_is_replayed_byte_by_byte(host: TestHost, client: Client) -> None:
    for sample in (
        "02-lost-gpu",
        "03-mig",
        "05-unknown-field",
        "10-display-gpu-and-odd-names",
        "12-old-new-windows-formats",
    ):
        host.nvidia.replay(sample)
        seen = set()
        for run in json.loads((SAMPLES / sample / "expected.json").read_text())["runs"]:
            if run["command"] in seen:
                continue
            seen.add(run["command"])
            done = subprocess.run(
                [str(client.bin / "ssh"), host.name, run["command"]], env=client.env, capture_output=True, check=False
            )
            assert (done.stdout, done.returncode) == ((SAMPLES / sample / run["stdout"]).read_bytes(), run["rc"]), run
    assert CORE.removeprefix("nvidia-smi ") in host.nvidia.calls()


def test_columns_are_taken_from_a_sample_and_unknown_ones_refused(host: TestHost) -> None:
    host.nvidia.replay("02-lost-gpu")
    done = host.sh("nvidia-smi --format=csv,noheader,nounits --query-gpu=index,name,utilization.gpu", check=False)
    rows = done.stdout.splitlines()
    assert (rows[0], rows[3]) == ("0, NVIDIA RTX A5000, 97", "3, NVIDIA RTX A5000, [Unknown Error]")
    assert rows[2].startswith("Unable to determine the device handle")
    assert done.returncode == 15
    done = host.sh("nvidia-smi --format=csv,noheader,nounits --query-gpu=uuid,compute_cap", check=False)
    assert (done.stdout, done.returncode) == ('Field "compute_cap" is not a valid field to query.\n\n', 2)
    host.nvidia.replay("08-idle-at-100-percent")
    assert host.sh(CORE).stdout.splitlines()[0].split(", ")[4] == "100"
    host.nvidia.replay("08-idle-at-100-percent", "query-gpu-second.csv")
    assert host.sh(CORE).stdout.splitlines()[0].split(", ")[4] == "0"
    for output, status in (("mismatch.txt", 18), ("no-comm.txt", 9), ("no-devices.txt", 6), ("not-found.txt", 127)):
        host.nvidia.replay("04-driver-unusable", output)
        assert host.sh("nvidia-smi -L", check=False).returncode == status


def test_cards_are_driven_while_a_job_looks(fleet: Callable[..., list[TestHost]], client: Client) -> None:
    (host,) = fleet(1, gpus=4)
    client.knows([host])
    query = "nvidia-smi --format=csv,noheader,nounits --query-gpu=index,memory.used,utilization.gpu"
    assert ssh(client, host, query).stdout.splitlines() == [f"{index}, 4, 0" for index in range(4)]
    busy = cards(2, host.name)
    host.gpus = [
        Card(0, busy[0].uuid, utilization="97", processes=[Process(4711, 2000, "python, it's")]),
        Card(1, busy[1].uuid, fields={"pstate": "[Unknown Error]"}),
    ]
    assert ssh(client, host, query).stdout.splitlines() == ["0, 2004, 97", "1, 4, 0"]
    apps = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name --format=csv,noheader,nounits"
    assert host.sh(apps).stdout == f"{busy[0].uuid}, 4711, 2000, python, it's\n"
    one = f"nvidia-smi -i {busy[1].uuid} --format=csv,noheader,nounits --query-gpu=timestamp,index,pstate"
    assert host.sh(one).stdout.strip().split(", ")[1:] == ["1", "[Unknown Error]"]
    host.nvidia.show(host.gpus, without=("gpu_recovery_action",))
    refused = host.sh("nvidia-smi --query-gpu=uuid,gpu_recovery_action --format=csv,noheader,nounits", check=False)
    assert (refused.returncode, '"gpu_recovery_action" is not a valid field' in refused.stdout) == (2, True)
    host.nvidia.fail(9, "NVIDIA-SMI has failed\n")
    assert (host.sh(query, check=False).stdout, host.sh(query, check=False).returncode) == (
        "NVIDIA-SMI has failed\n",
        9,
    )
    host.gpus = []
    assert host.sh("nvidia-smi -L", check=False).returncode == 6
    host.gpus = busy
    host.nvidia.hang(30)
    assert host.sh(f"timeout 0.5 {query}", check=False).returncode == 124
    host.nvidia.hang(None)
    assert host.sh(query).stdout.splitlines() == ["0, 4, 0", "1, 4, 0"]
    host.nvidia.remove()
    assert host.sh("command -v nvidia-smi", check=False).returncode != 0


def test_a_shim_stands_before_the_real_program(host: TestHost, client: Client) -> None:
    host.shim("docker", "#!/bin/sh\necho shim $*\n")
    assert ssh(client, host, "docker ps -a").stdout == "shim ps -a\n"


def test_commands_run_in_a_terminal_and_in_the_test_process(
    host: TestHost, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = client.terminal("--help")
    terminal.wait_for("EXIT=0")
    assert client.run("--help", check=True).stdout
    client.use(monkeypatch)
    assert subprocess.run(["ssh", host.name, "uname -n"], capture_output=True, check=True).stdout
    assert Path.cwd() == client.project


SESSION = """
import sys, time
from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.yard import Yard
yard = Yard()
host = TestHost(yard, gpus=1)
client = Client(yard)
client.knows([host])
host.sh("setsid -f sleep 6543 >/dev/null 2>&1")
print(yard.tag, yard.folder, *host.processes(), flush=True)
client.start("exec", "-H", host.name, "--", "sleep", "6543")
client.command("sh", "-c", "setsid -f sleep 6544 >/dev/null 2>&1")
time.sleep(1)
print("up", flush=True)
time.sleep(float(sys.argv[1]))
"""


def _left(tag: str, folder: str, pids: list[int]) -> list[str]:
    """What is there still of a session."""
    found = [str(pid) for pid in pids if runs(pid)] + [folder] * Path(folder).exists()
    if ROOT:
        for listing in (["ip", "netns", "list"], ["ip", "-o", "link"], ["cat", "/etc/passwd"]):
            text = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
            found += [line for line in text.splitlines() if tag in line]
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += [str(process)] if folder.encode() in process.read_bytes() else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize("way", ["end", "error", "interrupt", "kill"])
def test_a_session_leaves_nothing(way: str) -> None:
    script = SESSION if way != "error" else SESSION + "raise SystemExit(1)"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "0" if way in ("end", "error") else "60"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        tag, folder, *words = process.stdout.readline().split()
        pids = [int(word) for word in words]
        assert tag == f"{PREFIX}{process.pid}"
        assert process.stdout.readline() == "up\n"
        if way in ("interrupt", "kill"):
            there = _left(tag, folder, pids)
            assert folder in there
            assert [pid for pid in pids if str(pid) in there]
            process.send_signal(signal.SIGINT if way == "interrupt" else signal.SIGKILL)
        process.wait(20)
        if way == "kill":
            assert folder in _left(tag, folder, pids)
            sweep()
        assert _left(tag, folder, pids) == []
    finally:
        process.kill()
        process.wait()
        sweep()


def test_two_sessions_side_by_side_share_nothing(yard: Yard) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SESSION, "0"], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    host = TestHost(yard)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert out.endswith("up\n")
    assert host.sh("echo still here").stdout == "still here\n"
    host.close()


def test_many_hosts_come_and_go_on_the_same_addresses(yard: Yard, client: Client) -> None:
    require(root=True)
    first = TestHost(yard)
    client.knows([first])
    assert ssh(client, first, "true").returncode == 0
    card = "cat /sys/class/net/eth0/address"
    mac = first.sh(card).stdout
    first.close()
    # The address comes round again once the others were used.
    while (slot := yard.take_slot()) != int(first.address.rpartition(".")[2]):
        yard.give_slot(slot)
    yard.first_slot(slot)
    again = TestHost(yard)
    client.known_hosts.write_text("")
    client.knows([again])
    assert again.address == first.address
    assert again.sh(card).stdout == mac
    # A stale neighbour would cost TCP's first two repetitions: three seconds.
    done = client.command("ssh", "-o", "ConnectTimeout=2", again.name, "uname -n", check=True)
    assert done.stdout == f"{again.name}\n"
    again.close()


def test_in_ci_a_missing_tool_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-tool"):
        require("sh", "no-such-tool")
    monkeypatch.setenv("CI", "true")
    # A skip in place of the failure would skip this test too: so both are caught, and told apart.
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="no-such-tool") as caught:
        require("sh", "no-such-tool", modules=("json",))
    assert caught.type is pytest.fail.Exception
    require("sh", modules=("json",))
