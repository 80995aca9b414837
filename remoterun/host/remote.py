"""One host, ready to be talked to: its inventory entry, its transport, its errors with its name."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from remoterun.errors import HostError, RemoterunError, UnknownJob
from remoterun.host.conversation import Conversation, Reply
from remoterun.model.host import Host
from remoterun.transport.base import Transport


@dataclass(frozen=True, slots=True)
class Remote:
    """A host of the inventory and the way to it."""

    host: Host
    transport: Transport

    @contextmanager
    def converse(self, but_first: Callable[[], object] = lambda: None) -> Iterator[Conversation]:
        """Connect, and talk; closes both at the end. Raises ConnectError.

        ``but_first`` is called when the login is done and may raise what matters more than the conversation.
        """
        with self.transport.connect() as connection:
            but_first()
            with Conversation.open(connection, new_nonce()) as conversation:
                yield conversation

    def check(self, reply: Reply, doing: str, job_id: str = "") -> Reply:
        """``reply`` if its request succeeded; else the error in words. Status 3 means: no such job."""
        if reply.status == 0:
            return reply
        if reply.status == 3 and job_id:
            raise UnknownJob(f"no job {job_id} on {self.host.name}", hint="remoterun ps -a", host=self.host.name)
        raise self.failure(reply, doing)

    def failure(self, reply: Reply, doing: str) -> RemoterunError:
        """What went wrong on the host while ``doing`` something, in its own words."""
        said = reply.error_text or f"status {reply.status}"
        hint = "remoterun doctor"
        if "No space left" in said or "quota" in said.lower():
            hint = "make room there (remoterun rm removes ended jobs), or name another workdir in hosts.yaml"
        elif any(words in said for words in ("Permission denied", "Read-only file system", "cannot create directory")):
            hint = "name a folder that this login may write: workdir in hosts.yaml"
        return HostError(f"{doing} failed on {self.host.name}: {said}", hint=hint, host=self.host.name)


def new_nonce() -> str:
    """A word that no output holds by chance."""
    return f"rr{secrets.token_hex(8)}"
