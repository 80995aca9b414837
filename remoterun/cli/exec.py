"""``remoterun exec``."""

from __future__ import annotations

import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, show_error
from remoterun.errors import UsageError


@click.command("exec", context_settings={"allow_interspersed_args": False})
@host_option("Which hosts. [default: all of hosts.yaml, else those used before and local]")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_obj
def command(app: App, hosts: tuple[str, ...], words: tuple[str, ...]) -> int:
    """Run CMD with exactly these arguments on each host, side by side.

    With several hosts each line is prefixed with its host. Exits with the highest status; 255 where a host
    was not reached.
    """
    from remoterun.fleet.running import run_everywhere

    fleet = app.fleet()
    if not hosts and words[0] in fleet.inventory.names():
        raise UsageError(f"{words[0]} is a host, not a command", hint=f"remoterun exec -H {words[0]} -- CMD")
    remotes = fleet.select(hosts)
    prefix = len(remotes) > 1

    def show(host: str, data: bytes, *, error: bool) -> None:
        stream = sys.stderr.buffer if error else sys.stdout.buffer
        stream.write(b"".join(host.encode() + b": " + line for line in data.splitlines(True)) if prefix else data)
        stream.flush()

    worst = 0
    for answer in run_everywhere(remotes, words, show, by_line=prefix):
        if answer.error is not None:
            show_error(answer.error)
            worst = 255
        else:
            worst = max(worst, answer.value or 0)
    return worst
