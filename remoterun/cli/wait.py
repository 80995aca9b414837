"""``remoterun wait``."""

from __future__ import annotations

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, json_option


@click.command("wait")
@click.argument("job", required=False)
@host_option("Where to look for the job.")
@json_option
@click.pass_obj
def command(app: App, job: str | None, hosts: tuple[str, ...], as_json: bool) -> int:
    """Wait for a job's end; exits with the job's own status. Cut links are mended."""
    from remoterun.cli.follow import exit_status, goes_on, said

    found = app.fleet().job(job, hosts)
    try:
        status = found.wait()
    except KeyboardInterrupt:
        if not as_json:
            goes_on(found.id, "no longer waiting")
        return 130
    if as_json:
        from remoterun.views.documents import job_document, write

        write(job_document(status))
        return exit_status(status)
    return said(status)
