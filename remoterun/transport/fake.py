"""A bad link on purpose: a real transport that refuses, delays and cuts, for tests of whatever must reconnect."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from types import TracebackType

from remoterun.errors import ConnectError, LinkLost
from remoterun.transport.base import Connection, Pipe, Transport


class FlakyTransport:
    """``inner`` with faults, one plan for each connection in turn.

    The first ``refuse_connects`` calls of ``connect`` raise ConnectError. Of the connections that follow, each takes
    the next number of ``cut_after_bytes``: once so many bytes of stdout (over all its pipes) were handed out, it is
    dead, and every call raises LinkLost. None, and whatever comes after the last number: no cut. ``delay`` seconds
    pass before each answer to ``connect`` and ``open``. ``connects`` and ``cuts`` count what happened.
    """

    def __init__(
        self,
        inner: Transport,
        *,
        cut_after_bytes: Iterable[int | None] = (),
        refuse_connects: int = 0,
        delay: float = 0.0,
    ) -> None:
        self.inner = inner
        self.delay = delay
        self.refuse_connects = refuse_connects
        self.connects = 0
        self.cuts = 0
        self._plans = iter(cut_after_bytes)

    @property
    def host_name(self) -> str:
        """The host's name in the inventory."""
        return self.inner.host_name

    def connect(self) -> FlakyConnection:
        """Refused, or a connection that is cut as planned."""
        time.sleep(self.delay)
        if self.refuse_connects > 0:
            self.refuse_connects -= 1
            raise ConnectError(f"{self.host_name} refused the connection", host=self.host_name)
        self.connects += 1
        return FlakyConnection(self, self.inner.connect(), next(self._plans, None))

    def interactive_argv(self, command: str) -> list[str]:
        """As the real transport's."""
        return self.inner.interactive_argv(command)


class FlakyConnection:
    """A connection with ``left`` bytes to live; None: it is sound."""

    def __init__(self, transport: FlakyTransport, inner: Connection, left: int | None) -> None:
        self._transport = transport
        self._inner = inner
        self._left = left
        self._lock = threading.Lock()
        self.dead = False

    @property
    def host_name(self) -> str:
        """The host's name in the inventory."""
        return self._inner.host_name

    def open(self, command: str) -> FlakyPipe:
        """Run ``command``."""
        self.check()
        time.sleep(self._transport.delay)
        return FlakyPipe(self, self._inner.open(command))

    def cut(self) -> None:
        """Cut it now: from another thread, say."""
        with self._lock:
            if self.dead:
                return
            self.dead = True
        self._transport.cuts += 1
        self._inner.close()

    def check(self) -> None:
        """Raises LinkLost when it was cut."""
        if self.dead:
            raise LinkLost(f"the connection to {self.host_name} was cut", host=self.host_name)

    def spend(self, data: bytes) -> bytes:
        """What of ``data`` still comes through; cuts behind it. Raises LinkLost when nothing does."""
        with self._lock:
            if self._left is None:
                return data
            passed = data[: self._left]
            self._left -= len(passed)
            over = self._left == 0
        if over:
            self.cut()
        if not passed:
            self.check()
        return passed

    def close(self) -> None:
        """Close the real one."""
        self._inner.close()

    def __enter__(self) -> FlakyConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FlakyPipe:
    """A pipe of a connection that may be cut at any byte."""

    def __init__(self, connection: FlakyConnection, inner: Pipe) -> None:
        self._connection = connection
        self._inner = inner

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""
        self._connection.check()
        try:
            self._inner.send(data)
        finally:
            self._connection.check()

    def send_eof(self) -> None:
        """Close the command's stdin."""
        self._connection.check()
        self._inner.send_eof()

    def recv(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stdout, as many as the plan lets through."""
        self._connection.check()
        data = self._inner.recv(size, timeout)
        if not data:
            self._connection.check()
            return data
        return self._connection.spend(data)

    def recv_stderr(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stderr."""
        self._connection.check()
        data = self._inner.recv_stderr(size, timeout)
        if not data:
            self._connection.check()
        return data

    def exit_status(self, timeout: float | None = None) -> int:
        """The command's exit status."""
        self._connection.check()
        status = self._inner.exit_status(timeout)
        self._connection.check()
        return status

    def close(self) -> None:
        """Let go of the command."""
        self._inner.close()
