"""``remoterun rm``."""

from __future__ import annotations

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, note
from remoterun.errors import RemoterunError


@click.command("rm")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@host_option("Where to look for the jobs.")
@click.pass_obj
def command(app: App, jobs: tuple[str, ...], hosts: tuple[str, ...]) -> int:
    """Remove ended jobs' files, outputs and all. Never a running job's."""
    fleet = app.fleet()
    worst = 0
    for reference in jobs:
        try:
            job = fleet.job(reference, hosts)
            job.remove()
        except RemoterunError as error:
            if len(jobs) < 2:
                raise
            from remoterun.cli.terminal import show_error

            show_error(error)
            worst = max(worst, error.status)
        else:
            note(f"removed {job.id} from {job.remote.host.name}")
    return worst
