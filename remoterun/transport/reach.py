"""Getting to a host's SSH port: TCP, a ProxyCommand, a jump host's channel; and what a failure means in words."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from typing import Any

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from remoterun.errors import ConnectError
from remoterun.model.host import SshTarget
from remoterun.transport.channels import PACKET, WINDOW

# While logging in, the kernel notices a dead link: nothing may be asked of a server before that.
_SILENCE_S = 15


def connect(hop: SshTarget, through: paramiko.Transport | None, timeout: float) -> Any:
    """A socket, or what serves as one, to a hop's SSH port. Raises what :func:`unreachable` puts into words."""
    if through is not None:
        return _Hop(
            through.open_channel(
                "direct-tcpip", (hop.hostname, hop.port), ("127.0.0.1", 0), WINDOW, PACKET, timeout=timeout
            )
        )
    if hop.proxy_command:
        return _ProxyCommand(hop.proxy_command)
    sock = socket.create_connection((hop.hostname, hop.port), timeout=timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _notice_silence(sock, _SILENCE_S)
    return sock


def logged_in(sock: object) -> None:
    """From here on the watchdog listens. The kernel would take a server that reads slowly for a dead one."""
    if isinstance(sock, socket.socket) and sock.family != socket.AF_UNIX:
        _notice_silence(sock, 0)


def _notice_silence(sock: socket.socket, seconds: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
            if seconds and hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), max(2, seconds // 3))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * seconds)


class _Hop:
    """A jump host's channel as a socket. Closing it sends word to the jump host, which may be gone by then: that is
    no error, and must not become a traceback of paramiko's own thread."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        """End it, on whatever still stands."""
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            self._channel.close()


class _ProxyCommand:
    """A socket to a ProxyCommand; closing it hangs up on the command too, as OpenSSH does: it might not notice."""

    def __init__(self, command: str) -> None:
        self._sock, theirs = socket.socketpair()
        shell = os.environ.get("SHELL") or "/bin/sh"
        with theirs:
            # Its errors go to the terminal, as OpenSSH's do. A session of its own keeps Ctrl-C away from it.
            try:
                self._command = subprocess.Popen(
                    [shell, "-c", f"exec {command}"],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    start_new_session=True,
                )
            except OSError:
                self._sock.close()
                raise

    def close(self) -> None:
        """Close the socket and hang up."""
        self._sock.close()
        if self._command.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._command.pid, signal.SIGHUP)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def unreachable(hop: SshTarget, target: SshTarget, error: Exception) -> ConnectError:
    """The one place where foreign exceptions become sentences."""
    where = f"{hop.hostname} port {hop.port}"
    way = f"the ProxyCommand to {hop.hostname}" if hop.proxy_command else where
    via = f" (a jump host on the way to {target.name})" if hop is not target else ""
    hint = f"does `ssh {target.name}` work?"
    said = str(error)
    if isinstance(error, socket.gaierror | UnicodeError):
        why = f"the name {hop.hostname} does not resolve"
        hint = "check HostName in the SSH configuration, or address in hosts.yaml"
    elif isinstance(error, TimeoutError) or "imeout" in said:
        why = f"{way} did not answer within {hop.connect_timeout:.0f} s"
        hint = "is the machine on, and the VPN up?"
    elif isinstance(error, ConnectionRefusedError):
        why, hint = f"{where} refused the connection", "is sshd running there, on that port?"
    elif isinstance(error, paramiko.ChannelException):
        why, hint = f"the jump host would not connect to {where}: {error.text}", "is TCP forwarding allowed there?"
    elif isinstance(error, IncompatiblePeer):
        why = f"{where} has no algorithm in common with this client: {error}"
    elif "protocol version" in said:
        why = f"what answers at {where} is no SSH server"
        hint = "check Port in the SSH configuration, or port in hosts.yaml"
    elif isinstance(error, EOFError | ConnectionResetError | BrokenPipeError) or "banner" in said or not said:
        why = f"{way} closed the connection before the login (is it an SSH server? too many logins at once?)"
    elif isinstance(error, OSError) and error.strerror:
        why = f"{where}: {error.strerror}"
    else:
        why = f"{where}: {said}"
    return ConnectError(why + via, hint=hint, host=target.name)
