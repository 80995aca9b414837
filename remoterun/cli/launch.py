"""``remoterun launch``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remoterun.cli.guards import guard_options, read_guards
from remoterun.cli.main import App, options_end
from remoterun.cli.terminal import host_option, json_option, note
from remoterun.errors import UsageError

if TYPE_CHECKING:
    from remoterun.fleet import Fleet
    from remoterun.fleet.launching import Started
    from remoterun.model.job import JobSpec


class LaunchCommand(click.Command):
    """Everything behind SCRIPT belongs to the script (click sees to that), and everything behind -m MODULE to the
    module, whatever options of ours it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``--`` behind the module's name."""
        at, module = options_end(self, args)
        return super().parse_args(ctx, [*args[:at], "--", *args[at:]] if module else args)


@click.command(
    "launch",
    cls=LaunchCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@host_option("Where. [default: defaults.host of hosts.yaml, else local]")
@click.option("--name", help="The job's name. [default: the script's]")
@click.option(
    "--gpus", metavar="N|all|none|LIST", help="How many GPUs, or which: 0,3 or UUIDs. [default: all, if free]"
)
@click.option("--wait", is_flag=True, help="Wait on the host until the GPUs are free; first come, first served.")
@click.option("--nproc-per-node", type=click.IntRange(1), help="Processes. [default: one per GPU, one without]")
@click.option("-m", "--module", metavar="MODULE", help="A module in place of SCRIPT.")
@click.option("--runtime", type=click.Choice(["auto", "none", "docker", "podman"]), help="[default: auto]")
@click.option("--image", help="Run in this container image.")
@click.option("--python", metavar="PATH", help="The interpreter on the host, for runtime none.")
@click.option("--setup", metavar="CMD", help="A shell line to run before the job, such as activating conda.")
@click.option(
    "-e",
    "--env",
    "env",
    multiple=True,
    metavar="K=V",
    help="A variable for the job; K alone takes it from here.",
)
@click.option(
    "--env-file",
    "env_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Variables, a K=V a line.",
)
@click.option(
    "--data",
    "data",
    multiple=True,
    metavar="NAME|SRC:DST[:ro|rw]",
    help="Data for the job: a name of the host's data, or a folder of the host. Its path is in REMOTERUN_DATA_<NAME>.",
)
@click.option("--max-restarts", type=click.IntRange(0), default=0, help="torchrun's own restarts of failed workers.")
@guard_options
@click.option("--tty", is_flag=True, help="Give the job a terminal of its own, for pdb and prompts; attaches to it.")
@click.option("-d", "--detach", is_flag=True, help="Do not follow the log.")
@click.option("--dry-run", is_flag=True, help="Print the whole plan; touch nothing.")
@click.option(
    "--eject",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the plan as a shell script that needs no remoterun.",
)
@click.option("--force-project", metavar="DIR", help="Insist on a home folder or / as the project.")
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...  |  -- CMD...")
@click.pass_obj
def command(app: App, /, hosts: tuple[str, ...], words: tuple[str, ...], **options: object) -> int:
    """Send the code, start the job, follow its log.

    SCRIPT is a file of this project. One that ends in .py (and a MODULE) runs under torchrun, one process for
    each chosen GPU; anything else that is executable runs as it is. CMD after -- is a plain command. The job gets
    its own private copy of the project. Ctrl-C stops following; the job goes on.

    \b
    remoterun launch -H gpu1 train.py --epochs 3
    remoterun launch -H gpu1 --gpus 2 -m package.train
    remoterun launch -H gpu1 -d --name sweep-1 -- bash run.sh
    """
    spec = _spec(words, options)
    fleet = app.fleet()
    force = options["force_project"]
    insist = str(force) if force else None
    if options["dry_run"] or options["eject"]:
        from remoterun.views.plan import describe, eject

        with fleet.planned(spec, hosts, Path.cwd(), insist) as prepared:
            if options["eject"]:
                target = Path(str(options["eject"]))
                target.write_bytes(eject(prepared.plan, prepared.payload))
                target.chmod(0o700)
                if target.resolve().is_relative_to(prepared.plan.project.root):
                    note(
                        f"{target} lies in the project and may hold secrets: the next launch would send it; move it away"
                    )
                note(f"wrote {target}: run it on {prepared.plan.host}, as the login that shall own the job")
            else:
                sys.stdout.write(describe(prepared.plan, prepared.payload))
        return 0
    with fleet.launched(spec, hosts, Path.cwd(), insist) as started:
        from remoterun.cli import follow
        from remoterun.views.plan import summary

        if spec.tty and not spec.detach:
            return _attach(fleet, started)
        if spec.detach:
            return follow.report_start(started.status, as_json=bool(options["as_json"]))
        note(summary(started.plan))
        return follow.until_end(fleet, started)


def _attach(fleet: Fleet, started: Started) -> int:
    """The terminal that the job was given; how to come back when it was left."""
    import subprocess

    from remoterun.cli.attach import attach_environment
    from remoterun.cli.follow import goes_on, said
    from remoterun.fleet import Job
    from remoterun.views.plan import summary

    note(summary(started.plan))
    job = Job(fleet, fleet.remote(fleet.inventory.host(started.plan.host)), started.status)
    if not started.status.state.ended:
        subprocess.run(job.attach_argv(), env=attach_environment(), check=False)
        if not job.refresh().state.ended:
            goes_on(job.id, "left")
            return 0
    return said(job.status)


def _spec(words: tuple[str, ...], options: dict[str, object]) -> JobSpec:
    from remoterun.cli.environment import read_environment
    from remoterun.model.job import Command, JobSpec
    from remoterun.plan.ids import check_name, default_name

    ctx = click.get_current_context()
    plain = _after_dashes(ctx, words)
    module = options["module"]
    if module and plain:
        raise UsageError("-m MODULE and -- CMD exclude each other")
    if module:
        run = Command("module", str(module), words)
    elif not words:
        raise UsageError("nothing to run", hint="remoterun launch SCRIPT [ARGS], -m MODULE [ARGS], or -- CMD…")
    elif plain:
        run = Command("plain", words[0], words[1:])
    else:
        run = Command("script", words[0], words[1:])
    if options["as_json"] and not options["detach"]:
        raise UsageError("--json goes with -d: the log of a followed job is not JSON")
    if options["tty"] and not options["detach"] and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--tty needs a terminal here", hint="add -d, and come to it later: remoterun attach")
    return JobSpec(
        name=check_name(str(options["name"])) if options["name"] is not None else default_name(run.target),
        command=run,
        gpus=_text(options["gpus"]),
        nproc_per_node=options["nproc_per_node"],  # type: ignore[arg-type]
        runtime=_text(options["runtime"]),
        image=_text(options["image"]),
        python=_text(options["python"]),
        setup=_text(options["setup"]),
        env=read_environment(options["env"], options["env_files"]),  # type: ignore[arg-type]
        max_restarts=int(str(options["max_restarts"])),
        guards=read_guards(options),
        notify=tuple(options["notify"]),  # type: ignore[arg-type]
        checkpoint=_text(options["checkpoint"]),
        tty=bool(options["tty"]),
        wait=bool(options["wait"]),
        detach=bool(options["detach"]),
        data=tuple(options["data"]),  # type: ignore[arg-type]
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _after_dashes(ctx: click.Context, words: tuple[str, ...]) -> bool:
    """Whether the words stood behind ``--``. click takes the dashes away, so the raw words are asked."""
    raw = sys.argv[1:]
    tail = list(words)
    return bool(tail) and len(raw) > len(tail) and raw[-len(tail) :] == tail and raw[-len(tail) - 1] == "--"
