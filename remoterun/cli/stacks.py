"""``remoterun stacks``."""

from __future__ import annotations

import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option


@click.command("stacks")
@click.argument("job", required=False)
@host_option("Where to look for the job.")
@click.pass_obj
def command(app: App, job: str | None, hosts: tuple[str, ...]) -> int:
    """Where each Python process of a running job is just now, by py-spy on its host.

    py-spy is looked for on the PATH there and beside the job's own Python. Without it: what the kernel knows.
    """
    sys.stdout.write(app.fleet().job(job, hosts).stacks())
    return 0
