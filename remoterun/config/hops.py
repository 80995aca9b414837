"""Jumps through hosts that hosts.yaml describes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from remoterun.config import destination
from remoterun.model.host import Host


def words(jump: str) -> list[str]:
    """The hops of a ProxyJump value, as written."""
    return [word.strip() for word in jump.split(",")]


def fill(host: Host, hosts: Mapping[str, Host], above: tuple[str, ...] = ()) -> Host:
    """``host`` with its ``hops`` filled in, where its jump names one of ``hosts``, which has settings of its own.

    Raises ValueError with one sentence: the way runs in a circle, or through this machine. ``above`` are the
    hosts whose way this one is on.
    """
    if host.jump is None or host.jump.lower() == "none":
        return host
    asked = [destination.parse(word) for word in words(host.jump)]
    if not any(word.host in hosts for word in asked):
        return host
    hops = []
    for number, word in enumerate(asked):
        if word.host in (*above, host.name):
            way = (*above, host.name, word.host)
            raise ValueError(f"the jump of {way[0]} runs in a circle: {' → '.join(way)}")
        hop = hosts.get(word.host, Host(word.host))
        if hop.transport == "local":
            raise ValueError(f"the jump of {host.name} goes through {hop.name}, which is this machine")
        hop = replace(hop, user=word.user or hop.user, port=word.port or hop.port, hops=())
        # As with ProxyJump: only the first hop is reached by a way of its own.
        hops.append(replace(hop, jump="none") if number else fill(hop, hosts, (*above, host.name)))
    return replace(host, hops=tuple(hops))
