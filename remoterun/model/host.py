"""A machine in the inventory, and what is mounted from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DataSource:
    """One entry of a host's ``data``: where it comes from, where it appears in the job.

    ``kind`` is one of path, upload, sshfs, rclone, nfs; ``source`` is that key's value; ``mount`` the path
    in the job's container; ``mode`` ro or rw.
    """

    name: str
    kind: str
    source: str
    mount: str
    mode: str = "ro"


@dataclass(frozen=True, slots=True)
class Mount:
    """Data of one job: ``source`` an absolute path on the host, ``path`` the one in the job's container, ``mode`` ro or rw."""

    name: str
    source: str
    path: str
    mode: str = "ro"

    @property
    def variable(self) -> str:
        """The variable that tells the job where the data is."""
        return "REMOTERUN_DATA_" + self.name.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Keep:
    """How long ended jobs' files stay: the newest ``count`` jobs, ``age`` such as ``30d``, ``bytes`` such as ``200g``."""

    count: int | None = None
    age: str | None = None
    bytes: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """One host as hosts.yaml (over the SSH configuration) describes it. Defaults are already merged in.

    ``transport`` is ``ssh`` or ``local``. ``address`` is what hosts.yaml says, or None: the name itself,
    as the SSH configuration resolves it. ``workdir`` may begin with ``~``: the login's home on the host.
    ``python`` is the interpreter for runtime none (None: ``python3`` of the login's PATH); ``setup`` is a
    shell line run before the job; ``path`` are folders put in front of the host's PATH; ``tmux`` a tmux
    binary by path. ``gpus`` is how many there should be (doctor compares), None if not stated. ``hops`` are the
    hosts that ``jump`` names, first hop first, where hosts.yaml describes any of them; else the SSH
    configuration alone says what ``jump`` means.
    """

    name: str
    transport: str = "ssh"
    address: str | None = None
    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    jump: str | None = None
    gpus: int | None = None
    tags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    interface: str | None = None
    data: tuple[DataSource, ...] = ()
    runtime: str = "auto"
    image: str | None = None
    shm_size: str | None = None
    workdir: str = "~/.remoterun"
    python: str | None = None
    setup: str | None = None
    path: tuple[str, ...] = ()
    tmux: str | None = None
    keep: Keep | None = None
    hops: tuple[Host, ...] = ()


@dataclass(frozen=True, slots=True)
class SshTarget:
    """Where SSH really goes: the answer of ``ssh -G`` with hosts.yaml laid over it.

    ``name`` is the host's name in the inventory, ``destination`` what ``ssh`` is asked by: it has neither user nor
    port. ``identity_files`` are expanded paths in the order OpenSSH offers them. ``jumps`` are the targets to go
    through, first hop first. ``known_hosts_files`` and ``host_key_alias`` are as OpenSSH reads them.
    ``options`` are all of ``ssh -G``'s lines (lower-case key, last value wins) for whoever needs one more.
    """

    name: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str | None = None
    certificate_files: tuple[str, ...] = ()
    jumps: tuple[SshTarget, ...] = ()
    proxy_command: str | None = None
    known_hosts_files: tuple[str, ...] = ()
    host_key_alias: str | None = None
    strict_host_key_checking: str = "ask"
    connect_timeout: float = 10.0
    options: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    destination: str = ""
