"""``remoterun stop``."""

from __future__ import annotations

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, json_option, note
from remoterun.errors import RemoterunError

# What the host says when there was nothing to stop (sh/jobs.sh).
_ENDED = "it had ended already"


@click.command("stop")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@host_option("Where to look for the jobs.")
@click.option(
    "--grace",
    type=click.IntRange(0, 86400),
    default=30,
    show_default=True,
    metavar="S",
    help="Seconds between the signal and the kill.",
)
@click.option("--signal", default="TERM", show_default=True, help="The signal to begin with.")
@json_option
@click.pass_obj
def command(app: App, jobs: tuple[str, ...], hosts: tuple[str, ...], grace: int, signal: str, as_json: bool) -> int:
    """End jobs: the signal, the grace time, then the kill; proves that no process is left.

    Harmless when repeated. Ctrl-C here does not cancel it: it runs on the host.
    """
    fleet = app.fleet()
    worst, documents = 0, []
    for reference in jobs or (None,):
        try:
            job = fleet.job(reference, hosts)
            stopped = job.stop(signal=signal.upper().removeprefix("SIG"), grace=grace)
        except RemoterunError as error:
            if len(jobs) < 2:
                raise
            from remoterun.cli.terminal import show_error

            show_error(error)
            worst = max(worst, error.status)
            continue
        documents.append(stopped.status)
        if not as_json:
            early = _ENDED in stopped.notes
            for line in stopped.notes:
                if line not in ("stopping", _ENDED):
                    note(line)
            state = stopped.status.state.value
            note(f"{job.id} {f'had ended already: {state}' if early else state}; no process of it is left")
    if as_json:
        from remoterun.views.documents import jobs_document, write

        write(jobs_document(documents, []))
    return worst
