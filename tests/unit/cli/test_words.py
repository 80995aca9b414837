"""What is said to somebody who mistyped: the command line, less the hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remoterun.cli.main import App, cli, own_words, run


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["launch", "--gpu", "2", "train.py"], "no option --gpu", "did you mean --gpus?   remoterun launch --help"),
        (["launch", "--bogus", "train.py"], "no option --bogus", "remoterun launch --help"),
        (["ps", "--jsn"], "no option --jsn", "did you mean --json?   remoterun ps --help"),
        (["exec", "--bogus", "--", "true"], "no option --bogus", "remoterun exec --help"),
        (["shell"], "missing argument 'HOST'", "remoterun shell --help"),
        (["launch", "--max-restarts", "-1", "x.py"], "-1 is not in the range", "remoterun launch --help"),
        (["lanch"], "no command 'lanch'", "did you mean launch?"),
        (["launch"], "nothing to run", "remoterun launch SCRIPT"),
    ],
)
def test_wrong_usage_reads_like_every_other_error(
    arguments: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert second.startswith("       ")
    assert hint in second


def test_wrong_usage_with_json_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ps", "--json", "--bogus"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["message"]) == ("usage", "no option --bogus")


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (["ps", "--json"], ["ps", "--json"]),
        (["launch", "--name", "x", "train.py", "--json"], ["launch", "--name", "x"]),
        (["--debug", "launch", "-H", "a", "-m", "x", "--json"], ["--debug", "launch", "-H", "a", "-m", "x"]),
        (["exec", "-H", "a", "ls", "--json"], ["exec", "-H", "a"]),
        (["exec", "--", "ls", "--json"], ["exec"]),
        (["rm", "launch", "--json"], ["rm", "launch", "--json"]),
    ],
)
def test_options_of_a_script_or_command_are_not_ours(arguments: list[str], own: list[str]) -> None:
    assert own_words(arguments) == own


@pytest.mark.parametrize(("verb", "words"), [("launch", ["x.py"]), ("ps", []), ("exec", ["ls"]), ("shell", ["far"])])
def test_global_options_are_taken_behind_the_command_too(
    verb: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    app = App()
    with cli.make_context("remoterun", [verb], obj=app) as ctx:
        ctx.obj = app
        command = cli.get_command(ctx, verb)
        assert command is not None
        command.make_context(verb, ["--accept-new", "--plain", "--hosts-file", "x.yaml", "--debug", *words], parent=ctx)
    assert (app.accept_new, app.plain, app.debug, app.hosts_file) == (True, True, True, "x.yaml")
    again = cli.get_command(ctx, verb)
    assert again is not None
    assert len({option.name for option in again.params}) == len(again.params)


@pytest.mark.parametrize(
    ("script", "hint"), [("trian.py", "did you mean train.py?"), ("sub/tran.py", "did you mean sub/train.py?")]
)
def test_a_script_that_is_not_there_is_told_before_any_host_is_asked(
    script: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "train.py").touch()
    (tmp_path / "train.py").touch()
    (tmp_path / "hosts.yaml").write_text("hosts: {far: {address: 127.0.0.1, port: 1}}\n")
    monkeypatch.chdir(tmp_path)
    assert run(["launch", "-H", "far", script]) == 2
    said = capsys.readouterr().err
    assert f"no script {script} in {tmp_path}" in said
    assert hint in said
    assert run(["launch", "-H", "far", "--gpus", "many", "train.py"]) == 2
    assert "--gpus 'many' is not understood" in capsys.readouterr().err


def test_a_host_in_the_place_of_a_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {far: {address: 127.0.0.1, port: 1}}\n")
    monkeypatch.chdir(tmp_path)
    assert run(["exec", "far", "hostname"]) == 2
    assert "remoterun exec -H far -- " in capsys.readouterr().err
