"""Guards and news as they are typed, and as files of the job's folder. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from remoterun.errors import UsageError
from remoterun.model.guards import IDLE_BELOW_PCT, Guards, Restart
from remoterun.plan.durations import in_words

# The longest pause of the host's watcher, in seconds: what one look costs it sets the pace.
_TICK_S = 20


def parse_restart(text: str, exit_codes: str | None, delay_s: int | None) -> Restart:
    """``on-failure`` or ``on-failure:N``; ``exit_codes`` by commas. Raises UsageError."""
    found = re.fullmatch(r"on-failure(?::(\d{1,6}))?", text.strip())
    if not found:
        raise UsageError(f"--restart: {text!r}", hint="on-failure, or on-failure:N for at most N restarts")
    codes = []
    for word in (exit_codes or "").split(","):
        if not word.strip():
            continue
        if not re.fullmatch(r"\d{1,3}", word.strip()) or not 1 <= int(word) <= 255:
            raise UsageError(f"--restart-exit-codes: {word.strip()!r} is no exit status of a failure", hint="1 to 255")
        codes.append(int(word))
    most = int(found[1]) if found[1] else None
    restart = Restart(most, tuple(codes))
    return restart if delay_s is None else replace(restart, delay_s=delay_s)


def parse_notify(target: str) -> tuple[str, str]:
    """Kind and target of one ``--notify``: a web address gets JSON, ``ntfy:TOPIC`` (or a whole address behind
    ``ntfy:``) a message for people; anything else is a shell line for the host."""
    if not target.strip() or "\n" in target or "\0" in target:
        raise UsageError(f"--notify: {target!r}", hint="a command, an https:// address, or ntfy:TOPIC")
    kind, _, rest = target.partition(":")
    if kind == "ntfy":
        if re.match(r"https?://", rest):
            return "ntfy", rest
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", rest):
            raise UsageError(
                f"--notify: {rest!r} is no ntfy topic", hint="letters, digits, _ and -, or a whole address"
            )
        return "ntfy", f"https://ntfy.sh/{rest}"
    if re.match(r"https?://", target):
        if re.search(r'[\s"\\]', target):
            raise UsageError(f"--notify: {target!r} is no web address", hint="write spaces and quotes as %20 and %22")
        return "url", target
    return "command", target


def notify_file(targets: Iterable[str]) -> str:
    """The file ``notify``: a line for each target. Addresses hold tokens: it is secret."""
    return "".join(f"{kind} {target}\n" for kind, target in map(parse_notify, targets))


def guards_file(guards: Guards) -> str:
    """The file ``guards`` that sh/watch.sh reads. ``tick`` is its pause: short enough for the shortest guard."""
    spans = [span for span in (guards.idle_s, guards.stall_s) if span is not None]
    tick = max(1, min([_TICK_S, *(span // 4 for span in spans)]))
    lines = [f"tick={tick}", f"grace={guards.grace_s}", f"idle_below={IDLE_BELOW_PCT}"]
    for name, span in (("timeout", guards.timeout_s), ("idle", guards.idle_s), ("stall", guards.stall_s)):
        if span is not None:
            lines += [f"{name}={span}", f"{name}_words={in_words(span)}"]
    return "\n".join(lines) + "\n"


def restart_file(restart: Restart) -> str:
    """The file ``restart`` that sh/supervise.sh reads."""
    most = "" if restart.most is None else str(restart.most)
    return f"most={most}\ncodes={' '.join(map(str, restart.exit_codes))}\ndelay={restart.delay_s}\n"
