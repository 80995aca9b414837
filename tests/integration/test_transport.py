"""SSH as a way to a host: real sshd, real agents, real failures."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from remoterun.errors import AuthError, ConnectError, HostKeyError, LinkLost, RemoterunError
from remoterun.model.host import SshTarget
from remoterun.transport import keys
from remoterun.transport.base import Connection, Pipe
from remoterun.transport.ssh import SshTransport
from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.proxy import Proxy
from tests.fleet.yard import Yard, sh

pytestmark = pytest.mark.fleet

Fleet = Callable[..., list[TestHost]]


@pytest.fixture
def target(client: Client) -> Callable[..., SshTarget]:
    """``target(host, **changes)``: the way to a host whose key is known."""

    def make(host: TestHost, via: Proxy | None = None, **changes: object) -> SshTarget:
        address, port = ("127.0.0.1", via.port) if via else (host.address, host.port)
        key = " ".join(host.host_key.with_suffix(".pub").read_text().split()[:2])
        with open(client.known_hosts, "a") as out:
            out.write(f"[{address}]:{port} {key}\n{address} {key}\n")
        plain = SshTarget(
            host.name,
            address,
            port,
            host.login,
            identity_files=(str(client.yard.client_key),),
            identities_only=True,
            identity_agent="none",
            known_hosts_files=(str(client.known_hosts),),
            connect_timeout=5.0,
        )
        return replace(plain, **changes)  # type: ignore[arg-type]

    return make


Target = Callable[..., SshTarget]


@pytest.fixture(autouse=True)
def fresh_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a command of its own."""
    monkeypatch.setattr("remoterun.transport.auth.KEYRING", keys.Keyring())


@contextlib.contextmanager
def ssh_agent(folder: Path) -> Iterator[str]:
    """An agent of the test's own; its socket."""
    place = folder / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.DEVNULL)
    try:
        while not place.exists():
            time.sleep(0.01)
        yield str(place)
    finally:
        agent.terminate()
        agent.wait()


def add_key(agent: str, file: Path, *options: str) -> None:
    sh("ssh-add", "-q", *options, str(file), env={**os.environ, "SSH_AUTH_SOCK": agent})


def new_key(file: Path, *options: str, passphrase: str = "") -> Path:
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(file), *options)
    return file


def read_all(pipe: Pipe) -> bytes:
    found = []
    while data := pipe.recv(1 << 17):
        found.append(data)
    return b"".join(found)


def says(connection: Connection, command: str) -> str:
    return read_all(connection.open(command)).decode().strip()


def failure(target: SshTarget, **how: object) -> RemoterunError:
    with pytest.raises(ConnectError) as caught:
        SshTransport(target, **how).connect()  # type: ignore[arg-type]
    assert caught.value.host == target.name
    assert "\n" not in caught.value.message
    return caught.value


def test_streams_statuses_and_signals(fleet: Fleet, target: Target) -> None:
    with SshTransport(target(fleet(1)[0])).connect() as connection:
        pipe = connection.open("cat; echo e >&2; echo o; exit 7")
        pipe.send(b"\0\xff in\n")
        pipe.send_eof()
        assert read_all(pipe) == b"\0\xff in\no\n"
        assert pipe.recv_stderr(100) == b"e\n"
        assert pipe.recv_stderr(100) == b""
        assert pipe.exit_status(5) == 7
        statuses = [0, 1, 2, 126, 127, 128, 254, 255]
        assert [connection.open(f"exit {status}").exit_status(5) for status in statuses] == statuses
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGUSR1):
            assert connection.open(f"kill -{number.value} $$").exit_status(5) == 128 + number, number
        assert connection.open("no-such-tool").exit_status(5) == 127
        with pytest.raises(TimeoutError):
            connection.open("sleep 5").recv(1, 0.1)
        with pytest.raises(TimeoutError):
            connection.open("sleep 5").exit_status(0.1)
        # What reads no more is told as such, not as a dead link; the connection goes on.
        with pytest.raises(LinkLost, match="no longer reads"):
            connection.open("exit 0").send(bytes(32 << 20))
        assert says(connection, "echo $((6 * 7))") == "42"


