"""``remoterun config``."""

from __future__ import annotations

import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import json_option


@click.command("config")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """Show the effective configuration: hosts.yaml with its defaults laid in. Errors name file, line and column."""
    inventory = app.fleet().inventory
    if as_json:
        from remoterun.views.documents import SCHEMA, write

        write({"schema": SCHEMA, **inventory.to_document()})
        return
    import yaml

    source = inventory.source or "no hosts.yaml: the embedded default and the SSH configuration"
    sys.stdout.write(f"# {source}\n")
    sys.stdout.write(yaml.safe_dump(inventory.to_document(), sort_keys=False, allow_unicode=True))
