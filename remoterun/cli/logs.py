"""``remoterun logs``."""

from __future__ import annotations

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option


@click.command("logs")
@click.argument("job", required=False)
@host_option("Where to look for the job.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends; exits with its status.")
@click.option("-n", "--lines", type=click.IntRange(0), metavar="N", help="Only the last N lines. [default: all]")
@click.option("--rank", type=click.IntRange(0), metavar="R", help="One rank's own log.")
@click.option("--raw", is_flag=True, help="The bytes as they are, control codes and all.")
@click.pass_obj
def command(
    app: App,
    job: str | None,
    hosts: tuple[str, ...],
    follow: bool,
    lines: int | None,
    rank: int | None,
    raw: bool,
) -> int:
    """Print or follow a job's log. JOB: an id, a name (its newest), or nothing (this project's newest)."""
    from remoterun.cli import follow as following
    from remoterun.errors import UsageError

    found = app.fleet().job(job, hosts)
    if rank is not None:
        if follow:
            raise UsageError("--rank shows what is there; -f follows the whole log", hint="leave one out")
        following.write_bytes(found.rank_log(rank, -1 if lines is None else lines), raw=raw)
        return 0
    if not follow:
        following.write_bytes(found.logs(lines=-1 if lines is None else lines), raw=raw)
        return 0
    if lines is None:
        return following.job_until_end(found, 0, raw=raw)
    return following.show(found.follow_last(lines), found.id, raw=raw)
