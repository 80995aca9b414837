"""``remoterun pull``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, json_option, note
from remoterun.errors import UsageError

if TYPE_CHECKING:
    from remoterun.fleet.pulling import PullReport


@click.command("pull")
@click.argument("job", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@host_option("Where to look for the job.")
@click.option("-o", "--output", type=click.Path(file_okay=False), help="Into this folder. [default: runs/JOB]")
@click.option("--force", is_flag=True, help="Also over files that were edited here.")
@click.option("--watch", is_flag=True, help="Again and again until the job has ended.")
@click.option(
    "--every", default=10.0, type=click.FloatRange(0.5), show_default=True, metavar="S", help="Pause of --watch."
)
@json_option
@click.pass_obj
def command(
    app: App,
    job: str | None,
    paths: tuple[str, ...],
    hosts: tuple[str, ...],
    output: str | None,
    force: bool,
    watch: bool,
    every: float,
    as_json: bool,
) -> int:
    """Bring a job's files back: only what is new; cut links are gone on from; files edited here are left alone.

    Without PATH: out/, and what the job created or changed in code/. PATH is relative to the job's folder: out/model.pt,
    'out/**/*.pt' (a quoted glob), code/results.csv, log. They keep these paths under the output folder.

    \b
    remoterun pull                        the newest job of this project
    remoterun pull sweep-1 'out/*.pt' -o models
    remoterun pull --watch sweep-1        while it runs
    """
    from remoterun.fleet import pulling
    from remoterun.views.progress import Bar

    if as_json and watch:
        raise UsageError("--json goes with a single pull, not with --watch")
    found = app.fleet().job(job, hosts)
    bar = Bar(f"pulling {found.id}")
    request = pulling.PullRequest(paths, Path(output) if output else None, force, bar, note)
    if watch:
        for report in pulling.watch(found.remote, found.refresh(), request, every):
            bar.clear()
            if report.files:
                _say(report, found.id)
        return 0
    report = pulling.pull(found.remote, found.refresh(), request)
    bar.clear()
    if as_json:
        from remoterun.views.documents import SCHEMA, write

        write({"schema": SCHEMA, "to": str(report.to), "files": report.files, "bytes": report.bytes, "kept": report.kept,
               "skipped": report.skipped, "unsettled": report.unsettled})  # fmt: skip
    else:
        _say(report, found.id)
    return 0


def _say(report: PullReport, job_id: str) -> None:
    from remoterun.views.progress import size_words

    count = "1 file" if report.files == 1 else f"{report.files} files"
    note(
        f"{count} ({size_words(report.bytes)}) of {job_id} into {report.to}"
        if report.files
        else f"{report.to} has all of it"
    )
    for name in report.kept[:10]:
        note(f"left alone: {report.to}/{name} was changed here (--force replaces it)")
    if len(report.kept) > 10:
        note(f"and {len(report.kept) - 10} more that were changed here")
    for line in report.skipped[:10]:
        note(f"skipped: {line}")
    for name in report.unsettled[:10]:
        note(f"{name} was being written all the time: pull again later")
