"""``remoterun attach``."""

from __future__ import annotations

import os
import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option


@click.command("attach")
@click.argument("job", required=False)
@host_option("Where to look for the job.")
@click.pass_obj
def command(app: App, job: str | None, hosts: tuple[str, ...]) -> None:
    """This terminal in the job's own tmux session: the live log, and the GPUs in window 1.

    C-b d leaves it and the job runs on. Ctrl-C twice interrupts the training.
    """
    from remoterun.errors import UsageError

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("attach needs a terminal", hint="remoterun logs -f follows the log without one")
    argv = app.fleet().job(job, hosts).attach_argv()
    sys.stdout.flush()
    os.execvpe(argv[0], argv, attach_environment())


def attach_environment() -> dict[str, str]:
    """This environment, without the traces of a tmux around it."""
    environment = {key: value for key, value in os.environ.items() if key not in ("TMUX", "TMUX_PANE")}
    environment.setdefault("TERM", "xterm-256color")
    return environment
