"""A TCP proxy between client and host: adds delay, counts connections, bytes and round trips, can be cut.

Delay is pipelined: each piece leaves ``delay`` seconds after it came, however many are on their way, so that
it costs time and no bandwidth.

A round trip is counted when the server says something that can be an answer: after the client's words have reached
it, where the client spoke after it had heard the last answer. Words that crossed on the way count once. Making a
connection counts one, for TCP's handshake.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from typing import Literal

_PIECE = 1 << 16
_PIECES = 2048
"""Pieces on their way in one direction at most: a slow reader slows the writer, as on a real path."""


class Proxy:
    """Listens on 127.0.0.1; ``delay`` is for one direction, in seconds, and may be changed at any time."""

    def __init__(self, address: str, port: int, delay: float = 0.0) -> None:
        self.target = (address, port)
        self.delay = delay
        self.connections = 0
        self.round_trips = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self.flows = threading.Event()
        self.flows.set()
        self.lock = threading.Lock()
        self._mode = ""
        self._open: set[_Connection] = set()
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]

    def reset(self) -> None:
        """Counters to zero."""
        with self.lock:
            self.connections = self.round_trips = self.bytes_up = self.bytes_down = 0

    def cut(self, how: Literal["hold", "refuse", "reset"] = "hold") -> None:
        """Cut the way. Open connections: nothing passes, nobody is told (``reset``: they end with RST).

        New ones: no answer (``hold``), connection refused (``refuse``), or RST (``reset``).
        """
        self._mode = how
        self.flows.clear()
        if how == "refuse":
            _close_listener(self._listener)
        if how == "reset":
            self.hang_up(reset=True)

    def restore(self) -> None:
        """The way is back; what was held arrives now, as TCP's repetition would have it."""
        if self._mode == "refuse":
            self._listener = self._listen(self.port)
        self._mode = ""
        self.flows.set()

    def hang_up(self, *, reset: bool = False) -> None:
        """Close all open connections."""
        with self.lock:
            gone, self._open = self._open, set()
        for connection in gone:
            connection.close(reset=reset)

    def close(self) -> None:
        """No more connections."""
        _close_listener(self._listener)
        self.flows.set()
        self.hang_up()

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if self._mode == "reset":
                _end(client, reset=True)
            else:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self.flows.wait()
        # The handshake of TCP is a round trip too.
        time.sleep(2 * self.delay)
        try:
            server = socket.create_connection(self.target, 10)
        except OSError:
            _end(client, reset=True)
            return
        server.settimeout(None)
        connection = _Connection(self, client, server)
        with self.lock:
            self.connections += 1
            self.round_trips += 1
            self._open.add(connection)
        connection.start()


class _Connection:
    """One connection: a thread to take and a thread to give, for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.sockets = (client, server)
        self._asked: float | None = None
        """When the client's open question reaches the server."""
        self._heard = 0.0
        """When the last counted answer reaches the client."""
        for sock in self.sockets:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        client, server = self.sockets
        for source, sink, up in ((client, server, True), (server, client, False)):
            pieces: queue.Queue[tuple[float, bytes]] = queue.Queue(_PIECES)
            threading.Thread(target=self._take, args=(source, pieces, up), daemon=True).start()
            threading.Thread(target=self._give, args=(pieces, sink), daemon=True).start()

    def close(self, *, reset: bool = False) -> None:
        for sock in self.sockets:
            _end(sock, reset=reset)

    def _take(self, source: socket.socket, pieces: queue.Queue[tuple[float, bytes]], up: bool) -> None:
        data = b"more"
        while data:
            try:
                data = source.recv(_PIECE)
            except OSError:
                data = b""
            due = time.monotonic() + self.proxy.delay
            if data:
                self._count(len(data), up, due)
            pieces.put((due, data))

    def _count(self, size: int, up: bool, due: float) -> None:
        now = due - self.proxy.delay
        with self.proxy.lock:
            if up:
                self.proxy.bytes_up += size
                if self._asked is None and now >= self._heard:
                    self._asked = due
            else:
                self.proxy.bytes_down += size
                if self._asked is not None and now >= self._asked:
                    self.proxy.round_trips += 1
                    self._asked, self._heard = None, due

    def _give(self, pieces: queue.Queue[tuple[float, bytes]], sink: socket.socket) -> None:
        broken = False
        while True:
            due, data = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            self.proxy.flows.wait()
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                elif not broken:
                    sink.sendall(data)
            except OSError:
                # Go on emptying the queue: the taker must not block for ever.
                broken = True
                self.close()
            if not data:
                return


def _close_listener(listener: socket.socket) -> None:
    # shutdown wakes the thread in accept; close alone leaves it, and the port, until the next connection.
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _end(sock: socket.socket, *, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            # A close with zero linger time sends RST; SHUT_RD first wakes the thread that reads, and tells nobody.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RD)
            sock.close()
        else:
            sock.shutdown(socket.SHUT_RDWR)
