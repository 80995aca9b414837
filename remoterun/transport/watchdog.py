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


class Watchdog:
    """One thread for all connections of this process; it lives while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[Watched] = []
        self._running = False

    def watch(self, connection: Watched) -> None:
        """Look after ``connection`` until it says that it is no longer open."""
        with self._lock:
            self._watched.append(connection)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def _run(self) -> None:
        asked: dict[int, float] = {}
        while True:
            time.sleep(1.0)
            with self._lock:
                self._watched = [each for each in self._watched if each.is_open()]
                if not self._watched:
                    self._running = False
                    return
                watched = list(self._watched)
            now = time.monotonic()
            for each in watched:
                silent = now - each.last_received
                last = asked.get(id(each), 0.0)
                if silent < ASK_AFTER_S:
                    continue
                # Dead only if it was asked and had the time to answer: after a suspended laptop wakes, the
                # silence is long but nobody has asked yet.
                if last > each.last_received and now - last >= DEAD_AFTER_S - ASK_AFTER_S:
                    each.give_up()
                elif last <= each.last_received:
                    asked[id(each)] = now
                    threading.Thread(target=each.ask, daemon=True).start()


WATCHDOG = Watchdog()
