"""``remoterun ps``."""

from __future__ import annotations

import shutil
import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import advise, coloured, host_option, json_option, note


@click.command("ps")
@host_option("Which hosts. [default: all of hosts.yaml, else those used before and local]")
@click.option("-a", "--all", "every", is_flag=True, help="Also jobs that ended more than a day ago.")
@json_option
@click.pass_obj
def command(app: App, hosts: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Jobs on all hosts: those not ended, and those that ended within a day."""
    found = app.fleet().jobs(hosts, every=every)
    if as_json:
        from remoterun.views.documents import jobs_document, write

        write(jobs_document(found.jobs, found.unreachable))
        return
    from remoterun.views.tables import jobs_table, now

    width = shutil.get_terminal_size((200, 50)).columns if sys.stdout.isatty() else 0
    if found.jobs:
        sys.stdout.write(jobs_table(found.jobs, now=now(), width=width, colour=coloured(sys.stdout)))
    elif not found.unreachable:
        note("no jobs" if every else "no jobs today; -a shows older ones")
    for name, error in found.unreachable:
        note(f"{name} cannot be reached: {error.message}")
        if error.hint:
            advise(error.hint)
