"""``remoterun gpus``."""

from __future__ import annotations

import shutil
import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import coloured, host_option, json_option


@click.command("gpus")
@host_option("Which hosts. [default: all of hosts.yaml, else those used before and local]")
@click.option("--once", is_flag=True, help="One table.")
@json_option
@click.pass_obj
def command(app: App, hosts: tuple[str, ...], once: bool, as_json: bool) -> None:
    """Every GPU on every host: its state, who holds it, which job, how busy."""
    answers = {answer.remote.host.name: answer for answer in app.fleet().facts(hosts)}
    rows = [(name, answers[name].value, answers[name].error) for name in sorted(answers)]
    if as_json:
        from remoterun.views.documents import gpus_document, gpus_host, write

        write(gpus_document(gpus_host(name, facts, error, 0.0 if facts else None) for name, facts, error in rows))
        return
    from remoterun.views.tables import gpus_table

    width = shutil.get_terminal_size((200, 50)).columns if sys.stdout.isatty() else 0
    sys.stdout.write(gpus_table(rows, width=width, colour=coloured(sys.stdout)))
