"""SSH by paramiko: one authenticated connection, watched, with pipes to commands.

paramiko's Transport is used directly. Its higher levels, and fabric's above them, would each have to be undone
here: they trust unknown keys by default, read only part of the SSH configuration, and add an import of 0.1 s.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from remoterun.errors import ConnectError, LinkLost, RemoterunError
from remoterun.model.host import SshTarget
from remoterun.transport import hostkeys
from remoterun.transport.auth import Login, Prompt
from remoterun.transport.watchdog import WATCHDOG, CountingSocket

# paramiko tells its log what it then raises; its threads would print to our users' screens.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False

# The window decides how much is on its way on a link with a long round trip.
_WINDOW = 16 << 20
_PACKET = 32768
_TICK_S = 1.0
_CHANNEL_REQUEST = 98


class _Transport(paramiko.Transport):
    """Asks for just the host key algorithms that can be checked."""

    host_algorithms: tuple[str, ...] = hostkeys.PLAIN_TYPES

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        return self.host_algorithms


@dataclass(frozen=True)
class SshTransport:
    """The way to ``target``. ``options`` are what an ``ssh`` of its own needs to get to the same machine."""

    target: SshTarget
    options: tuple[str, ...] = ()
    accept_new: bool = False
    prompt: Prompt | None = None

    @property
    def host_name(self) -> str:
        """The host's name in the inventory."""
        return self.target.name

    def connect(self) -> SshConnection:
        """Connect through all hops and log in. Raises ConnectError, HostKeyError, AuthError."""
        links: list[_Link] = []
        try:
            for hop in (*self.target.jumps, self.target):
                links.append(self._link(hop, links[-1] if links else None))
        except BaseException:
            for link in reversed(links):
                link.close()
            raise
        return SshConnection(self.host_name, links)

    def _link(self, hop: SshTarget, through: _Link | None) -> _Link:
        try:
            known = hostkeys.look_up(hop)
            link = _Link(hop, CountingSocket(_reach(hop, through)))
        except OSError as error:
            raise _unreachable(hop, self.target, error) from None
        try:
            link.secure(known, accept_new=self.accept_new)
            Login(hop, self.prompt).run(link.transport)
        except RemoterunError as error:
            link.close()
            error.host = self.host_name
            raise
        except (paramiko.SSHException, EOFError, OSError) as error:
            link.close()
            raise _unreachable(hop, self.target, error) from None
        link.watch()
        return link

    def interactive_argv(self, command: str) -> list[str]:
        """``ssh -t`` to the same machine with the same settings, running ``command``."""
        accept = ["-o", "StrictHostKeyChecking=accept-new"] if self.accept_new else []
        return ["ssh", "-t", *accept, *self.options, "--", self.target.destination or self.target.name, command]


class _Link:
    """One hop: a socket with an SSH transport on it."""

    def __init__(self, target: SshTarget, sock: CountingSocket) -> None:
        self.target = target
        self.sock = sock
        self.dead = False
        self.transport = _Transport(sock)  # type: ignore[arg-type]
        self.transport.daemon = True
        self.transport.banner_timeout = target.connect_timeout
        self.transport.auth_timeout = max(30.0, target.connect_timeout)

    @property
    def last_received(self) -> float:
        """When the last byte came, by the monotonic clock."""
        return self.sock.last_received

    def secure(self, known: hostkeys.KnownHost, *, accept_new: bool) -> None:
        """Exchange keys, then check whose they are."""
        self.transport.host_algorithms = known.algorithms()
        self.transport.start_client(timeout=max(15.0, self.target.connect_timeout))
        key = self.transport.get_remote_server_key()
        algorithm = str(self.transport.host_key_type)
        certificate = None
        plain = key.asbytes()
        if algorithm.endswith(hostkeys.CERT) and key.public_blob is not None:
            certificate = key.public_blob.key_blob
            key.public_blob = None
            plain = key.asbytes()
        hostkeys.verify(known, algorithm, plain, certificate, accept_new=accept_new)

    def watch(self) -> None:
        """From now on a silent death is noticed."""
        WATCHDOG.watch(self)

    def ask(self) -> None:
        """A question that every server answers, if only with a refusal."""
        with contextlib.suppress(Exception):
            self.transport.global_request("keepalive@openssh.com", wait=True)

    def give_up(self) -> None:
        """No answer: wake whoever waits."""
        self.dead = True
        self.sock.abort()
        self.transport.close()

    def is_open(self) -> bool:
        """Whether there is something to watch."""
        return bool(self.transport.is_active())

    def close(self) -> None:
        """Close the socket, then the transport: its thread would notice the end only a tenth of a second later."""
        self.sock.abort()
        with contextlib.suppress(Exception):
            self.transport.close()


