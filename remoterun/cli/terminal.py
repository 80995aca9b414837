"""What the verbs have in common at the terminal: options, messages, prompts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from remoterun.errors import RemoterunError

# Set when a shell asks what may stand there (cli/completion.py).
COMPLETING = "_REMOTERUN_COMPLETE"

F = TypeVar("F", bound=Callable[..., Any])


def host_option(text: str) -> Callable[[F], F]:
    """``-H``: names, @groups, globs, ranges; several by comma or by repeating."""
    return click.option("-H", "--host", "hosts", multiple=True, metavar="HOST", help=text)


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def note(text: str) -> None:
    """A sentence for people, on stderr."""
    click.echo(_dim(f"remoterun: {text}"), err=True)


def advise(command: str, what: str = "") -> None:
    """A command that can be typed next, and what it does, beneath a sentence of ``note``."""
    click.echo(_dim(f"           {command}   {what}".rstrip()), err=True)


def show_error(error: RemoterunError) -> None:
    """What failed and why, then what to type next."""
    where = f"{error.host}: " if error.host and error.host not in error.message else ""
    click.echo(f"{_red('error:')} {where}{error.message}", err=True)
    if error.hint:
        click.echo(f"       {error.hint}", err=True)


def ask_secret(question: str) -> str | None:
    """A passphrase or password from the terminal, not shown; None when the user gives up."""
    import getpass

    try:
        return getpass.getpass(f"{question} ")
    except (EOFError, KeyboardInterrupt):
        return None


def coloured(stream: Any) -> bool:
    """Whether colour is welcome on a stream."""
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _dim(text: str) -> str:
    return f"\033[2m{text}\033[0m" if coloured(sys.stderr) else text


def _red(text: str) -> str:
    return f"\033[1;31m{text}\033[0m" if coloured(sys.stderr) else text