def test_a_hundred_megabytes_each_way_at_once(fleet: Fleet, target: Target) -> None:
    block = os.urandom(1 << 20)
    wanted = hashlib.sha256(block * 100).hexdigest()
    with SshTransport(target(fleet(1)[0])).connect() as connection:
        pipe = connection.open("exec cat")

        def send() -> None:
            for _ in range(100):
                pipe.send(block)
            pipe.send_eof()

        sender = threading.Thread(target=send)
        sender.start()
        found, size = hashlib.sha256(), 0
        while data := pipe.recv(1 << 17):
            found.update(data)
            size += len(data)
        sender.join()
        assert (size, found.hexdigest()) == (100 << 20, wanted)


def test_round_trips(fleet: Fleet, target: Target, proxy: Callable[..., Proxy]) -> None:
    host = fleet(1)[0]
    way = proxy(host, 0.05)
    with SshTransport(target(host, way)).connect() as connection:
        assert way.round_trips <= 5
        way.reset()
        assert connection.open("echo out; exec cat").recv(100) == b"out\n"
        assert way.round_trips <= 2
        # sshd takes input only once the command runs: its window opens empty.
        way.reset()
        pipe = connection.open("cat")
        pipe.send(b"x")
        assert pipe.recv(1) == b"x"
        assert way.round_trips <= 3


def test_jumps_each_with_their_own_key_and_login(fleet: Fleet, client: Client, target: Target) -> None:
    first, second, last = fleet(3)
    hops = (target(first), target(second))
    there = replace(target(last), jumps=hops)
    with SshTransport(there).connect() as connection:
        assert says(connection, 'echo "${SSH_CONNECTION%% *}"') == second.address
        assert len(says(connection, "head -c 3000000 /dev/zero | od -An -v -tx1 | tr -d ' \\n'")) == 6_000_000
    stranger = str(new_key(client.folder / "stranger"))
    error = failure(replace(there, jumps=(hops[0], replace(hops[1], identity_files=(stranger,)))))
    assert isinstance(error, AuthError)
    assert second.address in error.message
    empty = str(client.folder / "empty")
    for number in range(2):
        odd = tuple(replace(hop, known_hosts_files=(empty,)) if at == number else hop for at, hop in enumerate(hops))
        error = failure(replace(there, jumps=odd))
        assert isinstance(error, HostKeyError)
        assert (first, second)[number].address in error.message
    closed = failure(replace(there, port=9))
    assert "port 9" in closed.message
    assert "jump host would not connect" in closed.message
    with pytest.raises(ConnectError, match="a jump host on the way to"):
        SshTransport(replace(there, jumps=(replace(hops[0], port=9), hops[1]))).connect()
    # A jump that dies takes the connection with it.
    connection = SshTransport(there).connect()
    pipe = connection.open("sleep 30")
    for pid in first.sshd_sessions():
        first.kill(pid)
    with pytest.raises(LinkLost):
        pipe.recv(1)
    connection.close()


def test_no_forwarding_is_the_jump_hosts_word(fleet: Fleet, target: Target) -> None:
    gate, last = fleet(1, sshd="AllowTcpForwarding no\n")[0], fleet(1)[0]
    error = failure(replace(target(last), jumps=(target(gate),)))
    assert "prohibited" in error.message
    assert "forwarding" in error.hint


def test_proxy_commands(fleet: Fleet, target: Target, client: Client) -> None:
    host = fleet(1)[0]
    there = target(host)
    relay = client.folder / "it's a relay.py"
    relay.write_text(
        "import os, socket, sys, threading\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): s.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536): os.write(1, data)\n"
    )
    by = f'{sys.executable} "{relay}" {host.address} {host.port}'
    with SshTransport(replace(there, proxy_command=by)).connect() as connection:
        assert says(connection, "echo through") == "through"
    assert "closed the connection" in failure(replace(there, proxy_command="exit 3")).message
    assert "ProxyCommand" in failure(replace(there, proxy_command="/no/such/program 2>/dev/null")).message
    silent = failure(replace(there, proxy_command="sleep 60", connect_timeout=1.0))
    assert "did not answer within 1 s" in silent.message


