"""``remoterun gc``."""

from __future__ import annotations

import sys

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import host_option, json_option, note
from remoterun.errors import UsageError


@click.command("gc")
@host_option("Where. [default: all of hosts.yaml, else the hosts used before]")
@click.option("--keep-count", type=click.IntRange(0), metavar="N", help="Keep the newest N ended jobs.")
@click.option("--keep-age", metavar="AGE", help="Keep jobs that ended less than this ago (30d).")
@click.option("--keep-bytes", metavar="SIZE", help="Keep the newest ended jobs up to this size in all (200g).")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would go.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def command(
    app: App,
    hosts: tuple[str, ...],
    keep_count: int | None,
    keep_age: str | None,
    keep_bytes: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make room on hosts: ended jobs beyond the keep rule, and snapshots that no job needs.

    The rule is what these options say, else `keep:` of the host in hosts.yaml; without any, no job goes. Says first what
    would be freed, and asks. Running jobs are never touched.
    """
    from remoterun.fleet.listing import ask_all
    from remoterun.fleet.space import Space, look_at_space, make_room
    from remoterun.host.remote import Remote
    from remoterun.model.host import Keep
    from remoterun.plan.durations import parse_duration
    from remoterun.plan.keep import parse_size
    from remoterun.views.space import space_document, space_text

    if keep_age is not None:
        parse_duration(keep_age, "--keep-age")
    if keep_bytes is not None:
        parse_size(keep_bytes, "--keep-bytes")
    asked = Keep(keep_count, keep_age, keep_bytes)
    if as_json and not (dry_run or yes):
        raise UsageError("--json does not ask", hint="add --dry-run or --yes")

    def question(remote: Remote) -> Space:
        return look_at_space(remote, asked if asked != Keep() else remote.host.keep)

    answers = sorted(ask_all(app.fleet().select(hosts), question), key=lambda answer: answer.remote.host.name)
    if as_json:
        from remoterun.views.documents import write

        write(space_document(answers, removed=yes))
    else:
        sys.stdout.write(space_text(answers))
        sys.stdout.flush()
    going = [answer for answer in answers if answer.value and (answer.value.removal.jobs or answer.value.removal.trees)]
    if dry_run or not going:
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nothing was removed: nobody is here to say yes", hint="add --yes")
        if not click.confirm("Remove this?", err=True):
            return 130
    worst = 0
    for answer in going:
        assert answer.value is not None
        for line in make_room(answer.remote, answer.value.removal):
            note(f"{answer.remote.host.name}: not removed: {line}")
            worst = 255
    return worst
