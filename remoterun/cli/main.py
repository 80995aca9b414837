"""The command line: verbs are loaded when they are used, so that ``--help`` and completion stay quick."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from remoterun.errors import RemoterunError

if TYPE_CHECKING:
    from remoterun.fleet import Fleet

# verb → (module in remoterun.cli, one line of help). The order is that of a day's work.
VERBS: dict[str, tuple[str, str]] = {
    "launch": ("launch", "Send the code, start the job, follow its log."),
    "attach": ("attach", "This terminal in the job's own tmux session."),
    "logs": ("logs", "Print or follow a job's log."),
    "wait": ("wait", "Wait for a job's end; exits with the job's own status."),
    "ps": ("ps", "Jobs on all hosts."),
    "status": ("status", "One job in full."),
    "why": ("why", "Why a job ended, and what to do next."),
    "stacks": ("stacks", "Where each process of a running job is just now."),
    "stop": ("stop", "End jobs: signal, grace, kill; prove that nothing is left."),
    "rm": ("rm", "Remove ended jobs' files."),
    "gpus": ("gpus", "Every GPU on every host: who, what, how busy."),
    "hosts": ("hosts", "The hosts: reachability, GPUs, load, disk."),
    "doctor": ("doctor", "Check everything that a job needs; each failure with its fix."),
    "exec": ("exec", "Run a command on hosts."),
    "shell": ("shell", "A login shell on a host."),
    "init": ("init", "Write hosts.yaml from the SSH configuration."),
    "config": ("config", "Show and check the effective configuration."),
}
ALIASES = {"cancel": "stop"}


class LazyGroup(click.Group):
    """A group whose commands are imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in VERBS:
            return None
        module = importlib.import_module(f"remoterun.cli.{VERBS[name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in VERBS and args[0] not in ALIASES:
            from difflib import get_close_matches

            near = get_close_matches(args[0], [*VERBS, *ALIASES], 1)
            ctx.fail(f"no command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)


@dataclass
class App:
    """The global options, and what the verbs share."""

    hosts_file: str | None = None
    accept_new: bool = False
    debug: bool = False
    plain: bool = False
    _fleet: list[Fleet] = field(default_factory=list)

    def fleet(self) -> Fleet:
        """The fleet, loaded once."""
        if not self._fleet:
            from remoterun.cli.terminal import ask_secret, note
            from remoterun.fleet import Fleet

            prompt = ask_secret if sys.stdin.isatty() else None
            self._fleet.append(Fleet.load(self.hosts_file, accept_new=self.accept_new, prompt=prompt, notice=note))
        return self._fleet[0]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--hosts-file", metavar="FILE", help="The inventory. [default: hosts.yaml here or above]")
@click.option("--accept-new", is_flag=True, help="Accept and remember the key of a host never seen before.")
@click.option("--plain", is_flag=True, help="No colour, no live view.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.version_option(package_name="remoterun")
@click.pass_context
def cli(ctx: click.Context, hosts_file: str | None, accept_new: bool, plain: bool, debug: bool) -> None:
    """Run GPU training on any Linux machine that answers SSH; nothing to install there.

    \b
    remoterun launch -H gpu1 train.py --epochs 3     start it, follow its log; Ctrl-C detaches
    remoterun attach                                 back in its tmux session
    remoterun gpus                                   every card on every host
    """
    ctx.obj = App(hosts_file=hosts_file, accept_new=accept_new, debug=debug, plain=plain)
    if plain:
        os.environ["NO_COLOR"] = "1"


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """One command line; its exit status (contract §3)."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json, debug = "--json" in options, "--debug" in options
    try:
        result: Any = cli.main(arguments, prog_name="remoterun", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except RemoterunError as error:
        if debug:
            raise
        return _fail(error, as_json)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        if as_json:
            return _fail(_usage(error), as_json)
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # `| head -1`: whoever read us has had enough. Keep the interpreter from complaining at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:
        if debug:
            raise
        unexpected = RemoterunError(
            f"unexpected: {type(error).__name__}: {error}",
            hint="run it again with --debug and report what it prints",
        )
        return _fail(unexpected, as_json)


def _usage(error: click.ClickException) -> RemoterunError:
    from remoterun.errors import UsageError

    return UsageError(error.format_message())


def _fail(error: RemoterunError, as_json: bool) -> int:
    if as_json:
        from remoterun.views.documents import error_document, write

        write(error_document(error))
    else:
        from remoterun.cli.terminal import show_error

        show_error(error)
    return error.status


if __name__ == "__main__":
    main()
