"""The command line: verbs are loaded when they are used, so that ``--help`` and completion stay quick."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from remoterun.cli.terminal import COMPLETING
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
    "pull": ("pull", "Bring a job's files back: outputs, checkpoints, logs; only what is new."),
    "rerun": ("rerun", "Run a job again: its own snapshot and settings; --resume from its newest checkpoint."),
    "rm": ("rm", "Remove ended jobs' files."),
    "sync": ("sync", "Send the project's files, start nothing; --dry-run shows what would go."),
    "diff": ("diff", "What code differs between jobs, or from the tree here."),
    "gc": ("gc", "Make room on hosts: ended jobs beyond the keep rule, snapshots that no job needs."),
    "gpus": ("gpus", "Every GPU on every host: who, what, how busy."),
    "hosts": ("hosts", "The hosts: reachability, GPUs, load, disk."),
    "doctor": ("doctor", "Check everything that a job needs; each failure with its fix."),
    "exec": ("exec", "Run a command on hosts."),
    "shell": ("shell", "A login shell on a host."),
    "init": ("init", "Write hosts.yaml from the SSH configuration."),
    "config": ("config", "Show and check the effective configuration."),
    "completion": ("completion", "Completion of commands, hosts and jobs for your shell."),
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
        known = {option.name for option in command.params}
        command.params += [option for option in _global_options() if option.name not in known]
        if COMPLETING in os.environ:
            from remoterun.cli.completion import offer

            offer(command, cmd_name)
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
            from remoterun.errors import UsageError

            raise UsageError(
                f"no command {args[0]!r}",
                hint=f"did you mean {near[0]}?   remoterun --help lists them"
                if near
                else "remoterun --help lists them",
            )
        return super().resolve_command(ctx, args)


@dataclass
class App:
    """The global options, and what the verbs share."""

    hosts_file: str | None = None
    accept_new: bool = False
    debug: bool = False
    plain: bool = False
    _fleet: list[Fleet] = field(default_factory=list)

    def set(
        self,
        hosts_file: str | None = None,
        accept_new: bool = False,
        debug: bool = False,
        plain: bool = False,
    ) -> None:
        """What was typed, before the command or after it."""
        self.hosts_file = hosts_file or self.hosts_file
        self.accept_new |= accept_new
        self.debug |= debug
        self.plain |= plain
        if self.plain:
            os.environ["NO_COLOR"] = "1"

    def fleet(self) -> Fleet:
        """The fleet, loaded once."""
        if not self._fleet:
            from remoterun.cli.terminal import ask_secret, note
            from remoterun.fleet import Fleet
            from remoterun.views.progress import Bar

            prompt = ask_secret if sys.stdin.isatty() else None
            found = Fleet.load(
                self.hosts_file, accept_new=self.accept_new, prompt=prompt, notice=note, progress=Bar("sending")
            )
            self._fleet.append(found)
        return self._fleet[0]


def _global_options() -> list[click.Option]:
    """The group's options, for every command too: people type them where they think of them."""

    def keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
        if value:
            ctx.obj.set(**{str(param.name): value})

    return [
        click.Option(param.opts, type=param.type, is_flag=param.is_flag, hidden=True, expose_value=False, callback=keep)
        for param in cli.params
        if isinstance(param, click.Option) and param.name in ("hosts_file", "accept_new", "plain", "debug")
    ]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--hosts-file", metavar="FILE", type=click.Path(), help="The inventory. [default: hosts.yaml here or above]"
)
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

    The options below go before or after the command's name.
    """
    ctx.obj = App()
    ctx.obj.set(hosts_file=hosts_file, accept_new=accept_new, debug=debug, plain=plain)


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """One command line; its exit status (contract §3)."""
    if COMPLETING in os.environ:
        from remoterun.cli.completion import answer

        return answer(cli)
    options = own_words(arguments)
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
        return _fail(_usage(error), as_json)
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


def own_words(arguments: list[str]) -> list[str]:
    """The words that are remoterun's: not those behind ``--``, nor those of a script that is launched."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    verbs = [at for at, word in enumerate(words) if word in _OTHERS_WORDS]
    if not verbs or any(word in VERBS for word in words[: verbs[0]]):
        return words
    command = cli.get_command(click.Context(cli), words[verbs[0]])
    begin = verbs[0] + 1
    return words[: begin + (options_end(command, words[begin:])[0] if command else 0)]


# Commands whose later words belong to somebody else.
_OTHERS_WORDS = ("launch", "exec")


def options_end(command: click.Command, args: list[str]) -> tuple[int, bool]:
    """How many of ``args`` are leading options (with their values) of ``command``, and whether -m is the last."""
    flags = {name: option for option in command.params if isinstance(option, click.Option) for name in option.opts}
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "--":
        option = flags.get(args[at].partition("=")[0])
        takes_next = option is not None and not option.is_flag and "=" not in args[at]
        at += 2 if takes_next else 1
        if option is not None and option.name == "module":
            return at, True
    return at, False


def _usage(error: click.ClickException) -> RemoterunError:
    from remoterun.errors import UsageError

    ctx = error.ctx if isinstance(error, click.UsageError) else None
    where = f"{ctx.command_path} --help" if ctx else "remoterun --help"
    if isinstance(error, click.NoSuchOption):
        near = [name for name in error.possibilities or () if name not in ("--help", "-h")]
        words = f"did you mean {' or '.join(near[:3])}?   " if near else ""
        return UsageError(f"no option {error.option_name}", hint=words + where)
    message = error.format_message().rstrip(".")
    return UsageError(message[:1].lower() + message[1:], hint=where)


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