def test_failures_to_connect_in_words(fleet: Fleet, target: Target, proxy: Callable[..., Proxy]) -> None:
    host = fleet(1)[0]
    there = target(host)
    assert "does not resolve" in failure(replace(there, hostname="no-such-host.invalid")).message
    assert "does not resolve" in failure(replace(there, hostname="x" * 70 + ".example")).message
    refused = failure(replace(there, port=9))
    assert "refused the connection" in refused.message
    assert refused.code == "unreachable"
    assert "port" in failure(replace(there, port=99999)).message
    way = proxy(host)
    way.cut("hold")
    started = time.monotonic()
    assert "did not answer within 1 s" in failure(target(host, way, connect_timeout=1.0)).message
    assert time.monotonic() - started < 4
    way.restore()
    with _server(b"HTTP/1.1 400 Bad Request\r\n" * 200) as port:
        assert "no SSH server" in failure(replace(there, hostname="127.0.0.1", port=port)).message
    with _server(b"") as port:
        assert "closed the connection" in failure(replace(there, hostname="127.0.0.1", port=port)).message
    odd = fleet(1, sshd="KexAlgorithms sntrup761x25519-sha512@openssh.com\n")[0]
    assert "no algorithm in common" in failure(target(odd)).message
    full = fleet(1, sshd="MaxSessions 1\n")[0]
    with SshTransport(target(full)).connect() as connection:
        pipe = connection.open("cat")
        with pytest.raises(ConnectError, match="refuses another session"):
            connection.open("true")
        pipe.close()


