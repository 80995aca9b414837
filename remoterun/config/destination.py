"""``[user@]host[:port]``, as people type it and as ProxyJump takes it. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

# What OpenSSH takes for a host name, less the signs that shells and our own patterns give a meaning.
_HOST = re.compile(r"[\w.+/~-]+")
_USER = re.compile(r"(?!-)[^\s\x00-\x1f\x7f'\"`$\\;&<>|(){}]+")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where to: ``host`` is a name or an address without brackets (an IPv6 one may end in ``%zone``)."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        six = ":" in self.host
        host = f"[{self.host}]" if six and self.port is not None else self.host
        user = f"{self.user}@" if self.user is not None else ""
        return user + host + (f":{self.port}" if self.port is not None else "")


def looks_like_one(word: str) -> bool:
    """Whether a word says more than a name: a user, a port, an IPv6 address."""
    return "@" in word[1:] or ":" in word


def parse(word: str) -> Destination:
    """Read ``[user@]host[:port]``, ``[user@][v6%zone][:port]`` or an ``ssh://`` URI.

    Raises ValueError with one sentence. An IPv6 address without brackets whose last group may be meant as a
    port is refused with both ways to write it.
    """
    text = word.removeprefix("ssh://").rstrip("/") if word.startswith("ssh://") else word
    user, at, rest = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise ValueError(f"{user!r} cannot be a user's name")
    name = user if at else None
    if rest.startswith("["):
        address, closed, tail = rest[1:].partition("]")
        if not closed or (tail and not tail.startswith(":")) or not is_ipv6(address):
            raise ValueError(f"{rest!r} is not an IPv6 address in brackets, such as [fd00::2]:22")
        return Destination(address, name, _port(tail[1:]) if tail else None)
    if rest.count(":") > 1:
        return Destination(_bare_ipv6(rest, f"{name}@" if at else ""), name)
    host, colon, port = rest.partition(":")
    if not _HOST.fullmatch(host) or host.startswith("-"):
        raise ValueError(f"{host!r} cannot be a host's name")
    return Destination(host, name, _port(port) if colon else None)


def is_ipv6(text: str) -> bool:
    """Whether ``text`` is an IPv6 address, with or without a ``%zone``."""
    address, percent, zone = text.partition("%")
    if percent and not re.fullmatch(r"[\w.-]+", zone):
        return False
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True


def _bare_ipv6(text: str, user: str) -> str:
    before, _, last = text.rpartition(":")
    port_like = re.fullmatch(r"[0-9]{1,5}", last) is not None and 1 <= int(last) <= 65535
    if not is_ipv6(text):
        example = f"{user}[{before}]:{last}" if port_like and is_ipv6(before) else f"{user}[fd00::2]:22"
        raise ValueError(f"{text!r} is no IPv6 address; one with a port is written in brackets: {example}")
    if port_like and is_ipv6(before):
        raise ValueError(
            f"{text!r} may end in a port or not: write {user}[{before}]:{last} with port {last}, or {user}[{text}]"
        )
    return text


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is no port: a number from 1 to 65535")
    return int(text)
