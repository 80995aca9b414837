"""Keys to log in with: files, their certificates, and the agent's; passphrases are asked for once."""

from __future__ import annotations

import base64
import contextlib
import copy
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    load_ssh_private_key,
    load_ssh_public_identity,
)
from paramiko.agent import AgentKey, AgentSSH
from paramiko.pkey import PublicBlob, UnknownKeyType

Prompt = Callable[[str], "str | None"]

_CERT = "-cert-v01@openssh.com"
_MAGIC = b"openssh-key-v1\0"
_TRIES = 3

# Many connections are made at once, and there is one person.
ONE_QUESTION = threading.RLock()
_AGENT_TIMEOUT_S = 10.0


class BrokenKey(Exception):
    """A key file that cannot be read, and why."""


class LockedKey(Exception):
    """An encrypted key file whose passphrase nobody gives."""


class Keyring:
    """Encrypted keys opened in this process: each passphrase is asked for once for a command, not for a connection."""

    def __init__(self) -> None:
        self._opened: dict[str, paramiko.PKey] = {}
        self._refused: set[str] = set()

    def load(self, file: str, prompt: Prompt | None) -> paramiko.PKey | None:
        """The private key in ``file``; None where there is none. Raises BrokenKey, LockedKey."""
        if not Path(file).is_file() or file.endswith(".pub"):
            return None
        try:
            return _read(file, None)
        except paramiko.PasswordRequiredException:
            pass
        with ONE_QUESTION:
            if file not in self._opened:
                self._opened[file] = self._ask(file, prompt)
            # A copy: whoever gets it puts certificates into it.
            return copy.copy(self._opened[file])

    def _ask(self, file: str, prompt: Prompt | None) -> paramiko.PKey:
        if prompt is not None and file not in self._refused:
            for number in range(_TRIES):
                again = " (that was not it)" if number else ""
                passphrase = prompt(f"Passphrase of {file}{again}:")
                if not passphrase:
                    break
                with contextlib.suppress(BrokenKey, paramiko.PasswordRequiredException):
                    return _read(file, passphrase)
            self._refused.add(file)
        raise LockedKey(file)


KEYRING = Keyring()


def _read(file: str, passphrase: str | None) -> paramiko.PKey:
    """Raises PasswordRequiredException, BrokenKey (also for a wrong passphrase)."""
    try:
        secret = passphrase.encode() if passphrase else None
        # cryptography wants bytes where paramiko's annotation says str.
        return paramiko.PKey.from_path(file, secret)  # type: ignore[arg-type]
    except paramiko.PasswordRequiredException:
        raise
    except (paramiko.SSHException, UnknownKeyType, UnsupportedAlgorithm, ValueError, TypeError, OSError) as error:
        if passphrase is None and _is_encrypted(file):
            raise paramiko.PasswordRequiredException(file) from None
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BrokenKey(f"{file} ({(why or type(error).__name__).splitlines()[0]})") from None


def _is_encrypted(file: str) -> bool:
    try:
        data = Path(file).read_bytes()
        if b"ENCRYPTED" in data:
            return True
        load_ssh_private_key(data, None)
    except TypeError:
        return True
    except (OSError, ValueError, UnsupportedAlgorithm):
        return False
    return False


def public_blob(file: str) -> bytes | None:
    """The public key of a key file: of ``FILE.pub``, of FILE itself where that is public, or of the private file's
    own clear part (OpenSSH's PROTOCOL.key)."""
    for name in (file, f"{file}.pub"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = Path(name).read_bytes().split()
            if words and not words[0].startswith(b"-"):
                return base64.b64decode(words[1], validate=True)
    with contextlib.suppress(OSError, ValueError, paramiko.SSHException):
        body = b"".join(line for line in Path(file).read_bytes().splitlines() if not line.startswith(b"-"))
        data = base64.b64decode(body, validate=True)
        if data.startswith(_MAGIC):
            message = paramiko.Message(data[len(_MAGIC) :])
            for _ in ("cipher", "kdf", "options"):
                message.get_string()
            message.get_int()
            return message.get_string() or None
    return None


def certificates_of(blob: bytes, files: tuple[str, ...]) -> Iterator[PublicBlob]:
    """The certificates among ``files`` that certify the public key ``blob``."""
    for file in files:
        with contextlib.suppress(OSError, ValueError, UnsupportedAlgorithm, paramiko.SSHException):
            certificate = load_ssh_public_identity(Path(file).read_bytes())
            if not isinstance(certificate, SSHCertificate):
                continue
            key = certificate.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            if base64.b64decode(key.split()[1]) == blob:
                yield PublicBlob.from_file(file)


class _AgentCertificate(AgentKey):
    """A certificate in the agent. paramiko takes it for its bare key, which the server need not know."""

    def asbytes(self) -> bytes:
        return self.blob


class Agent:
    """The keys of an agent; none where nothing answers at ``place``."""

    def __init__(self, place: str | None) -> None:
        self.keys: list[AgentKey] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if not place or place == "none":
            return
        try:
            self._socket.settimeout(_AGENT_TIMEOUT_S)
            self._socket.connect(place)
            agent = AgentSSH()
            # paramiko's own Agent only knows the socket of the environment, not IdentityAgent.
            agent._connect(self._socket)  # type: ignore[attr-defined]
            # Signing may wait for a person: a touch, a confirmation.
            self._socket.settimeout(None)
        except (OSError, paramiko.SSHException):
            return
        for key in agent.get_keys():
            kind = _AgentCertificate if key.get_name().endswith(_CERT) else AgentKey
            self.keys.append(kind(agent, key.blob, key.comment))

    def close(self) -> None:
        """Let go of the agent."""
        self._socket.close()