@contextlib.contextmanager
def _server(answer: bytes) -> Iterator[int]:
    """Says ``answer`` to whoever connects, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock, contextlib.suppress(OSError):
                    sock.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_killed_server_is_a_lost_link_and_no_end_of_output(fleet: Fleet, target: Target) -> None:
    host = fleet(1)[0]
    for _ in range(5):
        connection = SshTransport(target(host)).connect()
        pipe = connection.open("cat /dev/zero")
        quiet = connection.open("sleep 30")
        assert pipe.recv(1 << 20)
        for pid in host.sshd_sessions():
            host.kill(pid)
        with pytest.raises(LinkLost):
            while True:
                assert pipe.recv(1 << 20), "an end that is none"
        for call in (quiet.recv, quiet.recv_stderr):
            with pytest.raises(LinkLost):
                call(1)
        with pytest.raises(LinkLost):
            quiet.exit_status()
        with pytest.raises(LinkLost):
            quiet.send(b"x")
        with pytest.raises(LinkLost):
            connection.open("true")
        connection.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_silent_link_is_lost_within_twenty_seconds(fleet: Fleet, target: Target) -> None:
    stopped, cut = fleet(2)
    waiting: list[tuple[str, Callable[[], object]]] = []
    connections = []
    for host in (stopped, cut):
        for doing in ("read", "write", "wait", "open"):
            connection = SshTransport(target(host)).connect()
            connections.append(connection)
            pipe = connection.open("sleep 100")
            calls: dict[str, Callable[[], object]] = {
                "read": lambda pipe=pipe: pipe.recv(1),  # type: ignore[misc]
                "write": lambda pipe=pipe: [pipe.send(bytes(1 << 20)) for _ in range(1000)],  # type: ignore[misc]
                "wait": pipe.exit_status,
                "open": lambda connection=connection: connection.open("true"),  # type: ignore[misc]
            }
            waiting.append((f"{doing} {host.name}", calls[doing]))
    sessions = stopped.sshd_sessions()
    for pid in sessions:
        stopped.kill(pid, signal.SIGSTOP)
    cut.cut()
    started = time.monotonic()

    def lost(call: Callable[[], object]) -> float:
        with pytest.raises(LinkLost, match=r"does not answer|was cut"):
            call()
        return time.monotonic() - started

    try:
        with ThreadPoolExecutor(len(waiting)) as pool:
            took = dict(zip((name for name, _ in waiting), pool.map(lost, (call for _, call in waiting)), strict=True))
    finally:
        for pid in sessions:
            stopped.kill(pid, signal.SIGCONT)
        cut.restore()
        for connection in connections:
            connection.close()
    assert max(took.values()) < 20, took


@pytest.mark.slow
def test_an_idle_link_and_a_slow_one_live_on(
    fleet: Fleet, target: Target, proxy: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remoterun.transport.watchdog.ASK_AFTER_S", 1.0)
    monkeypatch.setattr("remoterun.transport.watchdog.DEAD_AFTER_S", 3.0)
    host = fleet(1)[0]
    way = proxy(host, 0.4)
    with SshTransport(target(host, way)).connect() as connection:
        pipe = connection.open("sleep 6; echo still here")
        assert read_all(pipe) == b"still here\n"


def test_closing_from_another_thread_frees_who_waits(fleet: Fleet, target: Target) -> None:
    host = fleet(1)[0]
    connection = SshTransport(target(host)).connect()
    pipe, other = connection.open("sleep 30"), connection.open("sleep 30")
    got: list[object] = []
    threads = [
        threading.Thread(target=lambda: got.append(pipe.recv(1))),
        threading.Thread(target=lambda: got.append(pipe.recv_stderr(1))),
        threading.Thread(target=lambda: got.append(other.exit_status())),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    connection.close()
    connection.close()
    pipe.close()
    for thread in threads:
        thread.join(5)
    assert time.monotonic() - started < 2
    assert sorted(map(str, got)) == ["255", "b''", "b''"]
    until = time.monotonic() + 5
    while host.sshd_sessions() and time.monotonic() < until:
        time.sleep(0.05)
    assert not host.sshd_sessions()


def test_passphrases_are_asked_for_once(fleet: Fleet, target: Target, client: Client) -> None:
    host = fleet(1)[0]
    locked = client.folder / "locked"
    locked.write_bytes(client.yard.client_key.read_bytes())
    locked.chmod(0o600)
    sh("ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(locked))
    there = target(host, identity_files=(str(locked),))
    asked: list[str] = []

    def answer(words: Iterator[str | None]) -> Callable[[str], str | None]:
        def prompt(question: str) -> str | None:
            asked.append(question)
            time.sleep(0.05)
            return next(words)

        return prompt

    # Many connections at once, a wrong word first.
    prompt = answer(iter(["nonsense", "open sesame"]))
    with ThreadPoolExecutor(4) as pool:
        for connection in pool.map(lambda _: SshTransport(there, prompt=prompt).connect(), range(4)):
            connection.close()
    assert len(asked) == 2
    assert str(locked) in asked[0]


def test_without_somebody_to_ask_the_locked_key_is_named(fleet: Fleet, target: Target, client: Client) -> None:
    host = fleet(1)[0]
    locked = new_key(client.folder / "locked", passphrase="secret")
    there = target(host, identity_files=(str(locked),))
    asked: list[str] = []
    for how in ({}, {"prompt": lambda question: asked.append(question)}):
        started = time.monotonic()
        error = failure(there, **how)
        assert isinstance(error, AuthError)
        assert str(locked) in error.message
        assert f"ssh-add {locked}" in error.hint
        assert time.monotonic() - started < 5
    assert [question for question in asked if str(locked) in question] == asked[:1]
    # In the agent as well: nobody is asked, whether the public half lies beside it or only inside.
    sh("ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(_copy_of_good_key(client, "good")))
    good = client.folder / "good"
    with ssh_agent(client.folder) as agent:
        add_key(agent, client.yard.client_key)
        known = replace(there, identity_files=(str(good),), identity_agent=agent)
        SshTransport(known).connect().close()
        SshTransport(replace(known, identities_only=False)).connect().close()
        with pytest.raises(AuthError):
            SshTransport(replace(known, identity_agent="none")).connect()


def _copy_of_good_key(client: Client, name: str) -> Path:
    file = client.folder / name
    file.write_bytes(client.yard.client_key.read_bytes())
    file.chmod(0o600)
    return file


def test_a_full_agent(fleet: Fleet, target: Target, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    host = fleet(1, sshd="MaxAuthTries 6\n")[0]
    there = target(host)
    with ssh_agent(client.folder) as agent:
        for number in range(7):
            add_key(agent, new_key(client.folder / f"k{number}"))
        SshTransport(replace(there, identity_agent=agent)).connect().close()
        # The right key is the eighth; only its public half is a file.
        add_key(agent, client.yard.client_key)
        public = client.folder / "named.pub"
        public.write_bytes(client.yard.client_key.with_suffix(".pub").read_bytes())
        for only in (True, False):
            named = replace(there, identity_agent=agent, identity_files=(str(public),), identities_only=only)
            SshTransport(named).connect().close()
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        lost = replace(there, identity_agent=None, identity_files=(), identities_only=False)
        error = failure(lost)
        assert isinstance(error, AuthError)
        assert "IdentitiesOnly" in error.hint
        assert "6 keys" in error.message
    # The agent is gone, its socket is not: as without one.
    assert "no key to log in" in failure(replace(lost, identity_agent=agent)).message
    SshTransport(replace(there, identity_agent=agent)).connect().close()


def test_which_keys_are_skipped_and_which_are_named(fleet: Fleet, target: Target, client: Client) -> None:
    there = target(fleet(1)[0])
    good = there.identity_files[0]
    missing, garbled, folder = client.folder / "missing", client.folder / "garbled", client.folder / "folder"
    garbled.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nno\n-----END OPENSSH PRIVATE KEY-----\n")
    folder.mkdir()
    SshTransport(replace(there, identity_files=(str(missing), str(garbled), str(folder), good))).connect().close()
    assert "no key" in failure(replace(there, identity_files=(str(missing), str(folder)))).message
    error = failure(replace(there, identity_files=(str(garbled),)))
    assert isinstance(error, AuthError)
    assert str(garbled) in error.message
    stranger = str(new_key(client.folder / "stranger"))
    assert "refused the key that was offered" in failure(replace(there, identity_files=(stranger,))).message
    for kind, options in (("rsa", ("-b", "2048")), ("ecdsa", ())):
        file = client.folder / kind
        sh("ssh-keygen", "-q", "-t", kind, *options, "-N", "", "-f", str(file))
        authorized = Path(f"{file}.pub").read_text()
        host = fleet(1)[0]
        (host.folder / "keys" / host.login).write_text(authorized)
        SshTransport(target(host, identity_files=(str(file),))).connect().close()


def test_certificates_of_a_login(fleet: Fleet, target: Target, client: Client) -> None:
    authority = new_key(client.folder / "ca")
    host = fleet(1, sshd=f"TrustedUserCAKeys {authority}.pub\n")[0]
    (host.folder / "keys" / host.login).write_text("")
    mine, decoy = new_key(client.folder / "mine"), new_key(client.folder / "decoy")
    there = target(host, identity_files=(str(mine),))
    assert isinstance(failure(there), AuthError)
    for key in (mine, decoy):
        sh("ssh-keygen", "-q", "-s", str(authority), "-I", "it", "-n", host.login if key is mine else "x", f"{key}.pub")
    SshTransport(there).connect().close()
    elsewhere = client.folder / "elsewhere.pub"
    Path(f"{mine}-cert.pub").rename(elsewhere)
    wrong = f"{decoy}-cert.pub"
    SshTransport(replace(there, certificate_files=(wrong, str(elsewhere)))).connect().close()
    assert "refused the key" in failure(replace(there, certificate_files=(wrong,))).message
    # In the agent: the key, whose certificate is a file; then both.
    with ssh_agent(client.folder) as agent:
        add_key(agent, mine)
        named = replace(
            there, identity_agent=agent, identity_files=(f"{mine}.pub",), certificate_files=(str(elsewhere),)
        )
        SshTransport(named).connect().close()
        elsewhere.rename(f"{mine}-cert.pub")
        add_key(agent, mine)
        bare = replace(there, identity_agent=agent, identity_files=(), identities_only=False)
        SshTransport(bare).connect().close()


def test_two_factors_and_batch_mode(fleet: Fleet, target: Target, client: Client) -> None:
    second = new_key(client.folder / "second")
    both = fleet(1, sshd="AuthenticationMethods publickey,publickey\n")[0]
    with open(both.folder / "keys" / both.login, "a") as out:
        out.write(Path(f"{second}.pub").read_text())
    there = target(both)
    SshTransport(replace(there, identity_files=(*there.identity_files, str(second)))).connect().close()
    assert isinstance(failure(there), AuthError)
    word = fleet(1, sshd="AuthenticationMethods publickey,password\nPasswordAuthentication yes\n")[0]
    sh("usermod", "-p", sh("openssl", "passwd", "-6", "sesame").stdout.strip(), word.login)
    asked: list[str] = []
    answers = iter(["wrong", "sesame"])

    def prompt(question: str) -> str:
        asked.append(question)
        return next(answers)

    SshTransport(target(word), prompt=prompt).connect().close()
    assert [word.login in question for question in asked] == [True, True]
    assert isinstance(failure(target(word, options={"batchmode": "yes"}), prompt=prompt), AuthError)
    assert len(asked) == 2


def test_ipv6_and_link_local(fleet: Fleet, target: Target, client: Client, yard: Yard) -> None:
    host = fleet(1, sshd="ListenAddress ::\nListenAddress 0.0.0.0\n")[0]
    there = target(host)
    found = host.sh("cat /proc/net/if_inet6").stdout.split("\n")
    local = next(line.split() for line in found if line.split()[3:4] == ["20"])
    raw = local[0]
    address = ":".join(raw[at : at + 4] for at in range(0, 32, 4))
    bridge = next(line.split()[2] for line in sh("ip", "-o", "route", "get", host.address).stdout.split("\n") if line)
    name = f"{socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address))}%{bridge}"
    key = " ".join(host.host_key.with_suffix(".pub").read_text().split()[:2])
    with open(client.known_hosts, "a") as out:
        out.write(f"{name} {key}\n")
    until = time.monotonic() + 5
    while True:
        try:
            with SshTransport(replace(there, hostname=name)).connect() as connection:
                assert says(connection, "echo ${SSH_CONNECTION%% *}").startswith("fe80:")
            break
        except ConnectError:
            # A new link's address is checked for duplicates for a second or two.
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_interactive_argv_reaches_the_same_login(fleet: Fleet, client: Client) -> None:
    host = fleet(1)[0]
    client.knows([host], name="box")
    target = SshTarget("box", host.address, host.port, host.login, known_hosts_files=(str(client.known_hosts),))
    argv = SshTransport(target).interactive_argv('echo "$USER it\'s $((1 + 1))"; exit 3')
    assert argv[:2] == ["ssh", "-t"]
    assert argv[-3:-1] == ["--", "box"]
    done = client.command(*argv)
    assert done.returncode == 3
    assert done.stdout.strip() == f"{host.login} it's 2"


def test_nothing_is_left_behind_and_nothing_is_printed(
    fleet: Fleet, target: Target, capfd: pytest.CaptureFixture[str]
) -> None:
    host = fleet(1)[0]
    there = target(host)
    SshTransport(there).connect().close()

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    time.sleep(0.5)
    before = open_files()
    for _ in range(5):
        with SshTransport(there).connect() as connection:
            assert connection.open("exit 0").exit_status() == 0
        failure(replace(there, port=9))
        failure(replace(there, identity_files=()))
        failure(replace(there, known_hosts_files=()))
    until = time.monotonic() + 5
    while open_files() > before and time.monotonic() < until:
        time.sleep(0.1)
    assert open_files() <= before
    for pid in host.sshd_sessions():
        host.kill(pid)
    assert capfd.readouterr() == ("", "")
