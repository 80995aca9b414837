"""Host keys: the same verdict as OpenSSH's own client, on the same files, about the same server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remoterun.errors import AuthError, HostKeyError
from remoterun.model.host import SshTarget
from remoterun.transport.ssh import SshTransport
from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.yard import sh

pytestmark = pytest.mark.fleet

Fleet = Callable[..., list[TestHost]]


def make_key(file: Path, kind: str = "ed25519") -> str:
    """A new key; its public half as known_hosts has it."""
    sh("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(file))
    return public(file)


def public(file: Path) -> str:
    return " ".join(Path(f"{file}.pub").read_text().split()[:2])


class Judges:
    """Ours and OpenSSH's, with the same settings. Neither has anything to log in with: once the key is trusted, the
    server refuses, which is all that the tests need."""

    def __init__(self, client: Client, host: TestHost) -> None:
        self.client = client
        self.host = host
        self.files = (client.folder / "known one", client.folder / "known_two")
        self.target = SshTarget(
            host.name,
            host.address,
            host.port,
            host.login,
            identity_agent="none",
            known_hosts_files=tuple(map(str, self.files)),
            strict_host_key_checking="yes",
        )

    @property
    def name(self) -> str:
        """As known_hosts has the host."""
        return self.host.address if self.host.port == 22 else f"[{self.host.address}]:{self.host.port}"

    def openssh(self, target: SshTarget) -> bool:
        options = {
            "UserKnownHostsFile": " ".join(f'"{file}"' for file in target.known_hosts_files),
            "GlobalKnownHostsFile": "none",
            "StrictHostKeyChecking": target.strict_host_key_checking,
            "UpdateHostKeys": "no",
            "PubkeyAuthentication": "no",
            "BatchMode": "yes",
            "KexAlgorithms": "curve25519-sha256",
            "HashKnownHosts": target.options.get("hashknownhosts", "no"),
            "HostKeyAlias": target.host_key_alias or "none",
        }
        words = [word for key, value in options.items() if value != "none" for word in ("-o", f"{key}={value}")]
        where = ["-l", target.user, "-p", str(target.port), target.hostname]
        done = sh("ssh", "-F", "none", "-o", "GlobalKnownHostsFile=none", *words, *where, "true", check=False)
        said = {
            "Permission denied": True,
            "Host key verification failed": False,
            "certificate": False,
            "revoked": False,
        }
        found = {verdict for words, verdict in said.items() if words in done.stderr}
        assert len(found) == 1, done.stderr
        return found.pop()

    def ours(self, target: SshTarget, *, accept_new: bool = False) -> str:
        """An empty word where the host is trusted, else the reason."""
        try:
            SshTransport(target, accept_new=accept_new).connect()
        except HostKeyError as error:
            assert error.host == target.name
            return error.message
        except AuthError:
            return ""
        raise AssertionError("logged in without a key")

    def agree(self, *files: str, target: SshTarget | None = None) -> str:
        """Both judges on these known_hosts files (all that they may change is given back); the reason of a refusal."""
        target = target or self.target
        after = []
        reason = ""
        for judge in ("openssh", "ours"):
            for file, text in zip(self.files, (*files, ""), strict=False):
                file.write_text(text)
            if judge == "openssh":
                trusted = self.openssh(target)
            else:
                reason = self.ours(target)
                assert trusted == (not reason), f"ssh trusts: {trusted}; we say: {reason or 'trusted'}; {files}"
            after.append(tuple(file.read_text() for file in self.files))
        if target.options.get("hashknownhosts") != "yes":
            assert after[0] == after[1]
        return reason


@pytest.mark.parametrize("port", [22, 2299])
def test_plain_keys_as_openssh_judges_them(fleet: Fleet, client: Client, port: int) -> None:
    rsa = client.folder / "rsa"
    make_key(rsa, "rsa")
    host = fleet(1, port=port, sshd=f"HostKey {rsa}\n")[0]
    judges = Judges(client, host)
    name, address, key = judges.name, host.address, public(host.host_key)
    other = make_key(client.folder / "other")
    other_rsa = make_key(client.folder / "other_rsa", "rsa")
    ecdsa = make_key(client.folder / "ecdsa", "ecdsa")
    agree = judges.agree
    hidden = client.folder / "hidden"

    def hashed(text: str) -> str:
        hidden.write_text(text)
        sh("ssh-keygen", "-q", "-H", "-f", str(hidden))
        return hidden.read_text()

    good = [
        f"{name} {key}\n",
        f"{name} {key} a comment\n",
        f"{name}   {key}",
        f"# {name} {other}\n\n \t{name}\t{key}\n",
        f"{name} {public(rsa)}\n",
        f"other.example,{name},third {key}\n",
        f"*.example,{name} {key}\n",
        hashed(f"{name} {key}\n"),
        f"!10.255.255.255,*{name[1:]} {key}\n",
        f"{name} {other}\n{name} {key}\n",
        f"{name} ssh-ed25519 garbage\n{name} {key}\n",
        f"{name} {other_rsa}\n{name} {key}\n",
        f"@revoked {name} {other}\n{name} {key}\n",
        f"@cert-authority {name} {other}\n{name} {key}\n",
        f"{name.replace('1', '?')} {key}\n",
    ]
    for text in good:
        assert agree(text) == ""
        assert agree("", text) == ""
    assert "not known" in agree("")
    assert "not known" in agree(f"!{name},!{address},* {key}\n")
    assert "not known" in agree(f"10.0.0.999 {key}\n@cert-authority {name} {key}\n")
    for text in (f"{name} {other}\n", hashed(f"{name} {other}\n"), f"{name} {ecdsa}\n", f"{name} {other_rsa}\n"):
        assert "has changed" in agree(text)
    assert f"{judges.files[1]}:2" in agree("", f"# one\n{name} {other}\n")
    assert "revoked" in agree(f"{name} {key}\n@revoked * {key}\n")
    assert "revoked" in agree(f"@revoked {name} {key}\n", f"{name} {key}\n")
    # An entry without the port serves any port when its key fits, and says nothing when it does not.
    expected = {22: ("", "has changed"), 2299: ("", "not known")}[port]
    assert agree(f"{address} {key}\n") == expected[0]
    assert expected[1] in agree(f"{address} {other}\n")
    assert "revoked" in agree(f"{name} {key}\n@revoked {address} {key}\n") if port == 22 else True
    aliased = replace(judges.target, host_key_alias="box.example")
    assert agree(f"box.example {key}\n", target=aliased) == ""
    assert "not known" in agree(f"{name} {key}\n", target=aliased)


def test_accepting_writes_what_openssh_writes(fleet: Fleet, client: Client) -> None:
    host = fleet(1, port=2299)[0]
    judges = Judges(client, host)
    other = make_key(client.folder / "other")
    for word in ("accept-new", "no", "off"):
        lenient = replace(judges.target, strict_host_key_checking=word)
        assert judges.agree("", target=lenient) == ""
        assert judges.files[0].read_text() == f"{judges.name} {public(host.host_key)}\n"
        assert judges.agree(f"x {other}\n", target=lenient) == ""
    # A changed key is refused, whatever the configuration says (ssh goes on with "no", less its passwords).
    for word in ("accept-new", "no", "off", "ask"):
        judges.files[0].write_text(f"{judges.name} {other}\n")
        target = replace(judges.target, strict_host_key_checking=word)
        assert "has changed" in judges.ours(target, accept_new=True)
        assert judges.files[0].read_text() == f"{judges.name} {other}\n"
    hashing = replace(judges.target, strict_host_key_checking="accept-new", options={"hashknownhosts": "yes"})
    assert judges.agree("", target=hashing) == ""
    assert judges.files[0].read_text().startswith("|1|")
    assert judges.openssh(judges.target), "OpenSSH finds the line that we hashed"
    # The first file is made where it is not there yet, in a folder for its owner alone.
    new = client.folder / "fresh" / ".ssh" / "known_hosts"
    assert judges.ours(replace(judges.target, known_hosts_files=(str(new),)), accept_new=True) == ""
    assert new.parent.stat().st_mode & 0o777 == 0o700
    assert judges.ours(replace(judges.target, known_hosts_files=(str(new),))) == ""


def test_host_certificates_as_openssh_judges_them(fleet: Fleet, client: Client) -> None:
    key, authority = client.folder / "host_key", client.folder / "ca"
    make_key(key)
    ca = make_key(authority)
    stranger = make_key(client.folder / "stranger")
    make_key(client.folder / "rsa_ca", "rsa")
    make_key(client.folder / "ecdsa_ca", "ecdsa")

    def sign(*options: str, by: str = "ca") -> None:
        for old in (Path(f"{key}-cert.pub"),):
            old.unlink(missing_ok=True)
        sh("ssh-keygen", "-q", "-s", str(client.folder / by), "-I", "it", *options, f"{key}.pub")

    sign("-h")
    host = fleet(1, port=2299, sshd=f"HostKey {key}\nHostCertificate {key}-cert.pub\n")[0]
    judges = Judges(client, host)
    name, address = judges.name, host.address

    def signed(*options: str, by: str = "ca") -> None:
        sign("-h", *options, by=by)
        host.stop_sshd()
        host.start_sshd()

    signed("-n", f"{address},other")
    for pattern in ("*", name, "*.example,10.*", f"{address}", "[10.*]:2299"):
        assert judges.agree(f"@cert-authority {pattern} {ca}\n") == "", pattern
    assert judges.agree("", f"# two\n@cert-authority * {ca}\n") == ""
    # No authority that counts: the plain key decides.
    assert "not known" in judges.agree(f"@cert-authority 192.168.* {ca}\n")
    assert "not known" in judges.agree(f"@cert-authority * {stranger}\n")
    assert judges.agree(f"@cert-authority * {stranger}\n{name} {public(key)}\n") == ""
    assert "has changed" in judges.agree(f"@cert-authority * {stranger}\n{name} {stranger}\n")
    lenient = replace(judges.target, strict_host_key_checking="accept-new")
    assert judges.agree(f"@cert-authority * {stranger}\n", target=lenient) == ""
    # The authority or the key is revoked.
    assert "revoked" in judges.agree(f"@cert-authority * {ca}\n@revoked * {ca}\n")
    assert "revoked" in judges.agree(f"@cert-authority * {ca}\n@revoked * {public(key)}\n")
    assert "revoked" in judges.agree(f"{name} {public(key)}\n@cert-authority * {ca}\n@revoked * {ca}\n")
    alias = replace(judges.target, host_key_alias="other")
    assert judges.agree(f"@cert-authority other {ca}\n", target=alias) == ""
    # An authority that counts, and a certificate that is not good: again the plain key decides.
    for options, reason in (
        (("-n", "somebody.example"), "somebody.example"),
        (("-n", f"{address}", "-V", "20200101:20200102"), "not valid today"),
        (("-n", f"{address}", "-V", "+1d:+2d"), "not valid today"),
        (("-n", f"{address}", "-O", "critical:odd@example.org=1"), "critical"),
    ):
        signed(*options)
        assert reason in judges.agree(f"@cert-authority * {ca}\n")
        assert judges.agree(f"@cert-authority * {ca}\n{name} {public(key)}\n") == ""
        assert judges.agree(f"@cert-authority * {ca}\n", target=lenient) == ""
    for by in ("rsa_ca", "ecdsa_ca"):
        signed("-n", address, by=by)
        assert judges.agree(f"@cert-authority * {public(client.folder / by)}\n") == ""
    # Names are taken literally; no names mean every host to an OpenSSH of these days, and none to us.
    signed("-n", "10.*")
    assert "10.*" in judges.agree(f"@cert-authority * {ca}\n")
    signed()
    judges.files[0].write_text(f"@cert-authority * {ca}\n")
    assert "no host" in judges.ours(judges.target)
