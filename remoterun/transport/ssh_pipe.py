"""One command on a host: the bytes of an SSH channel, and how it ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

import paramiko

from remoterun.errors import ConnectError, LinkLost
from remoterun.transport.channels import PACKET, REFUSED, Transport

_TICK_S = 1.0


class Owner(Protocol):
    """The connection, as its pipes see it."""

    @property
    def host_name(self) -> str:
        """The host's name in the inventory."""

    def is_active(self) -> bool:
        """Whether all hops are up."""

    def lost(self) -> LinkLost:
        """The error of a dead connection."""

    def forget(self, pipe: Any) -> None:
        """``pipe`` was closed."""


class SshPipe:
    """A channel. It wakes up every second at least, so that each call keeps its own deadline."""

    def __init__(self, connection: Owner, channel: paramiko.Channel) -> None:
        self._connection = connection
        self._channel = channel
        self._closed = False
        channel.settimeout(_TICK_S)

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._channel.send(bytes(view[:PACKET])) :]
            except TimeoutError:
                if not self._connection.is_active():
                    raise self._connection.lost() from None
            except (OSError, EOFError, paramiko.SSHException):
                raise self._unread() from None

    def _unread(self) -> LinkLost:
        if self._how_it_ended is None and not self._closed:
            return self._connection.lost()
        host = self._connection.host_name
        return LinkLost(f"the command on {host} no longer reads its input", host=host)

    def send_eof(self) -> None:
        """Close the command's stdin."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def recv(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stdout."""
        return self._read(self._channel.recv, size, timeout)

    def recv_stderr(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stderr."""
        return self._read(self._channel.recv_stderr, size, timeout)

    def _read(self, read: Callable[[int], bytes], size: int, timeout: float | None) -> bytes:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _TICK_S if deadline is None else max(0.0, deadline - time.monotonic())
            # The channel has one time limit for all threads: another's only makes this one look at its own again.
            self._channel.settimeout(min(_TICK_S, left))
            try:
                data = read(size)
            except TimeoutError:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                if not self._connection.is_active() and not self._closed:
                    raise self._connection.lost() from None
                continue
            except (OSError, EOFError, paramiko.SSHException):
                # paramiko writes too while it reads: more room for the server.
                raise self._connection.lost() from None
            if not data:
                self._check_end()
            return data

    @property
    def _how_it_ended(self) -> str | None:
        transport = self._channel.transport
        assert isinstance(transport, Transport)
        return transport.ended.get(self._channel.chanid)

    def _check_end(self) -> None:
        """The end of a stream is the command's own only if the server said so. An exit status says no such thing: it
        may come before the last output. Raises LinkLost; ConnectError where no command is allowed."""
        how = self._how_it_ended
        if how == REFUSED:
            host = self._connection.host_name
            raise ConnectError(
                f"{host} refused to run a command",
                hint="its sshd_config or authorized_keys may forbid commands to this login",
                host=host,
            )
        if how is None and not self._channel.eof_received and not self._closed:
            raise self._connection.lost()

    def exit_status(self, timeout: float | None = None) -> int:
        """The exit status, 128 + n after signal n, 255 where the server did not tell one."""
        if not self._channel.status_event.wait(timeout):
            raise TimeoutError
        status = int(self._channel.exit_status)
        if status >= 0:
            return status
        if self._how_it_ended is None and not self._closed:
            raise self._connection.lost()
        if not self._closed:
            self._check_end()
        return 255

    def close(self) -> None:
        """Let go of the command."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._channel.close()
        self._connection.forget(self)
