"""Logging in: which keys are offered, in which order, and what a refusal means.

The order is OpenSSH's: agent keys that the configuration names, other agent keys (unless IdentitiesOnly),
key files; then keyboard-interactive and password, where somebody is there to answer. A key signs at once, without
asking first whether it would do: one round trip less.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import paramiko
from paramiko.pkey import PublicBlob

from remoterun.errors import AuthError, ConnectError
from remoterun.model.host import SshTarget
from remoterun.transport.keys import (
    KEYRING,
    ONE_QUESTION,
    Agent,
    BrokenKey,
    LockedKey,
    Prompt,
    certificates_of,
    public_blob,
)

# A server may take long to look a login up. A dead link is noticed sooner: by TCP (see reach.py).
_ANSWER_S = 30.0
_PERSON_S = 300.0

_Key = TypeVar("_Key", bound=paramiko.PKey)


@dataclass
class Login:
    """One login being tried. ``offered`` counts keys; ``locked`` are key files whose passphrase nobody gave,
    ``broken`` those that cannot be read; ``allowed`` is what the server said it takes, empty while it has not."""

    target: SshTarget
    prompt: Prompt | None
    offered: int = 0
    locked: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self._option("batchmode"):
            self.prompt = None

    def run(self, transport: paramiko.Transport) -> None:
        """Log in. Raises AuthError saying what was tried and what to do; ConnectError when the server goes away."""
        transport.auth_timeout = _ANSWER_S
        if not self._by_key(transport) and not self._by_person(transport):
            raise self._failure(transport)

    def _option(self, name: str, default: str = "no") -> bool:
        return self.target.options.get(name, default) not in ("no", "false")

    def _by_key(self, transport: paramiko.Transport) -> bool:
        agent = Agent(self.target.identity_agent or os.environ.get("SSH_AUTH_SOCK"))
        try:
            for key in self._keys(agent):
                self.offered += 1
                started = time.monotonic()
                try:
                    further = transport.auth_publickey(self.target.user, key)
                except paramiko.BadAuthenticationType as error:
                    self.allowed = error.allowed_types
                    further = self.allowed
                except (paramiko.SSHException, EOFError, OSError):
                    # OSError: the agent would not sign, or went away.
                    if not transport.is_active() or time.monotonic() - started >= _ANSWER_S:
                        raise self._failure(transport) from None
                    continue
                if not further:
                    return True
                # Something else is wanted, or one more (another key, say) after this one did.
                self.allowed = further
                if "publickey" not in further:
                    break
        finally:
            agent.close()
        return False

    def _keys(self, agent: Agent) -> Iterator[paramiko.PKey]:
        if not self._option("pubkeyauthentication", "yes"):
            return
        target = self.target
        files = {file: blob for file in target.identity_files if (blob := public_blob(file)) is not None}
        beside = tuple(f"{file.removesuffix('.pub')}-cert.pub" for file in target.identity_files)
        certificates = (*target.certificate_files, *beside)
        wanted = {*files.values(), *(blob for file in certificates if (blob := public_blob(file)) is not None)}
        for key in (key for key in agent.keys if key.asbytes() in wanted):
            yield from _each(key, certificates_of(key.asbytes(), certificates))
        if not target.identities_only:
            yield from (key for key in agent.keys if key.asbytes() not in wanted)
        in_agent = {key.asbytes() for key in agent.keys}
        for file in target.identity_files:
            if files.get(file) in in_agent:
                continue
            try:
                loaded = KEYRING.load(file, self.prompt)
            except LockedKey:
                self.locked.append(file)
            except BrokenKey as error:
                self.broken.append(str(error))
            else:
                if loaded is not None:
                    yield from _each(loaded, certificates_of(loaded.asbytes(), certificates))

    def _by_person(self, transport: paramiko.Transport) -> bool:
        if self.prompt is None:
            return False
        transport.auth_timeout = _PERSON_S
        if self.offered == 0:
            self._ask_what_is_allowed(transport)
        for method, option, attempt in (
            ("keyboard-interactive", "kbdinteractiveauthentication", self._interactive),
            ("password", "passwordauthentication", self._password),
        ):
            number = self.target.options.get("numberofpasswordprompts", "3")
            tries = int(number) if number.isdigit() else 3
            while (
                method in (self.allowed or [method]) and self._option(option, "yes") and tries and transport.is_active()
            ):
                tries -= 1
                try:
                    if attempt(transport):
                        return True
                except paramiko.BadAuthenticationType as error:
                    self.allowed = error.allowed_types
                    break
                except _NobodyAnswers:
                    return False
                except (paramiko.SSHException, EOFError, OSError):
                    continue
        return False

    def _ask_what_is_allowed(self, transport: paramiko.Transport) -> None:
        try:
            transport.auth_none(self.target.user)
        except paramiko.BadAuthenticationType as error:
            self.allowed = error.allowed_types
        except (paramiko.SSHException, EOFError, OSError):
            return

    def _interactive(self, transport: paramiko.Transport) -> bool:
        nobody = False

        def answer(title: str, instructions: str, questions: list[tuple[str, bool]]) -> list[str]:
            # Called by paramiko's thread, where an exception would end the connection.
            nonlocal nobody
            answers = [self._ask(f"{self.target.hostname}: {text.strip()}") for text, _ in questions]
            nobody = nobody or None in answers
            return [text or "" for text in answers]

        try:
            transport.auth_interactive(self.target.user, answer)
        except paramiko.AuthenticationException:
            if nobody:
                raise _NobodyAnswers from None
            raise
        return bool(transport.is_authenticated())

    def _password(self, transport: paramiko.Transport) -> bool:
        password = self._ask(f"Password of {self.target.user}@{self.target.hostname}:")
        if password is None:
            raise _NobodyAnswers
        transport.auth_password(self.target.user, password, fallback=False)
        return bool(transport.is_authenticated())

    def _ask(self, text: str) -> str | None:
        assert self.prompt is not None
        with ONE_QUESTION:
            return self.prompt(text)

    def _failure(self, transport: paramiko.Transport) -> ConnectError:
        target = self.target
        where = f"{target.user}@{target.hostname}:{target.port}"
        would = f" (it would take: {', '.join(self.allowed)})" if self.allowed else ""
        if not transport.is_active() and self.offered > 1:
            return self._error(
                f"{where} hung up after {self.offered} keys were offered (too many authentication failures)",
                "name the right key in the SSH configuration: IdentityFile, with IdentitiesOnly yes",
            )
        if not transport.is_active():
            return ConnectError(
                f"{target.hostname} port {target.port} closed the connection during the login of {target.user}",
                hint=f"does `ssh {target.name}` work?",
                host=target.name,
            )
        if self.locked:
            return self._error(
                f"{where} refused the login, and the key {self.locked[0]} is encrypted",
                f"ssh-add {self.locked[0]}   (or run this at a terminal, which can ask for the passphrase)",
            )
        if self.broken:
            return self._error(
                f"{where} refused the login; a key could not be read: {self.broken[0]}",
                "ssh-keygen -y -f FILE tests it",
            )
        if self.offered == 0:
            return self._error(
                f"no key to log in to {where} with{would}",
                "ssh-keygen makes one, ssh-copy-id brings it there; or name one: IdentityFile in the SSH configuration",
            )
        keys = "the key that was" if self.offered == 1 else f"all {self.offered} keys that were"
        return self._error(
            f"{where} refused {keys} offered{would}",
            f"try: ssh {target.name}   If that works, report it; else ssh-copy-id {target.name}",
        )

    def _error(self, message: str, hint: str) -> AuthError:
        return AuthError(message, hint=hint, host=self.target.name)


class _NobodyAnswers(Exception):
    """The prompt was declined."""


def _each(key: _Key, certificates: Iterator[PublicBlob]) -> Iterator[_Key]:
    """A key with each of its certificates in turn, then bare."""
    for certificate in certificates:
        key.public_blob = certificate
        yield key
    key.public_blob = None
    yield key
