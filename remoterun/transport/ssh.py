"""SSH by paramiko: one authenticated connection, watched, with pipes to commands.

paramiko's Transport is used directly. Its higher levels, and fabric's above them, would each have to be undone
here: they trust unknown keys by default, read only part of the SSH configuration, and add an import of 0.1 s.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, field
from types import TracebackType

import paramiko

from remoterun.errors import ConnectError, LinkLost, RemoterunError
from remoterun.model.host import SshTarget
from remoterun.transport import hostkeys, reach
from remoterun.transport.auth import Login
from remoterun.transport.channels import PACKET, WINDOW, Transport
from remoterun.transport.keys import Prompt
from remoterun.transport.ssh_pipe import SshPipe
from remoterun.transport.watchdog import WATCHDOG, CountingSocket

# paramiko tells its log what it then raises; its threads would print to our users' screens.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False

_CHANNEL_REQUEST = 98
_CHANNEL_TIMEOUT_S = 30.0


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
        link: _Link | None = None
        deadline = time.monotonic() + hop.connect_timeout
        try:
            known = hostkeys.look_up(hop)
            sock = reach.connect(hop, through.transport if through else None, hop.connect_timeout)
            link = _Link(hop, CountingSocket(sock))
            link.secure(known, deadline, accept_new=self.accept_new)
            Login(hop, self.prompt).run(link.transport)
        except RemoterunError as error:
            error.host = self.host_name
            _close(link)
            raise
        except (paramiko.SSHException, EOFError, OSError, ValueError, OverflowError) as error:
            _close(link)
            raise reach.unreachable(hop, self.target, error) from None
        except BaseException:
            _close(link)
            raise
        reach.logged_in(sock)
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
        self.transport = Transport(sock)
        self.transport.daemon = True

    @property
    def last_received(self) -> float:
        """When the last byte came, by the monotonic clock."""
        return self.sock.last_received

    def secure(self, known: hostkeys.KnownHost, deadline: float, *, accept_new: bool) -> None:
        """Exchange keys, then check whose they are. Raises TimeoutError at the deadline of the monotonic clock."""
        left = max(1.0, deadline - time.monotonic())
        self.transport.host_algorithms = known.algorithms()
        self.transport.banner_timeout = left
        try:
            self.transport.start_client(timeout=left)
        except (paramiko.SSHException, EOFError):
            # paramiko tells silence and a closed connection in the same words.
            if time.monotonic() >= deadline - 0.2:
                raise TimeoutError from None
            raise
        if not self.transport.initial_kex_done:
            raise TimeoutError
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


def _close(link: _Link | None) -> None:
    if link is not None:
        link.close()


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
                window_size=WINDOW, max_packet_size=PACKET, timeout=_CHANNEL_TIMEOUT_S
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
        pipe = SshPipe(self, channel)
        self._pipes.append(pipe)
        return pipe

    def _exec(self, channel: paramiko.Channel, command: str) -> None:
        """Ask for ``command`` without waiting for the answer (RFC 4254, 6.5), which paramiko's own call would do:
        input may follow at once, a round trip earlier. A refusal closes the channel."""
        message = paramiko.Message()
        message.add_byte(bytes([_CHANNEL_REQUEST]))
        message.add_int(channel.remote_chanid)
        message.add_string("exec")
        message.add_boolean(True)
        message.add_string(command)
        self.last.transport._send_user_message(message)  # type: ignore[attr-defined]

    def lost(self) -> LinkLost:
        """The error of a dead connection."""
        if self.is_active() or any(link.dead for link in self._links):
            return LinkLost(f"{self.host_name} does not answer any more", host=self.host_name)
        return LinkLost(f"the connection to {self.host_name} was cut", host=self.host_name)

    def forget(self, pipe: SshPipe) -> None:
        """``pipe`` was closed."""
        with contextlib.suppress(ValueError):
            self._pipes.remove(pipe)

    def is_active(self) -> bool:
        """Whether all hops are up."""
        return all(link.transport.is_active() for link in self._links)

    def close(self) -> None:
        """Close pipes, then hops from the far end."""
        for pipe in tuple(self._pipes):
            pipe.close()
        for link in reversed(self._links):
            link.close()

    def __enter__(self) -> SshConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
