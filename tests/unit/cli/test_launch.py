"""What of a command line is ours, and what is the script's."""

from __future__ import annotations

from typing import Any

import pytest

from remoterun.cli.launch import command


def parsed(*arguments: str) -> dict[str, Any]:
    return command.make_context("launch", list(arguments)).params


@pytest.mark.parametrize(
    ("arguments", "module", "words"),
    [
        (("train.py", "--name", "x", "-m", "y"), None, ("train.py", "--name", "x", "-m", "y")),
        (("--gpus", "2", "-m", "pkg.train", "--gpus", "8", "--name", "x"), "pkg.train", ("--gpus", "8", "--name", "x")),
        (("--module=pkg.train", "-d"), "pkg.train", ("-d",)),
        (("-d", "-m", "pkg.train"), "pkg.train", ()),
        (("--name", "-m", "train.py"), None, ("train.py",)),
        (("--", "python", "-m", "x"), None, ("python", "-m", "x")),
    ],
)
def test_what_stands_behind_the_script_or_module_is_its_own(
    arguments: tuple[str, ...], module: str | None, words: tuple[str, ...]
) -> None:
    found = parsed(*arguments)
    assert found["module"] == module
    assert found["words"] == words
    if arguments[:2] == ("--gpus", "2"):
        assert found["gpus"] == "2"
        assert found["name"] is None
