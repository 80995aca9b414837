"""``remoterun rerun``."""

from __future__ import annotations

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, json_option, note
from remoterun.errors import UsageError


@click.command("rerun")
@click.argument("job", required=False)
@host_option("Where to look for the job.")
@click.option("--resume", is_flag=True, help="From its newest checkpoint: $REMOTERUN_CHECKPOINT names it.")
@click.option("--name", help="The new job's name. [default: the old one's]")
@click.option("--gpus", metavar="N|all|none|LIST", help="Other GPUs than the last time. [default: as asked then]")
@click.option("-e", "--env", "env", multiple=True, metavar="K=V", help="One more variable, or another value.")
@click.option("-d", "--detach", is_flag=True, help="Do not follow the log.")
@json_option
@click.pass_obj
def command(
    app: App,
    job: str | None,
    hosts: tuple[str, ...],
    resume: bool,
    name: str | None,
    gpus: str | None,
    env: tuple[str, ...],
    detach: bool,
    as_json: bool,
) -> int:
    """Run a job again on its host: the same code snapshot, command, settings and secrets, though the tree here moved on.

    JOB: an id, a name (its newest), or nothing (this project's newest).
    """
    from remoterun.cli import follow
    from remoterun.cli.environment import read_environment
    from remoterun.fleet.rerunning import Again
    from remoterun.plan.ids import check_name
    from remoterun.views.plan import summary

    if as_json and not detach:
        raise UsageError("--json goes with -d: the log of a followed job is not JSON")
    again = Again(resume, None if name is None else check_name(name), gpus, read_environment(env, ()), detach)
    fleet = app.fleet()
    with fleet.job(job, hosts).again(again) as started:
        if detach:
            return follow.report_start(started.status, as_json=as_json)
        note(summary(started.plan))
        return follow.until_end(fleet, started)
