"""hosts.yaml: the files under tests/cases/hosts, each with the error (or the configuration) that it must give."""

from __future__ import annotations

import json
import os
import re
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remoterun.config import hosts_file
from remoterun.config.inventory import Inventory
from remoterun.errors import ConfigError

CASES = Path(__file__).resolve().parents[2] / "cases" / "hosts"


@pytest.mark.parametrize("name", sorted(file.stem for file in CASES.glob("*.error")))
def test_error(name: str) -> None:
    """The first line is the message, the second the hint; ``…`` stands for words of the YAML library."""
    file = CASES / f"{name}.yaml"
    with pytest.raises(ConfigError) as caught:
        hosts_file.read(file)
    said = caught.value.message.replace(str(file), file.name) + "\n"
    said += caught.value.hint + "\n" if caught.value.hint else ""
    expected = re.escape((CASES / f"{name}.error").read_text()).replace("…", ".*")
    assert re.fullmatch(expected, said), said
    assert caught.value.status == 2


@pytest.mark.parametrize("name", sorted(file.stem for file in CASES.glob("*.json")))
def test_effective_configuration(name: str) -> None:
    document = Inventory.load(str(CASES / f"{name}.yaml")).to_document()
    del document["source"]
    assert document == json.loads((CASES / f"{name}.json").read_text())


def test_no_case_is_forgotten() -> None:
    outcomes = {file.stem for pattern in ("*.error", "*.json") for file in CASES.glob(pattern)}
    assert {file.stem for file in CASES.glob("*.yaml")} == outcomes


def test_files_of_this_machine_count_from_the_folder_of_hosts_yaml(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "hosts: {a: {identity_file: keys/id, data: {x: {upload: ./d/../data, mount: /m}}}, b: {identity_file: ~/id}}\n"
    )
    hosts = hosts_file.read(file).hosts
    assert hosts["a"].identity_file == f"{tmp_path}/keys/id"
    assert hosts["a"].data[0].source == f"{tmp_path}/data"
    assert hosts["b"].identity_file == "~/id"


def test_a_jump_takes_the_settings_that_stand_here(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "hosts:\n  gate: {address: 10.0.0.1, user: bob}\n  inner: {jump: 'gate:2222', port: 5}\n"
        "  deep: {jump: 'inner,x@elsewhere'}\n  free: {jump: elsewhere}\n"
    )
    hosts = hosts_file.read(file).hosts
    (gate,) = hosts["inner"].hops
    assert (gate.address, gate.user, gate.port) == ("10.0.0.1", "bob", 2222)
    inner, elsewhere = hosts["deep"].hops
    assert (inner.port, inner.hops) == (5, (gate,))
    assert (elsewhere.name, elsewhere.user, elsewhere.jump) == ("elsewhere", "x", "none")
    assert hosts["free"].hops == (), "that is for the SSH configuration alone to say"


def test_where_it_is_looked_for(tmp_path: Path) -> None:
    root, user = tmp_path / "repo", tmp_path / "user"
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    user.mkdir()
    (tmp_path / "hosts.yaml").write_text("")
    assert hosts_file.find(None, {}, deep, user) is None, "outside a repository only the folder itself counts"
    (root / ".git").write_text("gitdir: elsewhere\n")
    assert hosts_file.find(None, {}, deep, user) is None, "above the repository is somebody else's"
    (user / "hosts.yaml").write_text("")
    assert hosts_file.find(None, {}, deep, user) == user / "hosts.yaml"
    (root / "hosts.yaml").write_text("")
    assert hosts_file.find(None, {}, deep, user) == root / "hosts.yaml"
    (root / "a" / "hosts.yaml").write_text("")
    assert hosts_file.find(None, {}, deep, user) == root / "a" / "hosts.yaml"
    environ = {"REMOTERUN_HOSTS": str(user / "hosts.yaml")}
    assert hosts_file.find(None, environ, deep, user) == user / "hosts.yaml"
    assert hosts_file.find(str(root / "hosts.yaml"), environ, deep, user) == root / "hosts.yaml"


