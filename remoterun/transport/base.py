"""What every way to a host offers: a byte pipe to one command, and nothing more.

All work on a host goes through ``Connection.open``: it runs one command line with the login shell (which
may be fish, csh, zsh …), and gives back a ``Pipe``. Everything above (scripts, framing, answers between
nonce marks) is built on that in ``remoterun.host.conversation``.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol


class Pipe(Protocol):
    """A running command on the host: its stdin, stdout and stderr as bytes.

    ``send``, ``recv`` and ``recv_stderr`` may be called from different threads at once.
    Every method raises :class:`remoterun.errors.LinkLost` when the connection is dead; a dead link is
    noticed within 20 s even when nothing is being sent.
    """

    def send(self, data: bytes) -> None:
        """Write all of ``data`` to the command's stdin; blocks while the other side does not read."""

    def send_eof(self) -> None:
        """Close the command's stdin."""

    def recv(self, size: int, timeout: float | None = None) -> bytes:
        """At least one byte, at most ``size``, of stdout; ``b""`` at its end.

        Raises TimeoutError after ``timeout`` seconds without a byte (None: wait for ever).
        """

    def recv_stderr(self, size: int, timeout: float | None = None) -> bytes:
        """The same for stderr."""

    def exit_status(self, timeout: float | None = None) -> int:
        """Wait for the command's end: its exit status, 128 + n when signal n ended it, 255 if not told."""

    def close(self) -> None:
        """Let go of the command; it is not waited for. May be called twice, and from another thread."""


class Connection(Protocol):
    """One authenticated connection to one host; closing it closes its pipes."""

    @property
    def host_name(self) -> str:
        """The host's name in the inventory."""

    def open(self, command: str) -> Pipe:
        """Run ``command`` by the login shell. Raises ConnectError (LinkLost when the connection died)."""

    def close(self) -> None:
        """Close the connection. May be called twice, and from another thread."""

    def __enter__(self) -> Connection: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Transport(Protocol):
    """A way to a host. Holds no open connection: ``connect`` makes a new one each time."""

    @property
    def host_name(self) -> str:
        """The host's name in the inventory."""

    def connect(self) -> Connection:
        """Connect and log in. Raises ConnectError, HostKeyError or AuthError with host and hint set."""

    def interactive_argv(self, command: str) -> list[str]:
        """The argv that runs ``command`` on the host with this terminal handed over (``ssh -t … command``).

        It reaches the same machine with the same settings as ``connect``.
        """
