"""Running one command on many hosts: exactly the given argv, output as it comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from remoterun.fleet.listing import Answer, ask_all
from remoterun.host.remote import Remote
from remoterun.plan import shell
from remoterun.transport.base import Pipe

_CHUNK = 1 << 16


class Show(Protocol):
    """Gets pieces of output; called by one thread at a time."""

    def __call__(self, host: str, data: bytes, *, error: bool) -> None:
        """``data`` is one or more whole lines when ``by_line`` was asked for, else as it came."""


def run_everywhere(
    remotes: Sequence[Remote], argv: Sequence[str], show: Show, *, by_line: bool
) -> Iterator[Answer[int]]:
    """Run ``argv`` on each host side by side; answers are exit statuses (128 + n after signal n)."""
    lock = threading.Lock()
    command = shell.for_login_shell(f"exec {shell.join(argv)}")

    def question(remote: Remote) -> int:
        with remote.transport.connect() as connection:
            pipe = connection.open(command)
            pipe.send_eof()
            errors = threading.Thread(
                target=_pump, args=(pipe, remote.host.name, show, lock, by_line, True), daemon=True
            )
            errors.start()
            _pump(pipe, remote.host.name, show, lock, by_line, False)
            errors.join()
            return pipe.exit_status()

    return ask_all(remotes, question)


def _pump(pipe: Pipe, host: str, show: Show, lock: threading.Lock, by_line: bool, error: bool) -> None:
    """Hand on one stream to its end; with ``by_line`` only whole lines (the last may lack its newline)."""
    held = b""
    while True:
        data = (pipe.recv_stderr if error else pipe.recv)(_CHUNK)
        held += data
        cut = len(held) if not by_line else held.rfind(b"\n") + 1
        # A line without end must not fill the memory.
        if not data or len(held) > 1 << 20:
            cut = len(held)
        if cut:
            ready, held = held[:cut], held[cut:]
            if by_line and not ready.endswith(b"\n"):
                ready += b"\n"
            with lock:
                show(host, ready, error=error)
        if not data:
            return