@pytest.mark.parametrize(("explicit", "environ", "words"), [
    ("gone.yaml", {}, "--hosts-file names, is not there"),
    (None, {"REMOTERUN_HOSTS": "gone.yaml"}, "$REMOTERUN_HOSTS names, is not there"),
    ("/", {}, "is no file"),
])  # fmt: skip
def test_a_named_file_must_be_there(explicit: str | None, environ: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        hosts_file.find(explicit, environ, tmp_path, tmp_path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: Is a directory"):
        hosts_file.read(tmp_path)


def test_without_a_file_yaml_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from remoterun.config.inventory import Inventory; Inventory.load(); print('yaml' in sys.modules)"
    )
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(CASES.parents[2])}
    env.pop("REMOTERUN_HOSTS", None)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def _mapping(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


NAME = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("any", "local")
)
WORD = st.from_regex(r"[A-Za-z0-9äß_./+-]{1,8}", fullmatch=True).filter(lambda word: not word.startswith("-"))
# Whatever YAML can hold in quotes.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t"), min_size=1, max_size=12)
LINE = TEXT.map(lambda text: text.replace("\n", " ").replace("\t", " "))
ENV = st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True), TEXT | st.just(""), max_size=3)
HOST = _mapping(
    address=st.from_regex(r"[a-z0-9.-]{1,12}", fullmatch=True).filter(lambda text: not text.startswith("-"))
    | st.ip_addresses().map(str),
    user=WORD,
    port=st.integers(1, 65535),
    identity_file=LINE.map(lambda text: "/" + text),
    gpus=st.integers(0, 16),
    tags=st.lists(NAME, max_size=2),
    env=ENV,
    interface=WORD,
    runtime=st.sampled_from(["auto", "none", "docker", "podman"]),
    image=WORD,
    shm_size=st.sampled_from(["16g", "1.5 G", "1024"]),
    workdir=LINE.map(lambda text: "/w" + text),
    python=LINE,
    setup=TEXT,
    path=st.lists(LINE.map(lambda text: "~/" + text), max_size=2),
    keep=_mapping(count=st.integers(0, 9), age=st.just("3d"), bytes=st.just("2g")),
    data=st.dictionaries(
        st.from_regex(r"[a-z]{1,6}", fullmatch=True),
        st.fixed_dictionaries({"path": LINE.map(lambda text: "/" + text)}, optional={"mode": st.sampled_from(["ro", "rw"])}),
        max_size=2,
    ),
)  # fmt: skip


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.dictionaries(NAME, HOST, max_size=3), HOST)
def test_the_effective_configuration_says_the_same_again(
    tmp_path: Path, hosts: dict[str, Any], defaults: dict[str, Any]
) -> None:
    """What was written is what is read, and ``to_document`` is a hosts.yaml that means the same."""
    defaults = {key: value for key, value in defaults.items() if key not in ("address", "tags")}
    first = _load(tmp_path, {"hosts": hosts, "defaults": defaults, "groups": {"all": list(hosts)}})
    for name, written in hosts.items():
        for key in ("user", "port", "python", "setup", "workdir", "image"):
            assert getattr(first.hosts[name], key) == written.get(
                key, defaults.get(key, getattr(first.hosts[name], key))
            )
        assert dict(first.hosts[name].env) == {**defaults.get("env", {}), **written.get("env", {})}
    document = first.to_document()
    again = _load(tmp_path, {key: document[key] for key in ("hosts", "defaults", "groups")})
    assert again.hosts == first.hosts
    assert again.to_document() == document
    assert [host.name for host in again.select(["@all", "local"])] == [*hosts, "local"]


def _load(folder: Path, document: dict[str, Any]) -> Inventory:
    file = folder / "hosts.yaml"
    file.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    return Inventory.load(str(file))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(string.ascii_letters + "{}[]:,-&*!|>'\"%@~#\n\t \0ä", max_size=40) | st.binary(max_size=20))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        hosts_file.read(file)
    except ConfigError as error:
        assert error.message.startswith(str(file))
