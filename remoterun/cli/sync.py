"""``remoterun sync``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import json_option, note


@click.command("sync")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be sent.")
@click.option("--force-project", metavar="DIR", help="Insist on a home folder or / as the project.")
@json_option
@click.pass_obj
def command(app: App, hosts: tuple[str, ...], dry_run: bool, force_project: str | None, as_json: bool) -> int:
    """Send the project's files, start nothing: the next launch finds them there.

    What git would list (changes and new files included), less .remoterunignore. Only what differs from the newest
    snapshot there is sent. --dry-run shows what that is, by folder, and what should perhaps be left out.
    """
    from remoterun.views.sync import sync_document, sync_text

    found = [
        app.fleet().sync(name, folder=Path.cwd(), dry_run=dry_run, force_project=force_project)
        for name in hosts or (None,)
    ]
    if as_json:
        from remoterun.views.documents import write

        write(sync_document(found, dry_run=dry_run))
        return 0
    for synced in found:
        sys.stdout.write(sync_text(synced, dry_run=dry_run))
    if dry_run:
        note("nothing was sent")
    return 0
