"""Launch's options for what happens while nobody looks: limits, restarts, news."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from remoterun.errors import UsageError

if TYPE_CHECKING:
    from remoterun.model.guards import Guards

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--timeout", metavar="TIME", help="End the job after this long (90s, 30m, 1h30m, 2d)."),
    click.option("--stop-when-idle", metavar="TIME", help="End it when its GPUs have been idle for this long."),
    click.option(
        "--grace",
        type=click.IntRange(0, 86400),
        default=30,
        show_default=True,
        metavar="S",
        help="Seconds that these two leave it to save.",
    ),
    click.option(
        "--stall-after",
        metavar="TIME|never",
        default="15m",
        show_default=True,
        help="Silent log and idle GPUs for this long are shown, and told, as a stall.",
    ),
    click.option(
        "--restart", metavar="on-failure[:N]", help="Begin a failed job again on its host, N times at the most."
    ),
    click.option("--restart-exit-codes", metavar="CODES", help="Only after these exit statuses: 1,137."),
    click.option(
        "--restart-delay", metavar="TIME", help="The first pause; each further one is twice as long. [default: 5s]"
    ),
    click.option(
        "--checkpoint", metavar="GLOB", help="Where in its folder the job's checkpoints are. [default: usual names]"
    ),
    click.option(
        "--notify",
        multiple=True,
        metavar="CMD|URL|ntfy:TOPIC",
        help="Told by the host at end, failure, restart, stall.",
    ),
)


def guard_options(command: F) -> F:
    """The options of this page on a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_guards(options: Mapping[str, object]) -> Guards:
    """What was typed. Raises UsageError."""
    from remoterun.model.guards import Guards
    from remoterun.plan.durations import parse_duration
    from remoterun.plan.guards import parse_notify, parse_restart

    def span(name: str) -> int | None:
        value = options[name.lstrip("-").replace("-", "_")]
        return None if value is None else parse_duration(str(value), name)

    restart = None
    if options["restart"] is not None:
        codes = options["restart_exit_codes"]
        restart = parse_restart(str(options["restart"]), None if codes is None else str(codes), span("--restart-delay"))
    elif options["restart_exit_codes"] is not None or options["restart_delay"] is not None:
        raise UsageError("--restart-exit-codes and --restart-delay go with --restart on-failure")
    for target in options["notify"]:  # type: ignore[attr-defined]
        parse_notify(target)
    return Guards(
        restart=restart,
        timeout_s=span("--timeout"),
        idle_s=span("--stop-when-idle"),
        stall_s=None if options["stall_after"] == "never" else span("--stall-after"),
        grace_s=int(str(options["grace"])),
    )
