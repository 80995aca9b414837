"""``remoterun init``."""

from __future__ import annotations

from pathlib import Path

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import note
from remoterun.errors import UsageError


@click.command("init")
@click.option(
    "-o",
    "--output",
    default="hosts.yaml",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_obj
def command(app: App, output: str, force: bool) -> None:
    """Write a hosts.yaml from the hosts of the SSH configuration, to edit."""
    from remoterun.config.init import render
    from remoterun.config.ssh_names import ssh_config_hosts

    target = Path(output)
    if target.exists() and not force:
        raise UsageError(f"{output} is there already", hint="--force writes over it, -o names another")
    names = ssh_config_hosts()
    try:
        target.write_text(render(names), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    note(f"wrote {output} with {len(names)} hosts of the SSH configuration; look at it, then: remoterun hosts")
