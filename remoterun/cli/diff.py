"""``remoterun diff``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option


@click.command("diff")
@click.argument("job")
@click.argument("other", default=".", metavar="[JOB|.]")
@host_option("Where to look for the jobs.")
@click.option("--name-only", is_flag=True, help="Only the paths: A added, C changed, R removed.")
@click.pass_obj
def command(app: App, job: str, other: str, hosts: tuple[str, ...], name_only: bool) -> int:
    """What code differs between a job's snapshot and another's, or the tree here (.). Exit status 1 when something does."""
    from remoterun.views.sync import diff_text

    fleet = app.fleet()
    changes = fleet.diff(fleet.job(job, hosts), None if other == "." else fleet.job(other, hosts), folder=Path.cwd())
    sys.stdout.write(diff_text(changes, names_only=name_only))
    return 1 if changes else 0
