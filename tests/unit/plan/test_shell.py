"""Words go through every shell unharmed."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remoterun.errors import UsageError
from remoterun.host import scripts
from remoterun.plan import shell

SHELLS = ["sh", "bash", "dash", "zsh", "fish", "tcsh", "busybox"]
WORDS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
        st.binary(max_size=20).filter(lambda data: b"\0" not in data).map(os.fsdecode),
        st.sampled_from(
            ["", "-n", "--", "it's", '"', "$HOME", "`id`", "a b", "a\nb", "!!", "\\", "*", "~", "ü", ";", "&"]
        ),
    ),
    min_size=1,
    max_size=5,
)


def shell_argv(name: str, command: str) -> list[str]:
    if name == "busybox":
        return ["busybox", "sh", "-c", command]
    return [name, "-c", command]


def printed(output: bytes) -> list[str]:
    return [os.fsdecode(part) for part in output.split(b"\0")[:-1]]


@given(WORDS)
@settings(max_examples=150, deadline=None)
def test_join_survives_sh(words: list[str]) -> None:
    command = os.fsencode("printf '%s\\0' " + shell.join(words))
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert printed(done.stdout) == words


@pytest.mark.parametrize("name", SHELLS)
@given(words=WORDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_login_shell_reads_a_script_alike(name: str, words: list[str]) -> None:
    if shutil.which(name) is None:
        assert "CI" not in os.environ, f"{name} is missing"
        pytest.skip(f"{name} is missing")
    script = "printf '%s\\0' " + shell.join(words)
    done = subprocess.run(shell_argv(name, shell.for_login_shell(script)), capture_output=True, check=True)
    assert printed(done.stdout) == words


@pytest.mark.parametrize("name", SHELLS)
def test_bootstrap_leaves_the_payload_unread(name: str) -> None:
    if shutil.which(name) is None:
        assert "CI" not in os.environ, f"{name} is missing"
        pytest.skip(f"{name} is missing")
    text = shell.definitions(scripts.read("lib"), "N0")
    text += shell.definitions("f() { rr_take 4 <&3; echo; echo to-stderr >&2; return 7; }", "N0")
    text += shell.request("f", [], "N0", 1) + "a\nb\0" + shell.request("printf", ["%s", "it's"], "N0", 2)
    argv = shell_argv(name, shell.bootstrap("N0"))
    done = subprocess.run(argv, input=text.encode(), capture_output=True, check=True)
    assert done.stdout == b"\x1eN0 1 begin\na\nb\0\n\x1eN0 1 end 7\n\x1eN0 2 begin\nit's\x1eN0 2 end 0\n"
    assert done.stderr == b"\x1eN0 1 begin\nto-stderr\n\x1eN0 1 end\n\x1eN0 2 begin\n\x1eN0 2 end\n"


def test_nul_is_refused() -> None:
    with pytest.raises(UsageError):
        shell.quote("a\0b")


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A;B", "Ä", "A\n"])
def test_bad_variable_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        shell.check_variable(name)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True).map("T_".__add__),
        st.text(max_size=20).filter(lambda t: "\0" not in t and t.isprintable()),
    )
)
@settings(max_examples=50, deadline=None)
def test_exports_survive_sh(values: dict[str, str]) -> None:
    done = subprocess.run(["sh", "-c", shell.exports(values) + "env -0"], capture_output=True, check=True)
    seen = dict(part.decode().split("=", 1) for part in done.stdout.split(b"\0") if part.startswith(b"T_"))
    assert seen == values
