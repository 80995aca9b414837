"""One look at a host: its facts, its GPUs and their leases, in one round trip."""

from __future__ import annotations

from dataclasses import dataclass, replace

from remoterun.host.conversation import Conversation
from remoterun.host.facts import parse_facts, post_facts
from remoterun.host.gpus import HIGHEST_TIER, jobs_of, parse
from remoterun.host.remote import Remote, new_nonce
from remoterun.model.facts import Facts
from remoterun.model.gpu import GpuReport, Lease, Ticket

# A first nvidia-smi may have to start the driver (persistence mode off): seconds.
FIRST_PROBE_S = 30


@dataclass(frozen=True, slots=True)
class _Posted:
    """Requests on their way: leases first, so that no lease is newer than the processes seen."""

    leases: int
    gpus: int
    nonce: str


def look(
    remote: Remote, conversation: Conversation, project_key: str, python: str | None, *, gpus: bool = True
) -> Facts:
    """The host's facts. Raises HostError where the host cannot tell even the least."""
    number = post_facts(conversation, remote.host, project_key=project_key, python=python)
    posted = post_gpus(conversation, remote) if gpus else None
    reply = remote.check(conversation.collect(number), "reading the host's facts")
    facts = parse_facts(reply, remote.host, python)
    return facts if posted is None else replace(facts, gpus=collect_gpus(conversation, posted))


def post_gpus(
    conversation: Conversation, remote: Remote, *, bound: int = FIRST_PROBE_S, tier: int = HIGHEST_TIER
) -> _Posted:
    """Ask for GPUs and leases without waiting."""
    nonce = new_nonce()
    path = ":".join(remote.host.path)
    leases = conversation.post("rr_leases_and_tickets", libraries=["lib", "leases", "queue"])
    number = conversation.post("rr_look_gpus", [path, nonce, str(bound), str(tier)], libraries=["facts", "gpus"])
    return _Posted(leases, number, nonce)


def collect_gpus(conversation: Conversation, posted: _Posted) -> GpuReport:
    """The answer. A driver that hangs is a report that says so, not an error."""
    told = conversation.collect(posted.leases).text
    held = parse_leases(told)
    output = conversation.collect(posted.gpus, timeout=6 * FIRST_PROBE_S).out
    report = parse(output, posted.nonce, held)
    return replace(with_jobs(report, jobs_of(output, posted.nonce)), tickets=parse_tickets(told))


def parse_leases(text: str) -> dict[str, Lease]:
    """The lines of ``rr_leases`` (other lines are passed over), by UUID."""
    held: dict[str, Lease] = {}
    for line in text.splitlines():
        words = line.removeprefix("lease=").split(" ")
        if line.startswith("lease=") and len(words) == 4:
            held[words[0]] = Lease(words[1], *(None if word == "-" else word for word in words[2:]))
    return held


def parse_tickets(text: str) -> tuple[Ticket, ...]:
    """The lines of ``rr_tickets``, oldest first (other lines are passed over)."""
    lines = [line.removeprefix("ticket=").split(" ") for line in text.splitlines() if line.startswith("ticket=")]
    return tuple(
        Ticket(words[0], words[1], int(words[2]), words[3], tuple(words[4].split(",")))
        for words in lines
        if len(words) == 5 and words[2].isdigit()
    )


def with_jobs(report: GpuReport, jobs: dict[int, str]) -> GpuReport:
    """Where no lease tells the job (no flock there), the processes may."""
    gpus = []
    for gpu in report.gpus:
        job = next((jobs[process.pid] for process in gpu.processes if process.pid in jobs), None)
        if gpu.lease is None and job is not None:
            user = next((process.user for process in gpu.processes if process.pid in jobs), None)
            gpu = replace(gpu, lease=Lease(job, user))
        gpus.append(gpu)
    return replace(report, gpus=tuple(gpus))
