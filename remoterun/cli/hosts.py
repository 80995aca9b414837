"""``remoterun hosts``."""

from __future__ import annotations

import shutil
import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import coloured, host_option, json_option


@click.command("hosts")
@host_option("Which hosts. [default: all of hosts.yaml, else those used before and local]")
@json_option
@click.pass_obj
def command(app: App, hosts: tuple[str, ...], as_json: bool) -> None:
    """The hosts: reachability, GPUs, load, memory, disk."""
    answers = {answer.remote.host.name: answer for answer in app.fleet().facts(hosts)}
    rows = [(name, answers[name].value, answers[name].error) for name in sorted(answers)]
    if as_json:
        from remoterun.views.documents import SCHEMA, host_object, write

        found = [
            host_object(name, facts, error, {"tags": list(answers[name].remote.host.tags)})
            for name, facts, error in rows
        ]
        write({"schema": SCHEMA, "hosts": found})
        return
    from remoterun.views.tables import hosts_table

    width = shutil.get_terminal_size((200, 50)).columns if sys.stdout.isatty() else 0
    sys.stdout.write(hosts_table(rows, width=width, colour=coloured(sys.stdout)))
