"""What -H means; names that hosts.yaml does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remoterun.config.host_reader import LOCAL
from remoterun.config.init import render
from remoterun.config.inventory import Inventory
from remoterun.config.ssh_names import known_in_ssh_config
from remoterun.errors import ConfigError, RemoterunError, UnknownHost, UsageError
from remoterun.model.host import Host
from tests.fleet.client import Client

GOOD = """\
defaults: {host: a100-1, runtime: none, user: alice, port: 2222}
hosts:
  a100-1: {address: 10.0.0.11, tags: [a100, lab]}
  a100-2: {tags: [a100]}
  a100-10: {user: bob}
groups:
  lab: [a100-1, a100-2]
  all: ["@lab", a100-10]
  some: ["a100-[1-2]", "@all"]
"""


def load(folder: Path, text: str) -> Inventory:
    file = folder / "hosts.yaml"
    file.write_text(text)
    return Inventory.load(str(file))


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return load(tmp_path, GOOD)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["a100-2", "a100-1"], ["a100-2", "a100-1"]),
        (["a100-*"], ["a100-1", "a100-2", "a100-10"]),
        (["a100-?"], ["a100-1", "a100-2"]),
        (["a100-[12]"], ["a100-1", "a100-2"]),
        (["*"], ["local", "a100-1", "a100-2", "a100-10"]),
        (["@lab"], ["a100-1", "a100-2"]),
        (["@all"], ["a100-1", "a100-2", "a100-10"]),
        (["@some"], ["a100-1", "a100-2", "a100-10"]),
        (["@a100"], ["a100-1", "a100-2"]),
        (["a100-[1-2]"], ["a100-1", "a100-2"]),
        (["a100-[1,10]"], ["a100-1", "a100-10"]),
        (["a100-1[0-0]*"], ["a100-10"]),
        (["a100-1,a100-10", "@lab"], ["a100-1", "a100-10", "a100-2"]),
        ([" local , a100-1"], ["local", "a100-1"]),
        (["127.0.0.1", "::1"], ["127.0.0.1", "::1"]),
    ],
)
def test_patterns(inventory: Inventory, patterns: list[str], names: list[str]) -> None:
    assert [host.name for host in inventory.select(patterns)] == names


def test_a_destination_is_laid_over_what_is_known(inventory: Inventory) -> None:
    known, new, six = inventory.select(["carol@a100-1:22", "127.0.0.1:9", "dan@[::1]:2299"])
    assert (known.name, known.address, known.user, known.port) == ("carol@a100-1:22", "10.0.0.11", "carol", 22)
    assert (new.name, new.user, new.port, new.runtime) == ("127.0.0.1:9", "alice", 9, "none")
    assert (six.user, six.port, six.address) == ("dan", 2299, None)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a100-3x", "did you mean a100-"),
        ("A100-1", "did you mean a100-1"),
        ("lab", "did you mean @lab"),
        ("zzz.invalid", "known: local, a100-1"),
        ("a100-[9-11]", "a100-9"),
        ("@lub", "did you mean @lab"),
        ("b*", "known: local, a100-1"),
        ("a100-[5-2]", "range"),
        ("-x", "'-x'"),
        ("a b", "'a b'"),
        ("fd00::1:22", "[fd00::1]:22"),
        ("a:b", "port"),
        ("carol@local", "this machine"),
        (",", "no host is named"),
    ],
)
def test_unknown_patterns_name_the_nearest(inventory: Inventory, pattern: str, words: str) -> None:
    with pytest.raises(RemoterunError) as caught:
        inventory.select([pattern])
    assert words in f"{caught.value.message} → {caught.value.hint}"
    assert caught.value.status == 2
    assert isinstance(caught.value, (UnknownHost, UsageError))


def test_a_name_used_before_is_not_looked_up(inventory: Inventory) -> None:
    assert inventory.host("gone.invalid") == Host("gone.invalid", user="alice", port=2222, runtime="none")
    assert inventory.host("a100-10").user == "bob"


@settings(max_examples=60, deadline=None)
@given(st.text("ab@[]-*?,:1 %é\n\0'", max_size=12))
def test_any_pattern_is_understood_or_refused(pattern: str) -> None:
    inventory = Inventory({"local": LOCAL, "a1": Host("a1")}, {"g": ("local",)}, None, {}, None)
    try:
        inventory.select([pattern])
    except RemoterunError as error:
        assert error.status == 2


def test_the_defaults_jump_is_also_for_names_that_stand_nowhere(tmp_path: Path) -> None:
    inventory = load(tmp_path, "defaults: {jump: 'gate,other'}\nhosts: {gate: {address: 10.0.0.1}}\n")
    gate, other = inventory.host("bob@anything:22").hops
    assert (gate.address, gate.jump) == ("10.0.0.1", None)
    assert (other.name, other.jump) == ("other", "none")
    assert inventory.host("other").jump is None, "the jump itself is not reached through the jump"


def test_groups_that_name_one_another_many_times_come_to_an_end(tmp_path: Path) -> None:
    levels = "\n".join(f"  g{n}: [{', '.join(['@@'] * 10)}]".replace("@@", f'"@g{n - 1}"') for n in range(1, 12))
    inventory = load(tmp_path, f"hosts: {{a: {{}}}}\ngroups:\n  g0: [a]\n{levels}\n")
    assert [host.name for host in inventory.select(["@g11"])] == ["a"]


def test_names_of_the_ssh_configuration_need_no_hosts_yaml(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.config.write_text(
        "Include more\nHost gpu1 gpu2\n HostName nowhere.invalid\nHost *.behind\n ProxyJump gpu1\nHost local\n Port 1\n"
    )
    (client.home / ".ssh" / "more").write_text("Host deep\n Port 7\n")
    client.use(monkeypatch)
    inventory = Inventory.load()
    assert inventory.source is None
    assert inventory.hosts == {"local": LOCAL}
    assert [host.name for host in inventory.select(["gpu[1-2]", "x.behind"])] == ["gpu1", "gpu2", "x.behind"]
    assert [host.name for host in inventory.select(["gpu*"])] == ["gpu1", "gpu2"]
    with pytest.raises(UnknownHost) as caught:
        inventory.select(["gup1.invalid"])
    assert "known: local, " in caught.value.hint
    with pytest.raises(UnknownHost) as caught:
        inventory.select(["gpu3"])
    assert "did you mean gpu" in caught.value.hint
    if client.honest:
        # A relative Include counts from ~/.ssh, which is not this HOME's where ssh cannot be told so.
        assert inventory.names()[:4] == ("local", "deep", "gpu1", "gpu2")
        assert known_in_ssh_config("deep")
    assert not known_in_ssh_config("x.behind")
    (client.project / "hosts.yaml").write_text("groups: {lab: [gpu1, gpu4]}\n")
    with pytest.raises(ConfigError, match="1:22: group lab: no host 'gpu4' in this file or"):
        Inventory.load()
    (client.project / "hosts.yaml").write_text("groups: {lab: [gpu1]}\n")
    assert [host.name for host in Inventory.load().select(["@lab"])] == ["gpu1"]


def test_a_broken_ssh_configuration_is_told_in_sshs_words(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.config.write_text("Hots a\n")
    client.use(monkeypatch)
    with pytest.raises(UnknownHost, match="Bad configuration option: hots"):
        Inventory.load().select(["a.invalid"])


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
        | st.sampled_from(
            ["gpu1", "10", "1e5", "yes", "No", "null", "local", "any", "a b", "~", "0x1", "é", "#x", "-", "a-1"]
        )
    )
)
@settings(deadline=None, max_examples=60)
def test_init_writes_what_config_reads(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    inventory = load(tmp_path_factory.getbasetemp(), render(names))
    assert set(inventory.hosts) <= {"local", *names}
    taken = [name for name in inventory.hosts if name != "local"]
    assert {"gpu1", "10", "1e5", "yes", "No", "null", "0x1", "a-1"} & set(names) <= set(taken)
    assert [host.name for host in inventory.select(["@all"])] == taken if taken else "all" not in inventory.groups


def test_an_empty_list_against_the_defaults_is_shown(tmp_path: Path) -> None:
    inventory = load(tmp_path, "defaults: {path: [/opt/bin]}\nhosts: {a: {path: []}, b: {}}\n")
    hosts = inventory.to_document()["hosts"]
    assert (hosts["a"]["path"], hosts["b"]["path"]) == ([], ["/opt/bin"])
