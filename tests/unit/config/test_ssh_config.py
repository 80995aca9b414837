"""``ssh -G`` read: every expectation is checked against the real ssh, with a configuration of the test's own."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from remoterun.config import ssh_command
from remoterun.config.ssh_config import asked_by, overrides, resolve, resolve_many
from remoterun.config.ssh_names import ssh_config_hosts
from remoterun.errors import ConfigError
from remoterun.model.host import Host, SshTarget
from tests.fleet.need import require

HOME = pwd.getpwuid(os.getuid()).pw_dir
USER = pwd.getpwuid(os.getuid()).pw_name


class Laptop:
    """An SSH configuration in a folder."""

    def __init__(self, folder: Path) -> None:
        require("ssh")
        self.folder = folder
        self.file = folder / "config"
        self.ssh = ("ssh", "-F", str(self.file))

    def says(self, text: str) -> None:
        self.file.write_text(text)

    def resolve(self, host: Host | str) -> SshTarget:
        return resolve(Host(host) if isinstance(host, str) else host, ssh=self.ssh)

    def ssh_g(self, *arguments: str) -> dict[str, str]:
        """What ssh itself prints, last value of each key."""
        done = subprocess.run([*self.ssh, "-T", "-G", *arguments], capture_output=True, text=True, check=True)
        return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def test_b01_included_hosts_are_what_ssh_says(laptop: Laptop) -> None:
    """An Include at the top, in an included file, and inside a Host block."""
    (laptop.folder / "conf.d").mkdir()
    (laptop.folder / "conf.d" / "box").write_text(
        f"Host box\n HostName 10.9.8.7\n Port 2299\n User bob\n IdentityFile {laptop.folder}/key\nInclude {laptop.folder}/more\n"
    )
    (laptop.folder / "more").write_text("Host box\n ConnectTimeout 7\n")
    (laptop.folder / "inner").write_text("Host second\n Port 77\nHost *\n User inner\n")
    laptop.says(f"Include {laptop.folder}/conf.d/*\nHost second\n Include {laptop.folder}/inner\n")
    box, said = laptop.resolve("box"), laptop.ssh_g("box")
    assert (box.hostname, box.port, box.user) == (said["hostname"], int(said["port"]), said["user"])
    assert (box.hostname, box.port, box.user) == ("10.9.8.7", 2299, "bob")
    assert box.identity_files == (f"{laptop.folder}/key",)
    second = laptop.resolve("second")
    assert (second.port, second.user) == (77, "inner")


@pytest.mark.parametrize("option", ["ProxyJump", "ProxyCommand"])
def test_b03_none_is_not_a_host(laptop: Laptop, option: str) -> None:
    laptop.says(f"Host box\n {option} none\nHost gate\n ProxyJump none\nHost *\n ProxyJump gate\n")
    box = laptop.resolve("box")
    assert box.proxy_command is None
    assert [hop.name for hop in laptop.resolve("other").jumps] == ["gate"]
    # `ProxyCommand none` does not undo a ProxyJump, in OpenSSH either.
    assert bool(box.jumps) == ("proxyjump" in laptop.ssh_g("box"))
    assert not box.jumps or option == "ProxyCommand"


def test_b05_known_hosts_files(laptop: Laptop) -> None:
    spaced = laptop.folder / "known hosts"
    laptop.says(
        f'Host two\n UserKnownHostsFile {laptop.folder}/a "{spaced}" ~/%h.known\n GlobalKnownHostsFile {laptop.folder}/g\n'
        " HostName h1\nHost none\n UserKnownHostsFile none\n GlobalKnownHostsFile none\n"
        "Host alias\n HostKeyAlias cluster\n StrictHostKeyChecking no\n"
        "Host strict\n StrictHostKeyChecking yes\nHost new\n StrictHostKeyChecking accept-new\n"
    )
    expected = (f"{laptop.folder}/a", str(spaced), f"{HOME}/h1.known", f"{laptop.folder}/g")
    assert laptop.resolve("two").known_hosts_files == expected, "a file that is not there yet"
    spaced.touch()
    assert laptop.resolve("two").known_hosts_files == expected
    assert laptop.resolve("none").known_hosts_files == ()
    assert f"{HOME}/.ssh/known_hosts" in laptop.resolve("plain").known_hosts_files
    alias = laptop.resolve("alias")
    assert (alias.host_key_alias, alias.strict_host_key_checking) == ("cluster", "no")
    strict = [laptop.resolve(name).strict_host_key_checking for name in ("strict", "new", "plain")]
    assert strict == ["yes", "accept-new", "ask"]


@pytest.mark.parametrize("address", ["fd00:77::2", "fe80::1%eth0"])
def test_b16_ipv6(laptop: Laptop, address: str) -> None:
    laptop.says(f"Host six\n HostName {address.replace('%', '%%')}\nHost via\n ProxyJump u@[fe80::1%%eth0]:2299\n")
    assert laptop.resolve("six").hostname == address
    from_yaml = Host("named", address=address, port=2299)
    assert laptop.resolve(from_yaml).hostname == address
    assert laptop.ssh_g(*overrides(from_yaml), "--", "named")["hostname"] == address
    typed = Host(f"u@[{address}]:2299", user="u", port=2299)
    target = laptop.resolve(typed)
    assert (target.hostname, target.user, target.port, target.name) == (address, "u", 2299, typed.name)
    assert target.destination == asked_by(typed) == address
    (hop,) = laptop.resolve("via").jumps
    assert (hop.user, hop.hostname, hop.port) == ("u", "fe80::1%eth0", 2299)
    (hop,) = laptop.resolve(Host("other", jump=f"u@[{address}]:2299")).jumps
    assert hop.hostname == address


def test_hosts_yaml_wins_but_the_names_blocks_apply(laptop: Laptop) -> None:
    laptop.says(
        "Host gpu1\n HostName old.example\n Port 1\n User old\n HostKeyAlias kept\n IdentityFile ~/old\n ProxyCommand nc %h %p\n"
        "Host *\n IdentitiesOnly yes\n"
    )
    host = Host("gpu1", address="10.0.0.1", port=2222, user="new", identity_file="~/a key", jump="gate")
    target = laptop.resolve(host)
    assert (target.hostname, target.port, target.user) == ("10.0.0.1", 2222, "new")
    assert (target.host_key_alias, target.identities_only) == ("kept", True)
    assert target.identity_files == (f"{HOME}/a key", f"{HOME}/old")
    assert target.proxy_command is None
    assert [hop.hostname for hop in target.jumps] == ["gate"]
    said = laptop.ssh_g(*overrides(host), "--", "gpu1")
    assert (said["hostname"], said["port"], said["user"], said["proxyjump"]) == ("10.0.0.1", "2222", "new", "gate")


def test_a_named_key_takes_the_place_of_the_default_ones(laptop: Laptop) -> None:
    laptop.says("")
    assert laptop.resolve(Host("a", identity_file='/k "1" \\2')).identity_files == ('/k "1" \\2',)
    assert f"{HOME}/.ssh/id_ed25519" in laptop.resolve("a").identity_files


def test_tokens_and_variables(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    monkeypatch.setenv("MY_AGENT", "/agent/socket")
    laptop.says(
        "Host a\n HostName %h.example\n Port 5\n User bob\n IdentityFile ${KEYS}/%h_%p_%r_%n_%u_%%_%i\n IdentityFile %d/x\n"
        " IdentityFile ~/y\n CertificateFile ~/c-%h.pub\n IdentityAgent $MY_AGENT\n ProxyCommand nc %h %p ${KEYS}\n"
        "Host b\n IdentityAgent none\nHost c\n IdentityAgent ~/%h.sock\nHost d\n IdentityAgent SSH_AUTH_SOCK\n"
        "Host e\n IdentityAgent $NOT_SET_ANYWHERE\nHost f\n IdentityFile ${NOT_SET_ANYWHERE}/x\nHost g\n IdentityFile none\n"
    )
    a = laptop.resolve("a")
    assert a.identity_files == (f"/keys/a.example_5_bob_a_{USER}_%_{os.getuid()}", f"{HOME}/x", f"{HOME}/y")
    assert a.certificate_files == (f"{HOME}/c-a.example.pub",)
    assert a.proxy_command == "nc a.example 5 ${KEYS}"
    agents = [laptop.resolve(name).identity_agent for name in "abcde"]
    assert agents == ["/agent/socket", "none", f"{HOME}/c.sock", None, "none"]
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        laptop.resolve("f")
    assert laptop.resolve("g").identity_files == ()


def test_home_is_sshs_own_whatever_the_variable_says(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    laptop.says("Host a\n IdentityFile ~/x\n UserKnownHostsFile ~/k\n GlobalKnownHostsFile none\n")
    a = laptop.resolve("a")
    assert (a.identity_files, a.known_hosts_files) == ((f"{HOME}/x",), (f"{HOME}/k",))
    assert ssh_command.home() == HOME


def test_jumps_are_resolved_hop_by_hop(laptop: Laptop) -> None:
    laptop.says(
        "Host outer\n HostName 10.0.0.1\n User gate\nHost middle\n HostName 10.0.0.2\n ProxyJump outer\n"
        "Host far\n ProxyJump middle,x@last:44\nHost last\n ProxyJump outer\nHost uri\n ProxyJump ssh://y@z:45\n"
        "Host token\n ProxyJump gate-%n\n"
    )
    jumps = laptop.resolve("far").jumps
    assert [(hop.hostname, hop.user, hop.port) for hop in jumps] == [
        ("10.0.0.1", "gate", 22),
        ("10.0.0.2", USER, 22),
        ("last", "x", 44),
    ]
    assert all(hop.jumps == () for hop in jumps)
    assert [(hop.hostname, hop.user, hop.port) for hop in laptop.resolve("uri").jumps] == [("z", "y", 45)]
    assert [hop.hostname for hop in laptop.resolve("token").jumps] == ["gate-token"]


def test_jumps_in_a_circle(laptop: Laptop) -> None:
    laptop.says("Host a\n ProxyJump b\nHost b\n ProxyJump a\nHost c\n ProxyJump c\n")
    with pytest.raises(ConfigError, match="circle"):
        laptop.resolve("a")
    with pytest.raises(ConfigError, match="loop"):
        laptop.resolve("c")


def test_jumps_through_hosts_of_hosts_yaml(laptop: Laptop) -> None:
    """The settings that stand in hosts.yaml count for a hop too, in our own connection and in ssh's."""
    laptop.says("Host gate\n ConnectTimeout 3\n")
    outer = Host("outer", address="10.0.0.9", port=99)
    gate = Host("gate", address="fe80::1%eth0", user="bob", identity_file="/a key", jump="outer", hops=(outer,))
    host = Host("gpu1", jump="gate", hops=(gate,))
    target = laptop.resolve(host)
    assert [(hop.hostname, hop.user, hop.port) for hop in target.jumps] == [
        ("10.0.0.9", USER, 99),
        ("fe80::1%eth0", "bob", 22),
    ]
    assert target.jumps[1].identity_files == ("/a key",)
    assert target.jumps[1].connect_timeout == 3
    assert target.proxy_command is None
    command = laptop.ssh_g(*overrides(host, ssh=laptop.ssh), "--", "gpu1")["proxycommand"]
    # ssh fills in the tokens, the shell takes the words apart; then it is asked what it would do there.
    argv = shlex.split(command.replace("%%", "\0").replace("%h", "gpu1").replace("%p", "22").replace("\0", "%"))
    assert argv[-4:] == ["-W", "[gpu1]:22", "--", "gate"]
    done = subprocess.run([argv[0], "-T", "-G", *argv[1:]], capture_output=True, text=True, check=True)
    assert "\nhostname fe80::1%eth0\n" in done.stdout
    assert "\nuser bob\n" in done.stdout
    assert "\nproxycommand" in done.stdout
    assert "10.0.0.9" in done.stdout


