"""hosts.yaml alone is enough to reach real hosts: through each other, over IPv6, by what is typed after -H."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from remoterun.config.inventory import Inventory
from remoterun.transport.factory import make_transport
from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet


def remember(client: Client, host: TestHost, address: str) -> None:
    """A known_hosts line for an address of a host."""
    kind, key = host.host_key.with_suffix(".pub").read_text().split()[:2]
    name = address if host.port == 22 else f"[{address}]:{host.port}"
    with open(client.known_hosts, "a") as out:
        out.write(f"{name} {kind} {key}\n")


def entry(client: Client, host: TestHost) -> str:
    key = client.yard.client_key
    return f"address: {host.address}, port: {host.port}, user: {host.login}, identity_file: {key}"


def test_a_jump_through_a_host_of_hosts_yaml(
    fleet: Callable[..., list[TestHost]], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, inner = fleet(2)
    for host in (gate, inner):
        remember(client, host, host.address)
    (client.project / "hosts.yaml").write_text(
        f"hosts:\n  gate: {{{entry(client, gate)}}}\n  inner: {{{entry(client, inner)}, jump: gate}}\n"
    )
    done = client.run("exec", "-H", "inner", "--", "sh", "-c", 'echo "$SSH_CONNECTION"')
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == gate.address
    assert "Accepted publickey" in gate.log.read_text(), "the way leads through the gate"
    client.use(monkeypatch)
    # What attach hands the terminal to goes the same way.
    argv = make_transport(Inventory.load().hosts["inner"]).interactive_argv('echo "$SSH_CONNECTION"')
    done = client.command(*[word for word in argv if word != "-t"])
    assert done.returncode == 0, (shlex.join(argv), done.stderr)
    assert done.stdout.split()[0] == gate.address


def test_b16_an_ipv6_address_as_it_is_typed(
    fleet: Callable[..., list[TestHost]], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host listens on ::1 too, which is reached through itself."""
    (host,) = fleet(1, sshd="ListenAddress ::1")
    for address in (host.address, "::1"):
        remember(client, host, address)
    (client.project / "hosts.yaml").write_text(
        f"defaults: {{jump: gate, identity_file: {client.yard.client_key}}}\nhosts:\n  gate: {{{entry(client, host)}}}\n"
    )
    typed = f"{host.login}@[::1]:{host.port}"
    done = client.run("exec", "-H", typed, "--", "sh", "-c", 'echo "$SSH_CONNECTION"')
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[2] == "::1"
    client.use(monkeypatch)
    argv = make_transport(Inventory.load().host(typed)).interactive_argv('echo "$SSH_CONNECTION"')
    done = client.command(*[word for word in argv if word != "-t"])
    assert done.returncode == 0, (shlex.join(argv), done.stderr)
    assert done.stdout.split()[2] == "::1"
    done = client.run("exec", "-H", f"{host.login}@::1:{host.port}", "--", "true")
    assert done.returncode == 2
    assert f"{host.login}@[::1]:{host.port}" in done.stderr