def _reach(hop: SshTarget, through: _Link | None) -> Any:
    """A socket (or what serves as one) to a hop's SSH port."""
    if through is not None:
        return through.transport.open_channel(
            "direct-tcpip", (hop.hostname, hop.port), ("127.0.0.1", 0), timeout=hop.connect_timeout
        )
    if hop.proxy_command:
        ours, theirs = socket.socketpair()
        with theirs:
            # Its errors go to the terminal, as OpenSSH's do. A session of its own keeps Ctrl-C away from it.
            command = subprocess.Popen(
                ["sh", "-c", f"exec {hop.proxy_command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                start_new_session=True,
            )
        return _ProxyCommand(ours, command)
    sock = socket.create_connection((hop.hostname, hop.port), timeout=hop.connect_timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class _ProxyCommand:
    """A socket to a ProxyCommand; closing it hangs up on the command too, as OpenSSH does: it might not notice."""

    def __init__(self, sock: socket.socket, command: subprocess.Popen[bytes]) -> None:
        self._sock = sock
        self._command = command

    def close(self) -> None:
        self._sock.close()
        if self._command.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._command.pid, signal.SIGHUP)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def _unreachable(hop: SshTarget, target: SshTarget, error: Exception) -> ConnectError:
    """Foreign exceptions in one sentence each."""
    where = f"{hop.hostname} port {hop.port}"
    via = f" (a jump host on the way to {target.name})" if hop is not target else ""
    hint = f"does `ssh {target.name}` work?"
    if isinstance(error, socket.gaierror):
        why, hint = (
            f"the name {hop.hostname} does not resolve",
            "check HostName in the SSH configuration, or address in hosts.yaml",
        )
    elif isinstance(error, TimeoutError):
        why = f"{where} did not answer within {hop.connect_timeout:.0f} s"
        hint = "is the machine on, and the VPN up?"
    elif isinstance(error, ConnectionRefusedError):
        why, hint = f"{where} refused the connection", "is sshd running there, on that port?"
    elif isinstance(error, paramiko.ChannelException):
        why, hint = f"the jump host would not connect to {where}: {error.text}", "is TCP forwarding allowed there?"
    elif isinstance(error, IncompatiblePeer):
        why = f"{where} has no algorithm in common with this client: {error}"
    elif isinstance(error, EOFError) or "banner" in str(error).lower():
        why = f"{where} closed the connection before the login (is it an SSH server? too many logins at once?)"
    elif isinstance(error, OSError) and error.strerror:
        why = f"{where}: {error.strerror}"
    else:
        why = f"{where}: {str(error) or type(error).__name__}"
    return ConnectError(why + via, hint=hint, host=target.name)


@dataclass
class SshConnection:
    """An open login. Its pipes end with it."""

    host_name: str
    _links: list[_Link]
    _pipes: list[SshPipe] = field(default_factory=list)

    @property
    def last(self) -> _Link:
        """The hop that is the host itself."""
        return self._links[-1]

    def open(self, command: str) -> SshPipe:
        """Run ``command`` by the login shell."""
        try:
            channel = self.last.transport.open_session(
                window_size=_WINDOW, max_packet_size=_PACKET, timeout=max(30.0, self.last.target.connect_timeout)
            )
            self._exec(channel, command)
        except paramiko.ChannelException as error:
            raise ConnectError(
                f"{self.host_name} refuses another session: {error.text}",
                hint="its sshd_config may limit MaxSessions, or forbid commands for this key",
                host=self.host_name,
            ) from None
        except (paramiko.SSHException, EOFError, OSError):
            raise self.lost() from None
        channel.settimeout(_TICK_S)
        pipe = SshPipe(self, channel)
        self._pipes.append(pipe)
        return pipe

    def _exec(self, channel: paramiko.Channel, command: str) -> None:
        """Ask for ``command`` without waiting for the answer (RFC 4254, 6.5, want reply: false), which paramiko's own
        call would do: input may follow at once, a round trip earlier. A refusal closes the channel."""
        message = paramiko.Message()
        message.add_byte(bytes([_CHANNEL_REQUEST]))
        message.add_int(channel.remote_chanid)
        message.add_string("exec")
        message.add_boolean(False)
        message.add_string(command)
        self.last.transport._send_user_message(message)  # type: ignore[attr-defined]

    def lost(self) -> LinkLost:
        """The error of a dead connection."""
        if any(link.dead for link in self._links):
            return LinkLost(f"{self.host_name} does not answer any more", host=self.host_name)
        return LinkLost(f"the connection to {self.host_name} was cut", host=self.host_name)

    def is_active(self) -> bool:
        """Whether all hops are up."""
        return all(link.transport.is_active() for link in self._links)

    def close(self) -> None:
        """Close pipes, then hops from the far end."""
        while self._pipes:
            self._pipes.pop().close()
        for link in reversed(self._links):
            link.close()

    def __enter__(self) -> SshConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SshPipe:
    """One command on the host. The channel wakes up every second, so that each call keeps its own deadline."""

    def __init__(self, connection: SshConnection, channel: paramiko.Channel) -> None:
        self._connection = connection
        self._channel = channel
        self._closed = False

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._channel.send(bytes(view[:_PACKET])) :]
            except TimeoutError:
                if not self._connection.is_active():
                    raise self._connection.lost() from None
            except (OSError, EOFError, paramiko.SSHException):
                raise self._connection.lost() from None

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

    def _read(self, read: Any, size: int, timeout: float | None) -> bytes:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                data: bytes = read(size)
            except TimeoutError:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                if not self._connection.is_active() and not self._closed:
                    raise self._connection.lost() from None
                continue
            if not data and not self._closed and not self._ended_in_order():
                raise self._connection.lost()
            return data

    def _ended_in_order(self) -> bool:
        """The end of a stream is the command's own end only if the server said so."""
        # exit_status_ready() also turns true when the connection dies: the status itself does not.
        told = int(self._channel.exit_status) >= 0
        return told or (bool(self._channel.eof_received) and self._connection.is_active())

    def exit_status(self, timeout: float | None = None) -> int:
        """The exit status, 255 where the server did not tell one."""
        if not self._channel.status_event.wait(timeout):
            raise TimeoutError
        status = int(self._channel.exit_status)
        if status < 0 and not self._connection.is_active():
            raise self._connection.lost()
        return status if status >= 0 else 255

    def close(self) -> None:
        """Let go of the command."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._channel.close()