def test_canonical_names(laptop: Laptop) -> None:
    """The second reading, by the canonical name, counts."""
    laptop.says("CanonicalizeHostname yes\nHost x\n HostName 10.0.0.1\nMatch final host 10.0.0.1\n Port 2200\n")
    assert laptop.resolve("x").port == int(laptop.ssh_g("x")["port"]) == 2200


def test_ssh_says_itself_what_is_wrong(laptop: Laptop) -> None:
    laptop.says("Host a\n HostNmae x\n")
    with pytest.raises(ConfigError) as caught:
        laptop.resolve("a")
    assert f"{laptop.file}: line 2: Bad configuration option: hostnmae" in caught.value.message
    assert "terminating" not in caught.value.message
    assert caught.value.status == 2
    with pytest.raises(ConfigError, match="cannot run no-such-ssh"):
        resolve(Host("a"), ssh=("no-such-ssh",))


def test_many_at_once(laptop: Laptop) -> None:
    laptop.says("Host n*\n HostName %h.example\nHost bad\n ProxyJump bad\n")
    found = resolve_many([*(Host(f"n{number}") for number in range(20)), Host("bad")], ssh=laptop.ssh)
    assert isinstance(found["bad"], ConfigError)
    assert found["bad"].host == "bad"
    names = [target.hostname for target in found.values() if isinstance(target, SshTarget)]
    assert names == [f"n{number}.example" for number in range(20)]


