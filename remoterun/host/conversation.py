"""Talking to one host: requests and answers over a single running ``sh``.

A command line tool that opens a channel for each question pays two round trips and a login shell every
time, and fails on servers with ``MaxSessions 1``. Here one channel carries them all, one after the other;
several may be sent before the first is answered. Answers stand between marks with a nonce, so whatever a
``.bashrc``, a banner or a locale warning prints is passed over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

from remoterun.errors import HostError, LinkLost, RemoterunError
from remoterun.host import scripts
from remoterun.plan import shell
from remoterun.transport.base import Connection, Pipe

_CHUNK = 1 << 17
_KEEP_STDERR = 1 << 16


@dataclass(frozen=True, slots=True)
class Reply:
    """What one request printed, and its exit status."""

    out: bytes
    err: bytes
    status: int

    @property
    def text(self) -> str:
        """stdout as text; bytes that are no UTF-8 survive as surrogates."""
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def error_text(self) -> str:
        """stderr as text for people."""
        return self.err.decode("utf-8", "replace").strip()


class Conversation:
    """One ``sh`` on the host that answers requests in order. Not for several threads at once."""

    def __init__(self, pipe: Pipe, host_name: str, nonce: str) -> None:
        self._pipe = pipe
        self._host = host_name
        self._nonce = nonce
        self._known: set[str] = set()
        self._sent = 0
        self._answered = 0
        self._buffer = bytearray()
        self._stderr = _Stderr(pipe, nonce)
        self._sender: threading.Thread | None = None

    @classmethod
    def open(cls, connection: Connection, nonce: str) -> Conversation:
        """Start the ``sh``. ``nonce``: letters and digits that no output can hold by chance."""
        return cls(connection.open(shell.bootstrap(nonce)), connection.host_name, nonce)

    def close(self) -> None:
        """End the ``sh`` on the host and whatever request it is answering."""
        self._pipe.close()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def post(
        self,
        function: str,
        arguments: Sequence[str] = (),
        *,
        libraries: Iterable[str],
        payload: Iterable[bytes] | None = None,
    ) -> int:
        """Send a request without waiting; its number is what ``collect`` and ``stream`` want.

        ``function`` is defined in one of ``libraries`` (files of ``remoterun/sh``, sent when this ``sh``
        has not seen them yet). A payload is sent while the answer is being read.
        """
        self._finish_sending()
        text = []
        for library in libraries:
            if library not in self._known:
                self._known.add(library)
                text.append(shell.definitions(scripts.read(library), self._nonce))
        self._sent += 1
        text.append(shell.request(function, arguments, self._nonce, self._sent))
        data = "".join(text).encode("utf-8", "surrogateescape")
        if payload is None:
            self._send_all(data, ())
        else:
            self._sender = threading.Thread(target=self._send_all, args=(data, payload), daemon=True)
            self._sender.start()
        return self._sent

    def collect(
        self, number: int, *, timeout: float | None = 60.0, on_output: Callable[[], None] | None = None
    ) -> Reply:
        """The answer to request ``number``. Raises HostError after ``timeout`` seconds of silence."""
        out = bytearray()
        stream = self.stream(number, timeout=timeout)
        while True:
            try:
                out += next(stream)
            except StopIteration as end:
                return Reply(bytes(out), self._stderr.take(number, timeout), end.value)
            if on_output:
                on_output()

    def ask(
        self,
        function: str,
        arguments: Sequence[str] = (),
        *,
        libraries: Iterable[str],
        payload: Iterable[bytes] | None = None,
        timeout: float | None = 60.0,
    ) -> Reply:
        """``post`` and ``collect`` in one."""
        number = self.post(function, arguments, libraries=libraries, payload=payload)
        return self.collect(number, timeout=timeout)

    def stream(self, number: int, *, timeout: float | None = None) -> Generator[bytes, None, int]:
        """The answer to request ``number`` piece by piece, as it comes; returns its exit status.

        (As a generator's return value: ``status = yield from conversation.stream(n)``.)
        """
        if number != self._answered + 1:
            raise RemoterunError(f"request {number} was asked for out of order")
        mark = f"\x1e{self._nonce} {number}".encode()
        self._skip_past(mark + b" begin\n", timeout)
        end = mark + b" end "
        while True:
            found = self._buffer.find(end)
            if found >= 0:
                if found:
                    yield bytes(self._buffer[:found])
                del self._buffer[: found + len(end)]
                status = self._line(timeout)
                self._answered = number
                return int(status)
            # Hold back only what may be the beginning of the end mark.
            safe = len(self._buffer) - _overlap(self._buffer, end)
            if safe > 0:
                yield bytes(self._buffer[:safe])
                del self._buffer[:safe]
            self._fill(timeout)

    def _skip_past(self, mark: bytes, timeout: float | None) -> None:
        """Drop everything up to and with ``mark``; remember what came before for an error message."""
        while (found := self._buffer.find(mark)) < 0:
            self._fill(timeout)
        del self._buffer[: found + len(mark)]

    def _line(self, timeout: float | None) -> bytes:
        while (found := self._buffer.find(b"\n")) < 0:
            self._fill(timeout)
        line = bytes(self._buffer[:found])
        del self._buffer[: found + 1]
        return line

    def _fill(self, timeout: float | None) -> None:
        try:
            data = self._pipe.recv(_CHUNK, timeout)
        except TimeoutError:
            raise HostError(
                f"{self._host} gave no answer within {timeout:.0f} s",
                hint="the host may be overloaded; try again",
                host=self._host,
            ) from None
        if not data:
            raise self._ended_early()
        self._buffer += data

    def _ended_early(self) -> RemoterunError:
        """The ``sh`` went away before it answered: say what it printed instead."""
        words = bytes(self._buffer[-500:]).decode("utf-8", "replace").strip()
        words = words or self._stderr.last_words()
        if self._answered or (self._known and not words):
            return LinkLost(f"the session on {self._host} ended before it answered", host=self._host)
        said = f": it printed {words!r}" if words else ""
        return HostError(
            f"the login shell of {self._host} ended before it ran anything{said}",
            hint="a start-up file of the login (.bashrc, .cshrc, config.fish) may end the shell or wait for input",
            host=self._host,
        )

    def _send_all(self, data: bytes, payload: Iterable[bytes]) -> None:
        try:
            self._pipe.send(data)
            for piece in payload:
                self._pipe.send(piece)
        except (RemoterunError, OSError):
            # The reading side meets the same end and knows more about it: an answer may still come.
            return

    def _finish_sending(self) -> None:
        if self._sender is not None:
            self._sender.join()
            self._sender = None


class _Stderr:
    """Reads stderr beside stdout, so that neither blocks the other; keeps the last of each request."""

    def __init__(self, pipe: Pipe, nonce: str) -> None:
        self._pipe = pipe
        self._nonce = nonce
        self._buffer = bytearray()
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = self._pipe.recv_stderr(_CHUNK)
            except (RemoterunError, OSError):
                data = b""
            with self._changed:
                self._buffer += data
                if len(self._buffer) > 2 * _KEEP_STDERR:
                    del self._buffer[:-_KEEP_STDERR]
                self._ended = self._ended or not data
                self._changed.notify_all()
            if not data:
                return

    def take(self, number: int, timeout: float | None) -> bytes:
        """What request ``number`` wrote to stderr (its last 64 KiB)."""
        mark = f"\x1e{self._nonce} {number}".encode()
        end = mark + b" end\n"
        with self._changed:
            self._changed.wait_for(lambda: self._ended or end in self._buffer, timeout)
            before, found, after = bytes(self._buffer).partition(end)
            if found:
                self._buffer[:] = after
            head, begun, rest = before.partition(mark + b" begin\n")
            return rest if begun else head

    def last_words(self) -> str:
        """The end of everything that came, for the case that nothing else is known."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, 1.0)
            return bytes(self._buffer[-500:]).decode("utf-8", "replace").strip()


def _overlap(buffer: bytearray, mark: bytes) -> int:
    """How many bytes at the end of ``buffer`` could be the beginning of ``mark``."""
    for size in range(min(len(mark) - 1, len(buffer)), 0, -1):
        if buffer.endswith(mark[:size]):
            return size
    return 0
