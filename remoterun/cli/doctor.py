"""``remoterun doctor``."""

from __future__ import annotations

import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import json_option


@click.command("doctor")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@json_option
@click.pass_obj
def command(app: App, hosts: tuple[str, ...], as_json: bool) -> int:
    """Check everything that a job needs, on each host; each failure with its fix. Exits 1 on any failure."""
    from remoterun.host.checks import Check, check_host

    answers = {answer.remote.host.name: answer for answer in app.fleet().facts(hosts)}
    found: dict[str, tuple[Check, ...]] = {}
    for name in sorted(answers):
        answer = answers[name]
        if answer.value is None:
            error = answer.error
            assert error is not None
            found[name] = (Check("connection", False, error.message, error.hint),)
        else:
            found[name] = (Check("connection", True, "up"), *check_host(answer.remote.host, answer.value))
    failed = any(check.ok is False for checks in found.values() for check in checks)
    if as_json:
        from remoterun.views.documents import doctor_document, write

        write(doctor_document(found))
    else:
        from remoterun.cli.terminal import coloured
        from remoterun.views.tables import doctor_text

        sys.stdout.write(doctor_text(found, colour=coloured(sys.stdout)))
    return 1 if failed else 0
