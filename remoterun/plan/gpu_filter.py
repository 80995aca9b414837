"""Which GPUs someone wants to see. PURE."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from remoterun.model.gpu import Gpu


@dataclass(frozen=True, slots=True)
class GpuFilter:
    """All of what is set must hold. ``hosts`` are shell patterns; ``words`` are looked for in everything shown."""

    free: bool = False
    mine: bool = False
    user: str | None = None
    hosts: tuple[str, ...] = ()
    job: str | None = None
    states: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it lets everything through."""
        return self == GpuFilter()

    def keeps(self, host: str, gpu: Gpu, login: str | None) -> bool:
        """Whether this GPU is to be seen. ``login`` is our own user there."""
        users = {process.user for process in gpu.processes} | ({gpu.lease.user} if gpu.lease else set())
        job = gpu.lease.job if gpu.lease else ""
        return (
            (not self.free or gpu.pickable)
            and (not self.mine or (login is not None and login in users))
            and (self.user is None or self.user in users)
            and (not self.hosts or any(fnmatchcase(host, pattern) for pattern in self.hosts))
            and (self.job is None or job.startswith(self.job))
            and (not self.states or gpu.state.value in self.states)
            and all(word in _everything(host, gpu) for word in self.words)
        )


def parse_filter(text: str, base: GpuFilter | None = None) -> GpuFilter:
    """What is typed: ``free``, ``mine``, ``user:bob``, ``host:a100-*``, ``job:train``, ``state:error``, other words."""
    base = base or GpuFilter()
    free, mine, user, job = base.free, base.mine, base.user, base.job
    hosts, states, words = list(base.hosts), list(base.states), list(base.words)
    for word in text.split():
        key, _, value = word.partition(":")
        if word == "free":
            free = True
        elif word == "mine":
            mine = True
        elif key == "user" and value:
            user = value
        elif key == "host" and value:
            hosts.append(value)
        elif key == "job" and value:
            job = value
        elif key == "state" and value:
            states.append(value)
        else:
            words.append(word.lower())
    return GpuFilter(free, mine, user, tuple(hosts), job, tuple(states), tuple(words))


def filter_words(wanted: GpuFilter) -> str:
    """The filter as it would be typed."""
    parts = [
        "free" if wanted.free else "",
        "mine" if wanted.mine else "",
        f"user:{wanted.user}" if wanted.user else "",
        *(f"host:{host}" for host in wanted.hosts),
        f"job:{wanted.job}" if wanted.job else "",
        *(f"state:{state}" for state in wanted.states),
        *wanted.words,
    ]
    return " ".join(part for part in parts if part)


def _everything(host: str, gpu: Gpu) -> str:
    parts = [host, gpu.name, gpu.uuid, gpu.state.value, gpu.reason]
    parts += [gpu.lease.job, gpu.lease.user] if gpu.lease else []
    for process in gpu.processes:
        parts += [process.user, process.command, str(process.pid)]
    return " ".join(part for part in parts if part).lower()
