"""Which transport a host has. paramiko is imported only when one of SSH is made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from remoterun.model.host import Host
from remoterun.transport.base import Connection, Transport

# Asked for a passphrase or password; None when nobody answers.
Prompt = Callable[[str], "str | None"]


def make_transport(host: Host, *, accept_new: bool = False, prompt: Prompt | None = None) -> Transport:
    """The transport of ``host``. Opens nothing; over SSH the configuration is read at the first use."""
    if host.transport == "local":
        from remoterun.transport.local import LocalTransport

        return LocalTransport(host.name)
    return _LazySsh(host, accept_new, prompt)


@contextmanager
def _without(module: str) -> Iterator[None]:
    """Hide a module while others are imported. paramiko imports invoke, a tenth of a second, for a part of its
    own reader of the SSH configuration that is not used here; it does without where there is none."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        # Another thread may have been here too.
        sys.modules.pop(module, None)


@dataclass
class _LazySsh:
    """Reads ``ssh -G`` and imports paramiko when first used, so that many hosts do so side by side."""

    host: Host
    accept_new: bool
    prompt: Prompt | None
    _made: list[Transport] = field(default_factory=list)

    @property
    def host_name(self) -> str:
        """The host's name in the inventory."""
        return self.host.name

    def connect(self) -> Connection:
        """Connect and log in."""
        return self._transport().connect()

    def interactive_argv(self, command: str) -> list[str]:
        """The argv that runs ``command`` with this terminal."""
        return self._transport().interactive_argv(command)

    def _transport(self) -> Transport:
        if not self._made:
            from remoterun.config.ssh_config import overrides, resolve

            with _without("invoke"):
                from remoterun.transport.ssh import SshTransport

            options = overrides(self.host)
            if self.host.identity_file:
                options += ["-i", os.path.expanduser(self.host.identity_file)]
            target = resolve(self.host)
            self._made.append(SshTransport(target, tuple(options), self.accept_new, self.prompt))
        return self._made[0]
