"""Every failure a user can meet: one root, a message, a hint, a stable code, an exit status.

The message says what failed and why; the hint says what to type next. ``code`` is the word that scripts
test for in the ``--json`` error object. This module imports nothing of the project.
"""

from __future__ import annotations


class RemoterunError(Exception):
    """Root of the family.

    ``status`` is the exit status of the command line (contract §3): 2 for wrong usage or configuration
    (nothing was done), 255 for "could not do it".
    """

    code = "error"
    status = 255

    def __init__(self, message: str, *, hint: str = "", host: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.host = host


class UsageError(RemoterunError):
    """The command line, or a call of the Python API, asks for something that makes no sense."""

    code = "usage"
    status = 2


class ConfigError(RemoterunError):
    """hosts.yaml or the SSH configuration is wrong; the message begins with ``file:line:column``."""

    code = "config"
    status = 2


class UnknownHost(RemoterunError):
    """No such host in the inventory, nor in the SSH configuration."""

    code = "unknown-host"
    status = 2


class UnknownJob(RemoterunError):
    """No job by that id, name or prefix on the hosts that were asked."""

    code = "unknown-job"
    status = 2


class PlanError(RemoterunError):
    """The spec does not fit the facts of the host; nothing was started."""

    code = "plan"


class GpusTaken(PlanError):
    """The GPUs asked for are held by others; the message names the holders."""

    code = "gpus-taken"


class ConnectError(RemoterunError):
    """The host could not be reached, or the login failed. Its state is unknown, not bad."""

    code = "unreachable"


class HostKeyError(ConnectError):
    """The host's key is unknown, revoked or changed."""

    code = "host-key"


class AuthError(ConnectError):
    """The host was reached but refused the login."""

    code = "auth"


class LinkLost(ConnectError):
    """An open connection died (or went silent for too long) in the middle of a request."""

    code = "link-lost"


class HostError(RemoterunError):
    """The host answered, but a step failed there."""

    code = "host"


class StartError(HostError):
    """The job's folder was made but the job did not start."""

    code = "start"
