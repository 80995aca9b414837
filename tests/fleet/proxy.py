"""A TCP proxy between client and host: adds delay, counts connections, bytes and round trips, can be cut.

Delay is pipelined: each piece leaves ``delay`` seconds after it came, however many are on their way, so that
it costs time and no bandwidth.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time


class Proxy:
    """Listens on 127.0.0.1; ``delay`` is for one direction, in seconds."""

    def __init__(self, address: str, port: int, delay: float = 0.0) -> None:
        self.target = (address, port)
        self.delay = delay
        self.connections = 0
        self.round_trips = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self._cut = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        """Counters to zero."""
        self.connections = self.round_trips = self.bytes_up = self.bytes_down = 0

    def cut(self) -> None:
        """Black hole: bytes vanish, connections stay open."""
        self._cut.set()

    def restore(self) -> None:
        """Bytes flow again (those that vanished do not come back, so open connections are dead)."""
        self._cut.clear()

    def hang_up(self) -> None:
        """Close all open connections."""
        with self._lock:
            for sock in self._sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self._sockets.clear()

    def close(self) -> None:
        """No more connections."""
        self._listener.close()
        self.hang_up()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # The handshake of TCP is a round trip too.
        time.sleep(2 * self.delay)
        try:
            server = socket.create_connection(self.target, 10)
        except OSError:
            client.close()
            return
        self.round_trips += 1
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._sockets += [client, server]
        state = {"last": "down"}
        for source, sink, way in ((client, server, "up"), (server, client, "down")):
            threading.Thread(target=self._pump, args=(source, sink, way, state), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, way: str, state: dict[str, str]) -> None:
        pieces: queue.Queue[tuple[float, bytes]] = queue.Queue()
        threading.Thread(target=self._deliver, args=(pieces, sink), daemon=True).start()
        while True:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            if data and not self._cut.is_set():
                with self._lock:
                    if way == "down" and state["last"] == "up":
                        self.round_trips += 1
                    state["last"] = way
                    if way == "up":
                        self.bytes_up += len(data)
                    else:
                        self.bytes_down += len(data)
                pieces.put((time.monotonic() + self.delay, data))
            if not data:
                pieces.put((time.monotonic() + self.delay, b""))
                return

    def _deliver(self, pieces: queue.Queue[tuple[float, bytes]], sink: socket.socket) -> None:
        while True:
            due, data = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                if not self._cut.is_set():
                    sink.sendall(data)
            except OSError:
                return
