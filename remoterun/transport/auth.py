"""Logging in: which keys are offered, in which order, and what a refusal means.

The order is OpenSSH's: agent keys that the configuration names, other agent keys (unless IdentitiesOnly),
key files; then keyboard-interactive and password, where somebody is there to answer. A private key at hand
signs at once, without asking first whether it would do: one round trip less.
"""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from remoterun.errors import AuthError
from remoterun.model.host import SshTarget

Prompt = Callable[[str], "str | None"]

# Passphrases typed in this process, by key file: asked once for each command, not for each connection.
_passphrases: dict[str, str] = {}


@dataclass
class Login:
    """One login being tried. ``offered`` counts keys; ``locked`` are key files whose passphrase nobody gave."""

    target: SshTarget
    prompt: Prompt | None
    offered: int = 0
    locked: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def run(self, transport: paramiko.Transport) -> None:
        """Log in. Raises AuthError saying what was tried and what to do."""
        user = self.target.user
        allowed = ["publickey", "keyboard-interactive", "password"]
        for key in self._keys():
            self.offered += 1
            try:
                further = transport.auth_publickey(user, key)
            except paramiko.BadAuthenticationType as error:
                allowed = error.allowed_types
                if "publickey" not in allowed:
                    break
                continue
            except paramiko.AuthenticationException:
                if not transport.is_active():
                    raise self._failure(transport, allowed) from None
                continue
            except (paramiko.SSHException, EOFError, OSError):
                raise self._failure(transport, allowed) from None
            if not further:
                return
            # A key and something else are wanted (two factors).
            allowed = further
            break
        if self._ask_user(transport, allowed):
            return
        raise self._failure(transport, allowed)

    def _ask_user(self, transport: paramiko.Transport, allowed: list[str]) -> bool:
        if self.prompt is None:
            return False
        where = f"{self.target.user}@{self.target.hostname}"
        try:
            if "keyboard-interactive" in allowed:
                transport.auth_interactive(self.target.user, self._answer)
            elif "password" in allowed:
                password = self.prompt(f"Password of {where}:")
                if password is None:
                    return False
                transport.auth_password(self.target.user, password, fallback=False)
            return bool(transport.is_authenticated())
        except (paramiko.SSHException, EOFError, OSError):
            return False

    def _answer(self, title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        assert self.prompt is not None
        return [self.prompt(f"{self.target.hostname}: {text.strip()}") or "" for text, _ in prompts]

    def _keys(self) -> Iterator[paramiko.PKey]:
        agent = self._agent_keys()
        named = {blob for file in self.target.identity_files if (blob := _public(file)) is not None}
        certificates = [blob for file in self.target.certificate_files if (blob := _public(file)) is not None]
        in_agent = {key.asbytes() for key in agent}
        for key in agent:
            if key.asbytes() in named or key.asbytes() in certificates:
                yield key
        if not self.target.identities_only:
            yield from (key for key in agent if key.asbytes() not in named and key.asbytes() not in certificates)
        for file in self.target.identity_files:
            if _public(file) in in_agent and _public(file) is not None:
                continue
            loaded = self._load(file)
            if loaded is not None:
                yield from _with_certificates(loaded, file, self.target.certificate_files)
                yield loaded

    def _agent_keys(self) -> list[paramiko.PKey]:
        place = self.target.identity_agent or os.environ.get("SSH_AUTH_SOCK")
        if not place or place == "none":
            return []
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(5)
        try:
            connection.connect(place)
            agent = AgentSSH()
            # paramiko's own Agent only knows the socket of the environment, not IdentityAgent.
            agent._connect(connection)  # type: ignore[attr-defined]
            return list(agent.get_keys())
        except (OSError, paramiko.SSHException):
            # A dead agent is no agent.
            return []

    def _load(self, file: str) -> paramiko.PKey | None:
        """A private key file; None where there is none, or it cannot be used (remembered for the message)."""
        if not Path(file).is_file() or file.endswith(".pub"):
            return None
        passphrase = _passphrases.get(file)
        tries = 0
        while True:
            try:
                # cryptography wants bytes where paramiko's annotation says str.
                return paramiko.PKey.from_path(file, passphrase.encode() if passphrase else None)  # type: ignore[arg-type]
            except paramiko.PasswordRequiredException:
                pass
            except (paramiko.SSHException, UnknownKeyType, ValueError, TypeError, OSError) as error:
                # A wrong passphrase and a damaged file look alike; the first asks again.
                if passphrase is None and not _is_encrypted(file):
                    self.broken.append(f"{file} ({_first_line(error)})")
                    return None
            # As OpenSSH: three tries.
            passphrase = self.prompt(f"Passphrase of {file}:") if self.prompt and tries < 3 else None
            if not passphrase:
                _passphrases.pop(file, None)
                self.locked.append(file)
                return None
            _passphrases[file] = passphrase
            tries += 1

    def _failure(self, transport: paramiko.Transport, allowed: list[str]) -> AuthError:
        target = self.target
        where = f"{target.user}@{target.hostname}:{target.port}"
        if self.locked:
            return self._error(
                f"{where} refused the login, and the key {self.locked[0]} is encrypted",
                f"ssh-add {self.locked[0]}   (or run this at a terminal, which can ask for the passphrase)",
            )
        if not transport.is_active() and self.offered > 1:
            return self._error(
                f"{where} hung up after {self.offered} keys were offered (too many authentication failures)",
                "name the right key in the SSH configuration: IdentityFile, with IdentitiesOnly yes",
            )
        if self.broken:
            return self._error(
                f"{where} refused the login; a key could not be read: {self.broken[0]}",
                "ssh-keygen -y -f FILE tests it",
            )
        if self.offered == 0:
            return self._error(
                f"no key to log in to {where} with (it would take: {', '.join(allowed)})",
                "ssh-keygen makes one, ssh-copy-id brings it there; or name one: IdentityFile in the SSH configuration",
            )
        keys = "the key that was" if self.offered == 1 else f"all {self.offered} keys that were"
        return self._error(
            f"{where} refused {keys} offered (it would take: {', '.join(allowed)})",
            f"try: ssh {target.name}   If that works, report it; else ssh-copy-id {target.name}",
        )

    def _error(self, message: str, hint: str) -> AuthError:
        return AuthError(message, hint=hint, host=self.target.name)


def _public(file: str) -> bytes | None:
    """The public blob beside a private key file (or of a .pub or certificate file itself)."""
    for name in (file, f"{file}.pub"):
        try:
            with open(name, "rb") as source:
                words = source.read(65536).split()
            if len(words) >= 2 and not words[0].startswith(b"-"):
                return base64.b64decode(words[1], validate=True)
        except (OSError, ValueError):
            continue
    return None


def _with_certificates(key: paramiko.PKey, file: str, more: tuple[str, ...]) -> Iterator[paramiko.PKey]:
    """The key with each of its certificates: FILE-cert.pub, and the CertificateFiles that fit it."""
    for certificate in (f"{file}-cert.pub", *more):
        if Path(certificate).is_file():
            try:
                copy = type(key).from_path(file) if key.public_blob is not None else key
                copy.load_certificate(certificate)
            except (paramiko.SSHException, ValueError, OSError):
                continue
            yield copy
            key.public_blob = None


def _is_encrypted(file: str) -> bool:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        data = Path(file).read_bytes()
        if b"ENCRYPTED" in data:
            return True
        load_ssh_private_key(data, None)
    except TypeError:
        return True
    except (OSError, ValueError):
        return False
    except Exception:
        return False
    return False


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
