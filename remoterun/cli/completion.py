"""``remoterun completion``, and what the shell is offered: commands, hosts, jobs.

Nothing here asks the network: hosts come from hosts.yaml, the SSH configuration and the hosts used before, jobs from
what was seen of them last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
)
from click.shell_completion import split_arg_string as split_words

from remoterun.cli.terminal import COMPLETING

_OPEN = ("queued", "starting", "running")
# Only jobs that make sense are offered: one that has ended cannot be attached to.
_OPEN_ONLY = ("attach", "stop", "cancel", "wait", "stacks")
_ENDED_ONLY = ("rm",)
_MOST_JOBS = 100


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Completion of commands, options, hosts and jobs for your shell, to be read by its start-up file.

    \b
    bash   echo 'eval "$(remoterun completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(remoterun completion zsh)"' >> ~/.zshrc     (below compinit)
    fish   remoterun completion fish > ~/.config/fish/completions/remoterun.fish
    """
    cli = click.get_current_context().find_root().command
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "remoterun", COMPLETING).source())


def answer(cli: click.Command) -> int:
    """Print the candidates that a shell asks for. Says nothing of what is wrong: the line is not finished."""
    try:
        cli.main([], prog_name="remoterun", complete_var=COMPLETING, standalone_mode=False)
    except SystemExit as end:
        return int(end.code or 0)
    except Exception:
        return 1
    return 0


class Bash(BashComplete):
    """click's, but for words with ``@``, ``:`` or ``=`` in them: bash takes such words apart, and replaces only the
    last part."""

    source_template = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            *) COMPREPLY+=("$value") ;;
        esac
    done < <(REMOTERUN_LINE="${COMP_LINE:0:COMP_POINT}" REMOTERUN_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def source(self) -> str:
        """The script. (Which bash will read it is not known here: none is asked for its version.)"""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one under it."""
        line = os.environ.get("REMOTERUN_LINE", "")
        words = split_words(line)
        while words and "=" in words[0]:
            words.pop(0)
        incomplete = words.pop() if len(words) > 1 and not line[-1:].isspace() else ""
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Type and value, less the part of the word that bash keeps."""
        _, word = self.get_completion_args()
        # click has taken --option= off.
        word = word.partition("=")[2] if word.startswith("--") and "=" in word else word
        breaks = os.environ.get("REMOTERUN_BREAKS", "")
        # readline leaves an @ with what follows it, other signs with what stands before them.
        kept = max((word.rfind(sign) + (sign != "@") for sign in "@:=" if sign in breaks and sign in word), default=0)
        return f"{item.type},{item.value[kept:]}"


class Zsh(ZshComplete):
    """click's, but for ``--option=value``: zsh replaces the whole word, so the option belongs to the candidate."""

    def format_completion(self, item: CompletionItem) -> str:
        """Type, value and help, a line each."""
        return super().format_completion(_whole(item, self.get_completion_args()[1]))


class Fish(FishComplete):
    """click's, but for ``--option=value``, as in zsh, and for lists: a candidate may hold commas."""

    source_template = """\
function %(complete_func)s
    for candidate in (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \\
            COMP_CWORD=(commandline -t) %(prog_name)s)
        set -l parts (string split -m 1 "," -- $candidate)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""

    def format_completion(self, item: CompletionItem) -> str:
        """Type, value and help."""
        return super().format_completion(_whole(item, self.get_completion_args()[1]))


def _whole(item: CompletionItem, word: str) -> CompletionItem:
    option, equals, _ = word.partition("=")
    if not equals or not option.startswith("--") or item.type != "plain":
        return item
    return CompletionItem(f"{option}={item.value}", type=item.type, help=item.help)


for _shell in (Bash, Zsh, Fish):
    add_completion_class(_shell)


class _Offer(click.types.StringParamType):
    """A word of the command line with what may stand there. Changes no value."""

    def __init__(self, candidates: Callable[[str], Iterable[CompletionItem]]) -> None:
        self._candidates = candidates

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What begins as the word does."""
        return list(self._candidates(incomplete))


def offer(command: click.Command, verb: str) -> None:
    """Give the words of a command their candidates, by their names: every verb calls a host and a job the same."""
    for param in command.params:
        if param.name in ("host", "hosts"):
            param.type = _Offer(hosts)
        elif param.name in ("job", "jobs"):
            param.type = _Offer(lambda word: jobs(word, verb))
        elif param.name == "words" and verb == "launch":
            param.type = _Offer(lambda word: [CompletionItem(word, type="file")])
        elif param.name == "signal":
            from remoterun.fleet.control import SIGNALS

            param.type = click.Choice(SIGNALS, case_sensitive=False)


def hosts(word: str) -> Iterable[CompletionItem]:
    """Hosts, groups and tags. ``a,b`` is a list: its last one is completed."""
    from remoterun.config.inventory import Inventory
    from remoterun.errors import RemoterunError
    from remoterun.fleet.local_state import LocalState

    before, comma, last = word.rpartition(",")
    try:
        names = Inventory.load(_hosts_file()).names()
    except (RemoterunError, OSError):
        # A hosts.yaml that is being written: what was used before is still good.
        names = ()
    used = LocalState.default().hosts_used()
    named = before.split(",")
    return [
        CompletionItem(before + comma + name)
        for name in dict.fromkeys((*names, *used))
        if name.startswith(last) and name not in named
    ]


def jobs(word: str, verb: str) -> Iterable[CompletionItem]:
    """Names and ids of jobs as they were last seen from here, the newest first."""
    from remoterun.fleet.local_state import LocalState

    fitting = [job for job in LocalState.default().last_known().values() if _fits(job, verb)]
    fitting.sort(key=lambda job: str(job.get("created") or ""), reverse=True)
    found: dict[str, CompletionItem] = {}
    for job in fitting[:_MOST_JOBS]:
        seen = f"{job.get('state')} on {job.get('host')}"
        for name in (str(job.get("name")), str(job["id"])):
            if name.startswith(word):
                found.setdefault(name, CompletionItem(name, help=seen))
    return found.values()


def _fits(job: dict[str, Any], verb: str) -> bool:
    still_open = job.get("state") in _OPEN
    return still_open if verb in _OPEN_ONLY else not (still_open and verb in _ENDED_ONLY)


def _hosts_file() -> str | None:
    ctx = click.get_current_context(silent=True)
    app = ctx.find_root().obj if ctx else None
    return getattr(app, "hosts_file", None)