def test_names_of_the_configuration(laptop: Laptop) -> None:
    """Each name that is listed is one that ssh has a block for."""
    (laptop.folder / "top").write_text("Host included\n HostName here\nInclude top\n")
    (laptop.folder / "inner").write_text("Host gpu1 other\n User inner\n")
    laptop.says(
        "# Host comment\nHost=gpu1 # Host trailing\n HostName here\n"
        f"  Include {laptop.folder}/inner\n"
        '\thost\t"quoted" wild* !not q?\n HostName = here\nHost = spaced two\n  HostName here\nHostName here\n'
        f"Match all\nInclude {laptop.folder}/top {laptop.folder}/missing\n Host ~tilde\n HostName here\nHost gpu1\n Port 5\n"
        f"Host *\n Include {laptop.folder}/star\n"
    )
    (laptop.folder / "star").write_text("Host under-star\n HostName here\n")
    names = ssh_config_hosts(laptop.file)
    assert names == ("gpu1", "quoted", "spaced", "two", "included", "~tilde", "under-star")
    assert all(laptop.ssh_g("--", name)["hostname"] == "here" for name in names)
    assert laptop.ssh_g("--", "other")["user"] != "inner", "that block is inside gpu1's"


def test_a_configuration_that_includes_itself_comes_to_an_end(laptop: Laptop) -> None:
    for number in range(5):
        (laptop.folder / f"c{number}").write_text(f"Include {laptop.folder}/c*\nHost h{number}\n")
    laptop.says(f"Include {laptop.folder}/c*\n")
    assert set(ssh_config_hosts(laptop.file)) == {f"h{number}" for number in range(5)}


def test_odd_configurations_are_read(laptop: Laptop) -> None:
    laptop.file.write_bytes(b'Host caf\xe9 ok\r\n\xff\nHost\n=\nHost "unclosed\nInclude\n')
    assert "ok" in ssh_config_hosts(laptop.file)
    assert ssh_config_hosts(laptop.folder / "missing") == ()


def test_a_hop_keeps_its_settings_when_its_user_is_typed(laptop: Laptop) -> None:
    laptop.says("Host gate\n Port 9\n")
    host = Host("a", jump="bob@gate", hops=(replace(Host("gate", address="10.0.0.1"), user="bob"),))
    (hop,) = laptop.resolve(host).jumps
    assert (hop.hostname, hop.user, hop.port) == ("10.0.0.1", "bob", 9)
