"""This machine as a host: the same pipes, without SSH."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO

from remoterun.errors import ConnectError, LinkLost


class LocalPipe:
    """A child process. It has a session of its own: Ctrl-C at our terminal does not reach it."""

    def __init__(self, command: str, host_name: str) -> None:
        self._host = host_name
        try:
            self._child = subprocess.Popen(
                ["sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise ConnectError(f"cannot start sh here: {error.strerror}", host=host_name) from None
        self._closing = threading.Lock()
        self._closed = False
        # Made to end whoever waits for a stream that something the command left behind still holds open.
        self._hear_close, self._say_close = os.pipe()
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._in, self._out, self._err = map(_Stream, (self._child.stdin, self._child.stdout, self._child.stderr))

    def send(self, data: bytes) -> None:
        """Write all of ``data``; raises LinkLost when nobody reads any more."""
        view = memoryview(data)
        with self._in.lock:
            try:
                while view:
                    if not self._ready(self._in, select.POLLOUT, None):
                        raise BrokenPipeError
                    view = view[os.write(self._in.file.fileno(), view) :]
            except (OSError, ValueError):
                raise LinkLost("the command on this machine no longer reads its input", host=self._host) from None

    def send_eof(self) -> None:
        """Close the command's stdin."""
        with self._in.lock, contextlib.suppress(OSError):
            self._in.file.close()

    def recv(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stdout."""
        return self._read(self._out, size, timeout)

    def recv_stderr(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stderr."""
        return self._read(self._err, size, timeout)

    def _read(self, stream: _Stream, size: int, timeout: float | None) -> bytes:
        with stream.lock:
            if stream.file.closed or not self._ready(stream, select.POLLIN, timeout):
                return b""
            return os.read(stream.file.fileno(), size)

    def _ready(self, stream: _Stream, event: int, timeout: float | None) -> bool:
        """Wait until the stream can be used; False when the pipe is closed meanwhile. Raises TimeoutError."""
        waiting = select.poll()
        waiting.register(stream.file.fileno(), event)
        waiting.register(self._hear_close, select.POLLIN)
        ready = waiting.poll(None if timeout is None else max(0, math.ceil(1000 * timeout)))
        if not ready:
            raise TimeoutError
        return all(number != self._hear_close for number, _ in ready)

    def exit_status(self, timeout: float | None = None) -> int:
        """The exit status; 128 + n for signal n."""
        try:
            code = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return code if code >= 0 else 128 - code

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """End the command and what it started in its own session's first group."""
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGTERM)
            try:
                self._child.wait(2)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._child.pid, signal.SIGKILL)
                self._child.wait(2)
        with self._closing:
            if self._closed:
                return
            self._closed = True
            os.close(self._say_close)
            for stream in (self._in, self._out, self._err):
                with stream.lock, contextlib.suppress(OSError):
                    stream.file.close()
            os.close(self._hear_close)


class _Stream:
    """One end of a pipe, and a lock for as long as it is in use: a closed number may soon be another file's."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.lock = threading.Lock()
        os.set_blocking(file.fileno(), file.readable())


@dataclass
class LocalConnection:
    """Nothing to log in to; it only knows its pipes."""

    host_name: str
    _pipes: list[LocalPipe] = field(default_factory=list)

    def open(self, command: str) -> LocalPipe:
        """Run ``command`` by sh."""
        self._pipes = [pipe for pipe in self._pipes if not pipe.closed]
        pipe = LocalPipe(command, self.host_name)
        self._pipes.append(pipe)
        return pipe

    def close(self) -> None:
        """Close all pipes."""
        while self._pipes:
            self._pipes.pop().close()

    def __enter__(self) -> LocalConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class LocalTransport:
    """The way to this machine."""

    host_name: str

    def connect(self) -> LocalConnection:
        """Always works."""
        return LocalConnection(self.host_name)

    def interactive_argv(self, command: str) -> list[str]:
        """The argv that runs ``command`` at this terminal."""
        return ["sh", "-c", command]
