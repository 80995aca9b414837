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
@click.option(
    "--since", metavar="TIME", help="From then on: 10m (ago), or 2026-01-31T10:00. A little more, never less."
)
@click.option("--grep", metavar="REGEX", help="Only lines that match (an extended regular expression).")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only this attempt (launch --restart).")
@click.option("--rank", type=click.IntRange(0), metavar="R", help="One rank's own log.")
@click.option("--raw", is_flag=True, help="The bytes as they are, control codes and all.")
@click.pass_obj
def command(
    app: App,
    job: str | None,
    hosts: tuple[str, ...],
    follow: bool,
    lines: int | None,
    since: str | None,
    grep: str | None,
    attempt: int | None,
    rank: int | None,
    raw: bool,
) -> int:
    """Print or follow a job's log. JOB: an id, a name (its newest), or nothing (this project's newest)."""
    from remoterun.cli import follow as following
    from remoterun.errors import UsageError
    from remoterun.fleet.logs import Excerpt, parse_since

    count = -1 if lines is None else lines
    excerpt = Excerpt(count, None if since is None else parse_since(since), attempt, grep)
    if rank is not None and (follow or excerpt != Excerpt(count)):
        raise UsageError("--rank shows one rank's log as it is; it goes with -n and --raw only", hint="leave one out")
    if follow and attempt is not None:
        raise UsageError("--attempt shows what is there; -f goes on with the newest", hint="leave one out")
    found = app.fleet().job(job, hosts)
    if rank is not None:
        following.write_bytes(found.rank_log(rank, count), raw=raw)
    elif not follow:
        following.write_bytes(found.logs(excerpt=excerpt), raw=raw)
    elif excerpt == Excerpt():
        return following.job_until_end(found, 0, raw=raw)
    else:
        return following.show(found.follow_from(excerpt), found.id, raw=raw)
    return 0
