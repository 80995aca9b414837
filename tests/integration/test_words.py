"""Arguments of any kind arrive unharmed through a real login shell over real SSH, and through tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remoterun.config.inventory import Inventory
from remoterun.host import scripts
from remoterun.plan import shell
from remoterun.transport.base import Connection
from remoterun.transport.factory import make_transport
from tests.conftest import require
from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet

WORDS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
        st.binary(max_size=12).filter(lambda data: b"\0" not in data).map(os.fsdecode),
        st.sampled_from(
            ["", "-n", "--", "it's", '"', "$HOME", "`id`", "a\nb", "!!", "\\", "*", "~", "ü", "; exit 3", "#"]
        ),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(params=["/bin/bash", "/usr/bin/fish", "/usr/bin/tcsh"])
def connection(
    request: pytest.FixtureRequest,
    fleet: Callable[..., list[TestHost]],
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> Connection:
    """An open login to a host with this login shell."""
    require(Path(request.param).name)
    host = fleet(1, shell=request.param)[0]
    client.knows([host])
    client.use(monkeypatch)
    made = make_transport(Inventory.load().select([host.name])[0]).connect()
    request.addfinalizer(made.close)
    return made


@given(words=WORDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_words_survive_ssh_and_the_login_shell(connection: Connection, words: list[str]) -> None:
    pipe = connection.open(shell.for_login_shell("printf '%s\\0' " + shell.join(words)))
    output = b""
    while piece := pipe.recv(65536, 20):
        output += piece
    pipe.close()
    assert [os.fsdecode(part) for part in output.split(b"\0")[:-1]] == words


@given(word=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
@settings(max_examples=20, deadline=None)
def test_words_survive_tmux(word: str) -> None:
    """sh/session.sh quotes the paths that it hands to tmux, which gives them to a shell of its own."""
    if shutil.which("tmux") is None:
        require("tmux")
    text = scripts.read("session") + f"rr_quote {shell.quote(word)}; echo x\n"
    quoted = subprocess.run(["sh", "-s"], input=text.encode(), capture_output=True, check=True).stdout[:-2]
    socket = f"/tmp/rtwords{os.getpid()}"
    command = b"printf %s " + quoted + b" >" + socket.encode() + b".out; exec sleep 100"
    subprocess.run(
        [
            "tmux",
            "-u",
            "-f",
            "/dev/null",
            "-S",
            socket,
            "new-session",
            "-d",
            os.fsdecode(command),
            ";",
            "wait-for",
            "-S",
            "x",
        ],
        check=True,
        capture_output=True,
    )
    try:
        for _ in range(100):
            got = Path(f"{socket}.out").read_bytes() if Path(f"{socket}.out").exists() else None
            if got == word.encode():
                break
            subprocess.run(["sleep", "0.05"], check=True)
        assert got == word.encode()
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)
        Path(f"{socket}.out").unlink(missing_ok=True)
        Path(socket).unlink(missing_ok=True)
