"""hosts.yaml and -H patterns."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.config import hosts_file
from remoterun.config.host_reader import LOCAL
from remoterun.config.init import render
from remoterun.config.inventory import Inventory
from remoterun.config.ssh_names import ssh_config_hosts
from remoterun.errors import ConfigError, RemoterunError

GOOD = """\
defaults: {host: a100-1, runtime: none, env: {OMP_NUM_THREADS: "8"}, python: ~/venv/bin/python}
hosts:
  a100-1: {address: 10.0.0.11, user: alice, port: 2222, jump: bastion, gpus: 8, tags: [a100, lab], env: {A: 1}}
  a100-2:
    data:
      corpus: {path: /data/corpus, mount: /workspace/data}
      scratch: {path: /scratch, mount: /workspace/out, mode: rw}
  a100-10: {}
groups:
  lab: [a100-1, a100-2]
  all: ["@lab", a100-10]
"""


def write(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "hosts.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def load(tmp_path: Path, text: str) -> Inventory:
    return Inventory.load(str(write(tmp_path, text)))


def test_a_good_file(tmp_path: Path) -> None:
    inventory = load(tmp_path, GOOD)
    host = inventory.hosts["a100-1"]
    assert (host.address, host.port, host.jump, host.gpus, host.tags) == (
        "10.0.0.11",
        2222,
        "bastion",
        8,
        ("a100", "lab"),
    )
    assert dict(host.env) == {"OMP_NUM_THREADS": "8", "A": "1"}
    assert host.python == "~/venv/bin/python"
    assert inventory.default_host == "a100-1"
    assert [data.mode for data in inventory.hosts["a100-2"].data] == ["ro", "rw"]
    assert inventory.hosts["local"].transport == "local"
    assert inventory.to_document()["hosts"]["a100-1"]["port"] == 2222


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("hosts:\n  a: {prot: 1}\n", "2:7", "port"),
        ("host:\n  a: {}\n", "1:1", "hosts"),
        ("hosts:\n  a: {port: 70000}\n", "2:13", "65535"),
        ("hosts:\n  a: {port: x}\n", "2:13", "'x'"),
        ("hosts:\n  a: {runtime: dokcer}\n", "2:16", "docker"),
        ("hosts:\n  a: {env: {X: yes}}\n", "2:16", "quotes"),
        ("hosts:\n  a: {env: {X Y: 1}}\n", "2:13", "X Y"),
        ("hosts:\n  a: {}\n  a: {}\n", "3:3", "twice"),
        ("hosts:\n  '@a': {}\n", "2:3", "@a"),
        ("hosts:\n  'a*': {}\n", "2:3", "a*"),
        ("hosts:\n  a: {data: {x: {path: /a, upload: ./b}}}\n", "2:14", "exactly one"),
        ("hosts:\n  a: {data: {x: {path: /a, mount: rel}}}\n", "2:35", "absolute"),
        ("hosts:\n  a: {workdir: '~'}\n", "2:16", "home"),
        ("hosts:\n  a: {workdir: /}\n", "2:16", "disk"),
        ("groups:\n  g: [nohost]\nhosts:\n  myhost: {}\n", "2:7", "nohost"),
        ("- a\n", "1:1", "mapping"),
        ("hosts:\n\ta: {}\n", "2:1", "spaces"),
        ("hosts: [\n", "2:1", ""),
        ("<<: {a: 1}\n", "1:1", "<<"),
    ],
)
def test_errors_name_file_line_column_and_the_nearest(tmp_path: Path, text: str, where: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        hosts_file.read(file)
    assert caught.value.message.startswith(f"{file}:{where}:"), caught.value.message
    assert words in caught.value.message + caught.value.hint


def test_odd_files(tmp_path: Path) -> None:
    assert set(hosts_file.read(write(tmp_path, "")).hosts) == {"local"}
    assert set(hosts_file.read(write(tmp_path, "# only a comment\n")).hosts) == {"local"}
    with pytest.raises(ConfigError, match="UTF-8"):
        hosts_file.read(write(tmp_path, b"hosts: {\xff: {}}\n"))
    with pytest.raises(ConfigError):
        hosts_file.find(str(tmp_path / "none.yaml"), {}, tmp_path, tmp_path)


def test_where_it_is_looked_for(tmp_path: Path) -> None:
    root, user = tmp_path / "repo", tmp_path / "user"
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    user.mkdir()
    (root / ".git").mkdir()
    (tmp_path / "hosts.yaml").write_text("")
    assert hosts_file.find(None, {}, deep, user) is None, "above the repository is somebody else's"
    (user / "hosts.yaml").write_text("")
    assert hosts_file.find(None, {}, deep, user) == user / "hosts.yaml"
    (root / "hosts.yaml").write_text("")
    assert hosts_file.find(None, {}, deep, user) == root / "hosts.yaml"
    assert hosts_file.find(None, {"REMOTERUN_HOSTS": str(user / "hosts.yaml")}, deep, user) == user / "hosts.yaml"


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["a100-2", "a100-1"], ["a100-2", "a100-1"]),
        (["a100-*"], ["a100-1", "a100-2", "a100-10"]),
        (["@lab"], ["a100-1", "a100-2"]),
        (["@all"], ["a100-1", "a100-2", "a100-10"]),
        (["@a100"], ["a100-1"]),
        (["a100-[1-2]"], ["a100-1", "a100-2"]),
        (["a100-1,a100-10", "@lab"], ["a100-1", "a100-10", "a100-2"]),
    ],
)
def test_patterns(tmp_path: Path, patterns: list[str], names: list[str]) -> None:
    assert [host.name for host in load(tmp_path, GOOD).select(patterns)] == names


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("a100-3x", "a100-"), ("@lub", "@lab"), ("b*", "a100-1"), ("a100-[5-2]", "range"), ("-x", "-x"), (",", "")],
)
def test_unknown_patterns_name_the_nearest(tmp_path: Path, pattern: str, words: str) -> None:
    with pytest.raises(RemoterunError) as caught:
        load(tmp_path, GOOD).select([pattern])
    assert words in caught.value.message + caught.value.hint
    assert caught.value.status == 2


@given(st.text(max_size=15))
def test_any_pattern_is_understood_or_refused(pattern: str) -> None:
    inventory = Inventory({"local": LOCAL}, {"g": ("local",)}, None, {}, None)
    try:
        inventory.select([pattern.replace(".", "")])
    except RemoterunError as error:
        assert error.status == 2


def test_init_writes_what_config_reads(tmp_path: Path) -> None:
    config = tmp_path / "config"
    (tmp_path / "more").write_text("Host inner 10\n  HostName x\n")
    config.write_text(f'Host *\n  User u\nHost=gpu1 !bad "gpu 2" a*\n  Port 1\nMatch all\n  Include {tmp_path}/more\n')
    names = ssh_config_hosts(config)
    assert names == ("gpu1", "gpu 2", "inner", "10")
    inventory = load(tmp_path, render([name for name in names if " " not in name]))
    assert set(inventory.hosts) == {"local", "gpu1", "inner", "10"}
    assert [host.name for host in inventory.select(["@all"])] == ["gpu1", "inner", "10"]
