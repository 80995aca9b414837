"""The transport with faults does what its plan says, on top of real pipes."""

from __future__ import annotations

import time

import pytest

from remoterun.errors import ConnectError, LinkLost
from remoterun.transport.base import Pipe
from remoterun.transport.fake import FlakyTransport
from remoterun.transport.local import LocalTransport

HERE = LocalTransport("local")


def read(pipe: Pipe) -> tuple[bytes, bool]:
    """All that comes, and whether it ended in order."""
    found = b""
    try:
        while data := pipe.recv(7):
            found += data
    except LinkLost:
        return found, False
    return found, True


def test_refused_then_cut_at_each_byte_then_sound() -> None:
    flaky = FlakyTransport(HERE, cut_after_bytes=[0, 5, None, 20], refuse_connects=2)
    for _ in range(2):
        with pytest.raises(ConnectError):
            flaky.connect()
    seen = []
    for _ in range(5):
        with flaky.connect() as connection:
            pipe = connection.open("printf '%s' 'sixteen letters.'; exit 3")
            seen.append(read(pipe))
            if seen[-1][1]:
                assert pipe.exit_status(5) == 3
            else:
                with pytest.raises(LinkLost):
                    pipe.exit_status(5)
                with pytest.raises(LinkLost):
                    pipe.send(b"x")
                with pytest.raises(LinkLost):
                    connection.open("true")
    whole = b"sixteen letters."
    assert seen == [(b"", False), (whole[:5], False), (whole, True), (whole, True), (whole, True)]
    assert (flaky.connects, flaky.cuts, flaky.host_name) == (5, 2, "local")


def test_a_cut_from_outside_frees_who_waits() -> None:
    connection = FlakyTransport(HERE).connect()
    pipe = connection.open("sleep 30")
    started = time.monotonic()
    connection.cut()
    with pytest.raises(LinkLost):
        pipe.recv(1)
    assert time.monotonic() - started < 5


def test_delay() -> None:
    started = time.monotonic()
    with FlakyTransport(HERE, delay=0.1).connect() as connection:
        assert connection.open("echo x").recv(10) == b"x\n"
    assert time.monotonic() - started >= 0.2
