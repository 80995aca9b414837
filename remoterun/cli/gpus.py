"""``remoterun gpus``."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from remoterun.cli.main import App
from remoterun.cli.terminal import coloured, host_option, json_option
from remoterun.errors import UsageError

if TYPE_CHECKING:
    from remoterun.fleet import Fleet
    from remoterun.fleet.watching import Watch
    from remoterun.plan.gpu_filter import GpuFilter


@click.command("gpus")
@host_option("Which hosts. [default: all of hosts.yaml, else those used before and local]")
@click.option("--once", is_flag=True, help="One table instead of the live view.")
@click.option("--watch", "again", is_flag=True, help="With --json: one document a line, again and again.")
@click.option("--interval", type=click.FloatRange(1, 3600), default=2.0, help="Seconds between refreshes. [default: 2]")
@click.option("--free", is_flag=True, help="Only GPUs that a job could get now.")
@click.option("--mine", is_flag=True, help="Only GPUs with jobs or processes of your own.")
@click.option("--user", metavar="NAME", help="Only GPUs with jobs or processes of this user.")
@click.option("--prometheus", is_flag=True, help="Print the Prometheus text format, once.")
@click.option("--ascii", "ascii_only", is_flag=True, help="The live view without line-drawing characters.")
@json_option
@click.pass_obj
def command(app: App, /, hosts: tuple[str, ...], **options: object) -> None:
    """Every GPU on every host: its state, who holds it, which job, how busy.

    On a terminal this is a live view (? shows its keys); elsewhere, and with --once, one table.
    """
    from remoterun.plan.gpu_filter import GpuFilter

    if options["again"] and not options["as_json"]:
        raise UsageError("--watch goes with --json", hint="on a terminal, remoterun gpus is live by itself")
    wanted = GpuFilter(bool(options["free"]), bool(options["mine"]), _text(options["user"]))
    fleet = app.fleet()
    beat = float(str(options["interval"]))
    if options["again"]:
        _stream(fleet, hosts, wanted, beat)
    elif options["as_json"] or options["prometheus"]:
        _document(fleet, hosts, wanted, prometheus=bool(options["prometheus"]))
    elif options["once"] or app.plain or not _live():
        _table(fleet, hosts, wanted)
    else:
        from remoterun.views.live.app import run_live

        with fleet.watch(hosts, beat_s=beat) as watch:
            again = [sys.executable, "-m", "remoterun", *(["--hosts-file", app.hosts_file] if app.hosts_file else [])]
            run_live(watch, wanted, fleet.inventory.groups, again, ascii_only=bool(options["ascii_only"]))
            fleet.state.add_answered(each.host for each in watch.readings() if each.round is not None)


def _live() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _table(fleet: Fleet, hosts: tuple[str, ...], wanted: GpuFilter) -> None:
    """Hosts in their order as far as they answer at once; those that take longer follow as they come."""
    from remoterun.views.gpus import host_block

    width = shutil.get_terminal_size((200, 50)).columns if sys.stdout.isatty() else 0
    shown: set[str] = set()

    def show(watch: Watch) -> None:
        for reading in watch.readings():
            if reading.host not in shown and (reading.round is not None or reading.error is not None):
                shown.add(reading.host)
                sys.stdout.write(host_block(reading, wanted, width=width, colour=coloured(sys.stdout)))
        sys.stdout.flush()

    with fleet.watch(hosts, once=True) as watch:
        patience = time.monotonic() + 1.0
        for _ in watch.names:
            if not watch.next_answer(patience - time.monotonic()):
                show(watch)
                watch.next_answer(3600.0)
            if time.monotonic() >= patience:
                show(watch)
        show(watch)
        fleet.state.add_answered(each.host for each in watch.readings() if each.round is not None)


def _document(fleet: Fleet, hosts: tuple[str, ...], wanted: GpuFilter, *, prometheus: bool) -> None:
    with fleet.watch(hosts, once=True) as watch:
        list(watch.answers())
        fleet.state.add_answered(each.host for each in watch.readings() if each.round is not None)
        if prometheus:
            from remoterun.views.prometheus import exposition

            sys.stdout.write(exposition(watch.readings(), time.monotonic()))
        else:
            _write(watch, wanted)


def _stream(fleet: Fleet, hosts: tuple[str, ...], wanted: GpuFilter, beat: float) -> None:
    """A document each beat, of what is known then: the first when all have answered once, or a beat has passed."""
    with fleet.watch(hosts, beat_s=beat) as watch:
        until = time.monotonic() + beat
        while time.monotonic() < until and any(not each.count and not each.error for each in watch.readings()):
            time.sleep(0.05)
        while True:
            _write(watch, wanted)
            time.sleep(beat)


def _write(watch: Watch, wanted: GpuFilter) -> None:
    from remoterun.views.documents import gpus_document, gpus_host, write
    from remoterun.views.gpus import filtered

    now = time.monotonic()
    write(gpus_document(gpus_host(filtered(reading, wanted), now) for reading in watch.readings()))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
