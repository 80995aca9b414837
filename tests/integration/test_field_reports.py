"""What a tool like this must survive: recipes from public reports (numbers as in the project's list)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.yard import sh

pytestmark = pytest.mark.fleet

Fleet = Callable[..., list[TestHost]]


def launch(client: Client, host: TestHost, *arguments: str) -> str:
    return client.run("launch", "-d", "-H", host.name, *arguments, check=True).stdout.strip()


def reachable(client: Client, name: str) -> bool:
    done = client.run("hosts", "-H", name, "--json")
    return done.returncode == 0 and bool(json.loads(done.stdout)["hosts"][0]["reachable"])


def host_error(client: Client, name: str) -> dict[str, str]:
    error: dict[str, str] = json.loads(client.run("hosts", "-H", name, "--json", check=True).stdout)["hosts"][0][
        "error"
    ]
    return error


def test_b01_hosts_defined_through_include(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    client.knows([host])
    inner = client.home / ".ssh" / "conf.d"
    inner.mkdir()
    client.config.rename(inner / "box")
    client.config.write_text(f'Include "{inner}/*"\n')
    done = client.run("launch", "-H", host.name, "--", "sh", "-c", "echo $0 there", "it is", check=True)
    assert done.stdout == "it is there\n"
    known = client.run("exec", "-H", f"{host.name}x", "--", "true")
    assert host.name in known.stderr, "the nearest name comes from the included file"


def test_b03_proxyjump_none_and_proxycommand_none(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    client.knows([host], options="  ProxyJump none\n  ProxyCommand none\n")
    with open(client.config, "a") as out:
        out.write("Host *\n  ProxyJump gate.invalid\n")
    assert reachable(client, host.name)


def test_jumps_are_followed_in_a_chain_with_every_key_checked(fleet: Fleet, client: Client) -> None:
    first, second, last = fleet(3)
    client.knows([first, second])
    client.knows([last], options=f"  ProxyJump {first.name},{second.name}\n")
    assert client.run("exec", "-H", last.name, "--", "hostname", check=True).stdout == f"{last.name}\n"
    for hop in (first, second):
        assert "direct-tcpip" in hop.log.read_text() or "Accepted publickey" in hop.log.read_text()
    # The second hop becomes a stranger: refused, though the last host is known.
    lines = client.known_hosts.read_text().splitlines()
    client.known_hosts.write_text("".join(f"{line}\n" for line in lines if not line.startswith(second.address + " ")))
    done = client.run("exec", "-H", last.name, "--", "hostname")
    assert done.returncode == 255
    assert "not known" in done.stderr


def test_a_proxycommand_carries_the_connection(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    relay = client.script(
        "relay.py",
        "import os, socket, sys, threading\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    try:\n"
        "        while data := os.read(0, 65536): s.sendall(data)\n"
        "        s.shutdown(socket.SHUT_WR)\n"
        "    except OSError: pass\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536): os.write(1, data)\n",
    )
    client.knows(
        [host], options=f"  ProxyCommand {sys.executable} '{relay}' {host.address} %p\n  HostName {host.name}.invalid\n"
    )
    text = client.config.read_text().replace(f"HostName {host.address}", f"HostKeyAlias {host.address}")
    client.config.write_text(text)
    assert client.run("exec", "-H", host.name, "--", "hostname", check=True).stdout == f"{host.name}\n"


@pytest.fixture
def odd_port(fleet: Fleet, client: Client) -> TestHost:
    """A host on a port other than 22, of which nothing is known yet."""
    host: TestHost = fleet(1, port=2299)[0]
    client.knows([host])
    client.known_hosts.write_text("")
    return host


def test_b05_known_hosts_on_an_odd_port(odd_port: TestHost, client: Client) -> None:
    host, known = odd_port, client.known_hosts
    kind, key = host.host_key.with_suffix(".pub").read_text().split()[:2]
    # Nothing known: refused, with the fingerprint and the way out; nothing accepted silently.
    error = host_error(client, host.name)
    shown = sh("ssh-keygen", "-lf", str(host.host_key)).stdout.split()[1]
    assert error["code"] == "host-key"
    assert shown in error["message"]
    assert "--accept-new" in error["hint"]
    assert known.read_text() == ""
    known.write_text(f"[{host.address}]:2299 {kind} {key}\n")
    assert reachable(client, host.name)
    known.write_text(f"{host.address} {kind} {key}\n")
    assert reachable(client, host.name)
    sh("ssh-keygen", "-H", "-f", str(known))
    assert "|1|" in known.read_text()
    assert reachable(client, host.name)
    second = client.home / "other hosts"
    known.rename(second)
    text = client.config.read_text()
    client.config.write_text(text.replace(f"UserKnownHostsFile {known}", f'UserKnownHostsFile {known} "{second}"'))
    assert reachable(client, host.name)


def test_accept_new_adds_one_line_and_a_changed_key_is_always_refused(odd_port: TestHost, client: Client) -> None:
    host, known = odd_port, client.known_hosts
    known.write_text(
        "# mine\nother.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHz0000000000000000000000000000000000000000000"
    )
    before = known.read_text()
    client.run("--accept-new", "exec", "-H", host.name, "--", "true", check=True)
    assert known.read_text().startswith(before + "\n")
    assert len(known.read_text().splitlines()) == 3
    assert reachable(client, host.name)
    other = client.folder / "other_key"
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other))
    kind, key = other.with_suffix(".pub").read_text().split()[:2]
    known.write_text(f"[{host.address}]:2299 {kind} {key}\n")
    for options in ((), ("--accept-new",)):
        done = client.run(*options, "exec", "-H", host.name, "--", "true")
        assert done.returncode == 255
        assert "changed" in done.stderr
        assert f"{known}:1" in done.stderr
    known.write_text(f"@revoked * {' '.join(host.host_key.with_suffix('.pub').read_text().split()[:2])}\n")
    assert "revoked" in client.run("--accept-new", "exec", "-H", host.name, "--", "true").stderr


def test_host_certificates_by_cert_authority(fleet: Fleet, client: Client) -> None:
    authority = client.folder / "ca"
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(authority))

    def certified(principal: str, *more: str) -> TestHost:
        key = client.folder / f"host_{principal}_{len(more)}"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        sh("ssh-keygen", "-q", "-s", str(authority), "-h", "-I", "test", "-n", principal, *more, str(key) + ".pub")
        made: TestHost = fleet(1, sshd=f"HostKey {key}\nHostCertificate {key}-cert.pub\n")[0]
        client.knows([made], options="  HostKeyAlias box.example\n")
        return made

    good = certified("box.example")
    wrong = certified("somebody.example")
    old = certified("box.example", "-V", "20200101:20200102")
    public = authority.with_suffix(".pub").read_text()
    client.known_hosts.write_text(f"@cert-authority * {public}")
    assert reachable(client, good.name)
    assert "somebody.example" in host_error(client, wrong.name)["message"]
    assert "not valid today" in host_error(client, old.name)["message"]


def test_b08_a_full_agent_does_not_use_up_the_tries(fleet: Fleet, client: Client) -> None:
    host = fleet(1, sshd="MaxAuthTries 6\n")[0]
    client.knows([host])
    socket = client.folder / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        env = {"SSH_AUTH_SOCK": str(socket)}
        while not socket.exists():
            time.sleep(0.02)
        for number in range(7):
            key = client.folder / f"k{number}"
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
            sh("ssh-add", "-q", str(key), env={**os.environ, **env})
        assert client.run("exec", "-H", host.name, "--", "true", env=env).returncode == 0
        # Only the public half is named; the private one is in the agent, eighth.
        sh("ssh-add", "-q", str(client.yard.client_key), env={**os.environ, **env})
        public = client.folder / "named.pub"
        shutil.copy(client.yard.client_key.with_suffix(".pub"), public)
        text = client.config.read_text()
        client.config.write_text(text.replace(f"IdentityFile {client.yard.client_key}", f"IdentityFile {public}"))
        assert client.run("exec", "-H", host.name, "--", "true", env=env).returncode == 0
        client.config.write_text(
            text.replace("IdentitiesOnly yes", "").replace(str(client.yard.client_key), str(client.folder / "none"))
        )
        done = client.run("exec", "-H", host.name, "--", "true", env=env)
        assert done.returncode == 255
        assert "IdentitiesOnly" in done.stderr
    finally:
        agent.terminate()
        agent.wait()


def test_b10_an_encrypted_key_without_a_terminal(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    client.knows([host])
    key = client.folder / "locked"
    shutil.copy(client.yard.client_key, key)
    sh("ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(key))
    client.config.write_text(client.config.read_text().replace(str(client.yard.client_key), str(key)))
    started = time.monotonic()
    done = client.run("exec", "-H", host.name, "--", "true")
    assert done.returncode == 255
    assert time.monotonic() - started < 10
    assert f"ssh-add {key}" in done.stderr
    terminal = client.terminal("launch", "-H", host.name, "--", "echo", "let", "in")
    terminal.wait_for("Passphrase of")
    terminal.send("open sesame", "Enter")
    screen = terminal.wait_for("EXIT=0")
    assert "let in" in screen
    assert screen.count("Passphrase of") == 1


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "fish", "tcsh"])
def test_b11_login_shells_and_chatty_start_up_files(fleet: Fleet, client: Client, shell: str) -> None:
    path = shutil.which(shell)
    assert path or "CI" not in os.environ, f"{shell} is missing"
    if path is None:
        pytest.skip(f"{shell} is missing")
    banner = client.folder / "banner"
    banner.write_text("welcome {gpu-box}\n")
    host = fleet(1, shell=path, sshd=f"Banner {banner}\n")[0]
    client.knows([host], options="  SendEnv LC_ALL\n")
    chatter = "echo 'welcome {gpu-box} \"quoted\"'\n"
    for name in (".bashrc", ".zshenv", ".cshrc", ".config/fish/config.fish"):
        file = host.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(chatter + ("echo note >&2\n" if "csh" not in name else ""))
    with open(host.home / ".profile", "a") as out:
        out.write(chatter)
    host.give(host.home)
    client.script("b.sh", '#!/bin/sh\necho "$1" "$K"; exit 5\n')
    done = client.run(
        "launch",
        "-H",
        host.name,
        "-e",
        "K=it's $HOME !x",
        "b.sh",
        "a 'b' \"c\" $d !e\nf",
        env={"LC_ALL": "xx_YY.UTF-8"},
    )
    assert done.stdout == "a 'b' \"c\" $d !e\nf it's $HOME !x\n"
    assert done.returncode == 5
    listed = json.loads(client.run("ps", "--json", check=True).stdout)
    assert [job["exit_code"] for job in listed["jobs"]] == [5]
    done = client.run("exec", "-H", host.name, "--", "sh", "-c", "exit 6")
    assert done.returncode == 6


def test_b11_a_start_up_file_that_ends_the_shell_is_named(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    client.knows([host])
    (host.home / ".bashrc").write_text("echo 'this account is closed'\nexit 1\n")
    done = client.run("launch", "-H", host.name, "--", "true")
    assert done.returncode == 255
    assert "this account is closed" in done.stderr


def test_b13_tools_that_only_the_login_knows_are_found(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    client.knows([host])
    own = host.home / ".local" / "odd" / "bin"
    own.mkdir(parents=True)
    shutil.copy("/usr/bin/tmux", own / "tmux")
    with open(host.home / ".profile", "a") as out:
        out.write(f"PATH='{own}':$PATH\nFROM_PROFILE=one; export FROM_PROFILE\n")
    host.give(host.home)
    tools = json.loads(client.run("hosts", "-H", host.name, "--json", check=True).stdout)["hosts"][0]["tools"]
    assert tools["tmux"].split(" ")[0] == str(own / "tmux")
    job = launch(client, host, "--", "sh", "-c", "command -v tmux; echo $FROM_PROFILE; sleep 5")
    time.sleep(0.5)
    assert client.run("logs", job, check=True).stdout == f"{own}/tmux\none\n"
    assert [words for words in host.login_processes().values() if words.startswith(str(own / "tmux"))]
    # By option, where nothing else knows it.
    odd = host.folder / "elsewhere"
    odd.mkdir()
    shutil.copy("/usr/bin/tmux", odd / "tmux")
    (client.project / "hosts.yaml").write_text(f"hosts:\n  {host.name}: {{tmux: '{odd}/tmux'}}\n")
    tools = json.loads(client.run("hosts", "-H", host.name, "--json", check=True).stdout)["hosts"][0]["tools"]
    assert tools["tmux"].split(" ")[0] == f"{odd}/tmux"
    (client.project / "hosts.yaml").write_text(f"hosts:\n  {host.name}: {{tmux: /no/such/tmux}}\n")
    done = client.run("launch", "-d", "-H", host.name, "--", "true")
    assert done.returncode == 0
    assert "no tmux" in done.stderr
    assert "/usr/bin" in done.stderr


def test_b17_spaces_and_quotes_in_every_path(fleet: Fleet, client: Client) -> None:
    host = fleet(1, home="it's here $run")[0]
    key = client.folder / "key dir" / "id"
    key.parent.mkdir()
    shutil.copy(client.yard.client_key, key)
    client.knows([host])
    client.config.write_text(client.config.read_text().replace(str(client.yard.client_key), f'"{key}"'))
    project = client.folder / "my proj (v2)"
    client.project.rename(project)
    client.project = project
    names = ["u\u0308 nai\u0308ve.txt", "ü naïve.txt", "it's", "-n", "a\nb", "$HOME", "c d/e f"]
    for name in names:
        client.script(name, f"content of {name}\n", 0o644)
    (project / os.fsdecode(b"latin-\xfc")).write_text("bytes\n")
    client.script("b.sh", "#!/bin/sh\npwd\n")
    done = client.run("launch", "-H", host.name, "b.sh", check=True)
    folder = done.stdout.strip()
    assert folder.startswith(f"{host.home}/.remoterun/jobs/b-")
    there = {entry.relative_to(folder) for entry in Path(folder).rglob("*")}
    here = {entry.relative_to(project) for entry in project.rglob("*")}
    assert there == here
    for name in names:
        assert (host.home / folder / name).read_text() == f"content of {name}\n"
    assert sorted(entry.name for entry in host.home.iterdir() if not entry.name.startswith(".")) == []
    (project / "hosts.yaml").write_text(f'hosts:\n  {host.name}: {{workdir: "~/work dir\'s/$x"}}\n')
    done = client.run("launch", "-H", host.name, "b.sh", check=True)
    assert done.stdout.startswith(f"{host.home}/work dir's/$x/jobs/b-")
    assert client.run("stop", "b", check=True).returncode == 0


def test_b31_the_job_sees_todays_environment_not_the_tmux_servers(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    client.knows([host])
    first = launch(client, host, "-e", "X1=first", "--", "sleep", "60")
    socket = host.sh("ls .remoterun/tmux-*/socket").stdout.strip()
    host.sh(f"tmux -S {socket} set-environment -g X1 old; tmux -S {socket} set-environment -g CUDA_VISIBLE_DEVICES 7")
    with open(host.home / ".profile", "a") as out:
        out.write("X2=today; export X2\n")
    show = ("--", "sh", "-c", "echo ${X1-unset} ${X2-unset} ${CUDA_VISIBLE_DEVICES-unset}")
    assert client.run("launch", "-H", host.name, "-e", "X1=new", *show, check=True).stdout == "new today unset\n"
    assert client.run("launch", "-H", host.name, *show, check=True).stdout == "unset today unset\n"
    shown = host.sh(f"tmux -S {socket} show-environment -g; tmux -S {socket} show-environment -t ={first}").stdout
    assert "first" not in shown


def test_b44_nothing_of_ssh_takes_the_job_along(torch_host: TestHost, client: Client) -> None:
    host = torch_host
    client.script("train.py", "import time\nprint('on', flush=True)\ntime.sleep(14)\nprint('done', flush=True)\n")
    process = client.start("launch", "-H", host.name, "--python", sys.executable, "--nproc-per-node", "2", "train.py")
    assert process.stdout is not None
    while b"on" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGKILL)
    for pid in host.sshd_sessions():
        host.kill(pid)
    job = json.loads(client.run("ps", "--json", check=True).stdout)["jobs"][0]["id"]
    terminal = client.terminal("attach", job)
    terminal.wait_for("on")
    terminal.close()
    supervisors = [pid for pid, words in host.login_processes().items() if "supervise.sh" in words]
    for pid in supervisors:
        os.kill(pid, signal.SIGHUP)
    assert client.run("wait", job, timeout=60).returncode == 0
    text = client.run("logs", job, check=True).stdout
    assert text.count("done") == 2
    assert "SIGHUP" not in text
    assert "signal" not in text.lower()


def test_b44_an_honest_sighup_is_told_as_the_cause(host: TestHost, client: Client) -> None:
    job = launch(client, host, "--", "sleep", "60")
    found: list[int] = []
    while not found:
        found = [pid for pid, words in host.login_processes().items() if words == "sleep 60"]
    os.kill(found[0], signal.SIGHUP)
    assert client.run("wait", job).returncode == 129
    assert "SIGHUP" in client.run("status", job, check=True).stdout


def test_b54_first_and_last_lines_are_never_missing(host: TestHost, client: Client) -> None:
    for number in range(5):
        done = client.run("launch", "-H", host.name, "--", "sh", "-c", "echo first; exit 1")
        assert (done.stdout, done.returncode) == ("first\n", 1), number
    done = client.run("launch", "-H", host.name, "--", "sh", "-c", "seq 1 100000; exit 3")
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 100001))
    assert done.returncode == 3
    done = client.run("launch", "-H", host.name, "--", "sh", "-c", "printf 'no newline'; kill -9 $$")
    assert done.stdout == "no newline\n"
    assert done.returncode == 137
    raw = client.run("logs", "--raw", check=True)
    assert raw.stdout == "no newline"
    client.script("b.sh", "#!/bin/sh\necho never\n")
    gone = client.run("launch", "-H", host.name, "--setup", "cd /no/such/folder || exit 126", "b.sh")
    assert gone.returncode == 126
    assert "could not be started" in gone.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_b28_a_host_that_ends_everything_at_logout_is_named(fleet: Fleet, client: Client) -> None:
    host = fleet(1, superuser=True)[0]
    client.knows([host])
    # In the host's own mount namespace.
    host.sh(
        "mkdir -p etc && echo 'KillUserProcesses = yes' >etc/logind.conf && mkdir -p /etc/systemd && mount --bind etc /etc/systemd"
    )
    done = client.run("doctor", host.name)
    assert done.returncode == 1
    assert "KillExcludeUsers" in done.stdout
    done = client.run("launch", "-d", "-H", host.name, "--", "sh", "-c", "echo last words; exec sleep 1000")
    assert "KillUserProcesses" in done.stderr
    for pid in host.login_processes():
        host.kill(pid)
    job = client.run("status", done.stdout.strip()).stdout
    assert "lost (its supervisor and its first process were killed from outside" in job
    assert "last words" in job


def test_b51_progress_bars_move_on_a_terminal_and_are_one_line_in_a_pipe(host: TestHost, client: Client) -> None:
    client.script(
        "bar.py",
        "import sys, time\n"
        "for step in range(60):\n"
        "    sys.stdout.write(f'\\r{step:3d}%|###|'); sys.stdout.flush(); time.sleep(0.05)\n"
        "    if step == 30: sys.stdout.write('\\nplain line\\n')\n"
        "sys.stdout.write('\\nouter 1\\n\\r inner 5\\x1b[A\\r outer 2 no end')\n",
    )
    screen = client.terminal("launch", "-H", host.name, "--", "python3", "-u", "bar.py")
    first = screen.wait_for("%|###|")
    until = time.monotonic() + 5
    while screen.screen() == first:
        assert time.monotonic() < until, "the bar stands still"
        time.sleep(0.1)
    screen.wait_for("EXIT=0")
    for words in (("logs",), ("logs", "-f")):
        lines = client.run(*words, check=True).stdout.splitlines()
        assert lines[:3] == [" 30%|###|", "plain line", " 59%|###|"]
        assert "no end" in lines[-1]
    raw = client.command(sys.executable, "-m", "remoterun", "logs", "--raw", check=True).stdout
    assert raw.count("%|###|") == 60
