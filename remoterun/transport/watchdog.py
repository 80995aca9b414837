"""Noticing a dead link: TCP alone may take a quarter of an hour.

Bytes received are the sign of life. After a few seconds of silence the server is asked something it must
answer (keepalive@openssh.com); when still nothing has come for a while, the link is dead. A slow link whose
answers queue behind data is alive as long as bytes come.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any, Protocol

ASK_AFTER_S = 5.0
DEAD_AFTER_S = 15.0
TICK_S = 1.0
# A tick that took longer than this was no tick: this process, or the whole machine, was stopped meanwhile.
_SLEPT_S = 3.0


class Watched(Protocol):
    """A connection as the watchdog sees it."""

    @property
    def last_received(self) -> float:
        """When the last byte came, by the monotonic clock."""

    def ask(self) -> None:
        """Send a request that must be answered; may block."""

    def give_up(self) -> None:
        """The link is dead: wake whoever waits on it."""

    def is_open(self) -> bool:
        """False once there is nothing more to watch."""


class CountingSocket:
    """A socket (or a channel in a socket's place) that knows when it last received something."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.last_received = time.monotonic()

    def recv(self, size: int) -> bytes:
        """As the socket's own."""
        data: bytes = self.inner.recv(size)
        if data:
            self.last_received = time.monotonic()
        return data

    def abort(self) -> None:
        """Close so that blocked reads and writes in other threads end too."""
        with contextlib.suppress(Exception):
            self.inner.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(Exception):
            self.inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Vigil:
    """What is known of one connection's silence. Times are the monotonic clock's, in seconds."""

    def __init__(self) -> None:
        self._asked: float | None = None

    def look(self, now: float, last_received: float, *, slept: bool) -> str:
        """``"ask"``, ``"dead"`` or ``""``.

        Dead is only what was asked and had the time to answer. After a sleep (``slept``) no silence from before
        counts, and the question is put at once: the other side may have given up long ago.
        """
        if slept or (self._asked is not None and last_received > self._asked):
            self._asked = None
        if self._asked is not None:
            return "dead" if now - self._asked >= DEAD_AFTER_S - ASK_AFTER_S else ""
        if slept or now - last_received >= ASK_AFTER_S:
            self._asked = now
            return "ask"
        return ""


class Watchdog:
    """One thread for all connections of this process; it lives while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[tuple[Watched, Vigil]] = []
        self._running = False

    def watch(self, connection: Watched) -> None:
        """Look after ``connection`` until it says that it is no longer open."""
        with self._lock:
            self._watched.append((connection, Vigil()))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def _run(self) -> None:
        clocks = _Clocks()
        while True:
            time.sleep(TICK_S)
            slept = clocks.slept()
            with self._lock:
                self._watched = [each for each in self._watched if each[0].is_open()]
                if not self._watched:
                    self._running = False
                    return
                watched = list(self._watched)
            for connection, vigil in watched:
                verdict = vigil.look(time.monotonic(), connection.last_received, slept=slept)
                if verdict == "dead":
                    connection.give_up()
                elif verdict == "ask":
                    # It blocks where the way out is stuck, which is the very thing to be noticed.
                    threading.Thread(target=connection.ask, daemon=True).start()


class _Clocks:
    """Both clocks at the last look: a stopped process shows on either, a sleeping Linux machine on the wall's alone."""

    def __init__(self) -> None:
        self._seen = (time.monotonic(), time.time())

    def slept(self) -> bool:
        """Whether much more than a tick has passed since the last call."""
        before, self._seen = self._seen, (time.monotonic(), time.time())
        return any(now - then > TICK_S + _SLEPT_S for now, then in zip(self._seen, before, strict=True))


WATCHDOG = Watchdog()
