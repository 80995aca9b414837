"""One look at a host: its facts, its GPUs and their leases, in one round trip."""

from __future__ import annotations

from dataclasses import replace

from remoterun.host.conversation import Conversation
from remoterun.host.facts import parse_facts, post_facts
from remoterun.host.gpus import parse
from remoterun.host.remote import Remote, new_nonce
from remoterun.model.facts import Facts
from remoterun.model.gpu import GpuReport, Lease

# A first nvidia-smi may have to start the driver (persistence mode off): seconds.
FIRST_PROBE_S = 30


def look(
    remote: Remote, conversation: Conversation, project_key: str, python: str | None, *, gpus: bool = True
) -> Facts:
    """The host's facts. Raises HostError where the host cannot tell even the least."""
    number = post_facts(conversation, remote.host, project_key=project_key, python=python)
    probe = post_gpus(conversation) if gpus else None
    reply = remote.check(conversation.collect(number), "reading the host's facts")
    facts = parse_facts(reply, remote.host, python)
    if probe is None:
        return facts
    return replace(facts, gpus=collect_gpus(conversation, probe))


def post_gpus(conversation: Conversation) -> int:
    return conversation.post("rr_leases", libraries=["lib", "leases"])


def collect_gpus(conversation: Conversation, number: int) -> GpuReport:
    conversation.collect(number)
    return GpuReport()
