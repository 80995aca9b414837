"""What a job needs of a host, checked against its facts; each failure with its fix. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from remoterun.model.facts import Facts
from remoterun.model.gpu import GpuState
from remoterun.model.host import Host

_LOW_DISK_KIB = 2 << 20
_BROKEN = (GpuState.ERROR, GpuState.LOST)


@dataclass(frozen=True, slots=True)
class Check:
    """One precondition. ``ok`` is None for what is merely worth knowing; ``fix`` is what to do."""

    name: str
    ok: bool | None
    found: str
    fix: str = ""


def check_host(host: Host, facts: Facts) -> tuple[Check, ...]:
    """All checks of a host that answers."""
    return (*_tools(host, facts), _python(host, facts), _disk(facts), *_gpus(host, facts))


def _tools(host: Host, facts: Facts) -> Iterator[Check]:
    tools = facts.tools
    yield Check(
        "login", True, f"{facts.user}@{facts.hostname}, {facts.kernel}, login shell {facts.login_shell or 'not asked'}"
    )
    if host.transport == "ssh" and facts.login_shell is None:
        yield Check(
            "start-up files", False, "the login shell did not answer within 5 s",
            "a start-up file (.profile, .bash_profile, .zprofile) waits for something; jobs get a plainer environment",
        )  # fmt: skip
    if facts.kills_at_logout:
        yield Check(
            "logout", False, "systemd ends every process of a login when it logs out (KillUserProcesses=yes)",
            f"as root: KillUserProcesses=no, or KillExcludeUsers={facts.user}, in /etc/systemd/logind.conf; "
            "until then a job ends with the last SSH session",
        )  # fmt: skip
    if "tmux" in tools:
        yield Check("tmux", True, tools["tmux"])
    else:
        yield Check(
            "tmux",
            False,
            f"not in {facts.path}",
            "install it, or name it: tmux: /path/to/tmux in hosts.yaml; attach needs it",
        )
    for name, use in (("tar", "the code is sent with it"), ("gzip", "the code is sent with it")):
        if name not in tools:
            yield Check(name, False, f"not in {facts.path}", f"install it: {use}")
    if "setsid" not in tools:
        yield Check("setsid", False, f"not in {facts.path}", "install util-linux: a job's session is made with it")
    if "flock" in tools:
        yield Check("flock", True, tools["flock"])
    else:
        yield Check(
            "flock", False, f"not in {facts.path}", "install util-linux: without it GPUs cannot be held for a job"
        )


def _python(host: Host, facts: Facts) -> Check:
    python = facts.python
    if python is None:
        asked = facts.python_asked or "python3"
        return Check(
            "python", False, f"no {asked}", "install it, or name one: python: in hosts.yaml, or launch --python"
        )
    if python.version is None:
        return Check("python", False, f"{python.path} does not run", "name another: python: in hosts.yaml")
    where = f"{python.path} ({python.version})"
    if python.torch is None:
        return Check(
            "torch",
            False,
            f"{where} has none",
            f"{python.path} -m pip install torch, or name an interpreter that has it: python: in hosts.yaml",
        )
    return Check("torch", True, f"{python.torch} in {where}")


def _disk(facts: Facts) -> Check:
    free = facts.disk_available_kib
    if free is None:
        return Check("disk", None, f"{facts.workdir}: free space unknown")
    found = f"{facts.workdir}: {free / 1048576:.1f} GiB free"
    return Check(
        "disk",
        free >= _LOW_DISK_KIB,
        found,
        "" if free >= _LOW_DISK_KIB else "make room, or name another workdir in hosts.yaml",
    )


def _gpus(host: Host, facts: Facts) -> Iterator[Check]:
    report = facts.gpus
    if report.problem:
        yield Check("gpu driver", False, report.problem.split(": ", 1)[0], report.problem.split(": ", 1)[-1])
    if host.gpus is not None and host.gpus != len(report.gpus):
        yield Check(
            "gpus",
            False,
            f"{len(report.gpus)} are there, hosts.yaml says {host.gpus}",
            "a card may be lost (remoterun gpus), or correct gpus: in hosts.yaml",
        )
    elif report.gpus:
        yield Check("gpus", True, f"{len(report.gpus)}, driver {report.driver or '?'}")
    elif not report.problem:
        yield Check("gpus", None, "none")
    for gpu in report.gpus:
        if gpu.state in _BROKEN:
            yield Check(
                f"gpu {gpu.index}",
                False,
                f"{gpu.state.value}: {gpu.reason}",
                "reset it (nvidia-smi --gpu-reset, as root) or reboot",
            )
    if report.gpus and any(gpu.persistence is False for gpu in report.gpus):
        yield Check(
            "persistence", None, "off: each look may start the driver anew (seconds); as root: nvidia-smi -pm 1"
        )
    for warning in report.warnings:
        yield Check("gpu warning", None, warning)
