"""This machine as a host: the same pipes, without SSH."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from dataclasses import dataclass, field
from types import TracebackType

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
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._in, self._out, self._err = self._child.stdin, self._child.stdout, self._child.stderr

    def send(self, data: bytes) -> None:
        """Write all of ``data``; raises LinkLost when nobody reads any more."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._in.fileno(), view) :]
        except (OSError, ValueError):
            raise LinkLost("the command on this machine no longer reads its input", host=self._host) from None

    def send_eof(self) -> None:
        """Close the command's stdin."""
        with contextlib.suppress(OSError):
            self._in.close()

    def recv(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stdout."""
        return self._read(self._out.fileno, size, timeout)

    def recv_stderr(self, size: int, timeout: float | None = None) -> bytes:
        """Bytes of stderr."""
        return self._read(self._err.fileno, size, timeout)

    def _read(self, fileno: object, size: int, timeout: float | None) -> bytes:
        assert callable(fileno)
        try:
            number: int = fileno()
            if timeout is not None and not select.select([number], [], [], timeout)[0]:
                raise TimeoutError
            return os.read(number, size)
        except TimeoutError:
            raise
        except (OSError, ValueError):
            # Closed by another thread.
            return b""

    def exit_status(self, timeout: float | None = None) -> int:
        """The exit status; 128 + n for signal n."""
        try:
            code = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return code if code >= 0 else 128 - code

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
        for stream in (self._in, self._out, self._err):
            with contextlib.suppress(OSError):
                stream.close()


@dataclass
class LocalConnection:
    """Nothing to log in to; it only knows its pipes."""

    host_name: str
    _pipes: list[LocalPipe] = field(default_factory=list)

    def open(self, command: str) -> LocalPipe:
        """Run ``command`` by sh."""
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
