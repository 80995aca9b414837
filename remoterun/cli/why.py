"""``remoterun why``."""

from __future__ import annotations

import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, json_option


@click.command("why")
@click.argument("job", required=False)
@host_option("Where to look for the job.")
@json_option
@click.pass_obj
def command(app: App, job: str | None, hosts: tuple[str, ...], as_json: bool) -> int:
    """The post-mortem of a job: what failed first, its traceback, signals, the kernel, disk and GPUs; what to do next.

    JOB: an id, a name (its newest), or nothing (this project's newest).
    """
    from remoterun.views.why import why_document, why_text

    found = app.fleet().job(job, hosts).why()
    if as_json:
        from remoterun.views.documents import write

        write(why_document(found))
    else:
        sys.stdout.write(why_text(found))
    return 0
