"""``remoterun shell``."""

from __future__ import annotations

import os
import sys

import click

from remoterun.cli.main import App
from remoterun.errors import UsageError


@click.command("shell")
@click.argument("host")
@click.pass_obj
def command(app: App, host: str) -> None:
    """A login shell on HOST."""
    remotes = app.fleet().select([host])
    if len(remotes) != 1:
        raise UsageError(f"{host} names {len(remotes)} hosts", hint="name one")
    if not sys.stdin.isatty():
        raise UsageError("shell needs a terminal", hint=f"remoterun exec -H {host} -- CMD runs a command without one")
    argv = remotes[0].transport.interactive_argv('exec "$SHELL" -l')
    sys.stdout.flush()
    os.execvp(argv[0], argv)
