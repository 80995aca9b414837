"""``remoterun status``."""

from __future__ import annotations

import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, json_option


@click.command("status")
@click.argument("job", required=False)
@host_option("Where to look for the job.")
@json_option
@click.pass_obj
def command(app: App, job: str | None, hosts: tuple[str, ...], as_json: bool) -> int:
    """One job in full: its state, its plan, its GPUs and its loss so far, its end. Exits 255 when its host cannot be reached."""
    from remoterun.model.job import JobState

    found = app.fleet().job(job, hosts)
    history = None if found.status.state is JobState.UNKNOWN else found.history()
    if as_json:
        from remoterun.views.documents import history_object, job_document, write

        write(job_document(found.status, tmux=found.tmux_command(), history=history_object(history)))
    else:
        from remoterun.views.plan import history_text, status_text

        sys.stdout.write(status_text(found.status, found.tmux_command()))
        if history is not None:
            sys.stdout.write(history_text(found.status, history, ascii_only=app.plain))
    return 255 if found.status.state is JobState.UNKNOWN else 0
