"""Fixtures: test hosts and the client that talks to them (docs/testing.md)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.proxy import Proxy
from tests.fleet.yard import Yard, sweep


def require(*tools: str) -> None:
    """Skip the test where a tool is missing; with CI set, fail instead."""
    missing = [tool for tool in tools if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"missing: {', '.join(missing)}")
    if missing:
        pytest.skip(f"missing: {', '.join(missing)}")


@pytest.fixture(scope="session")
def yard() -> Iterator[Yard]:
    """The place where this session's hosts stand."""
    require("sshd", "tmux", "ip")
    sweep()
    made = Yard()
    yield made
    made.close()


@pytest.fixture
def fleet(yard: Yard) -> Iterator[Callable[..., list[TestHost]]]:
    """``fleet(n, **options)``: n real hosts for this test."""
    made: list[TestHost] = []

    def make(count: int = 1, **options: Any) -> list[TestHost]:
        new = [TestHost(yard, **options) for _ in range(count)]
        made.extend(new)
        return new

    yield make
    for host in made:
        host.close()


@pytest.fixture
def client(yard: Yard) -> Iterator[Client]:
    """A laptop."""
    made = Client(yard)
    yield made
    made.close()


@pytest.fixture
def host(fleet: Callable[..., list[TestHost]], client: Client) -> TestHost:
    """One host that the client knows."""
    made: TestHost = fleet(1)[0]
    client.knows([made])
    return made


@pytest.fixture
def torch_host(fleet: Callable[..., list[TestHost]], client: Client) -> TestHost:
    """One host whose login can run this test's own interpreter, which has torch."""
    pytest.importorskip("torch")
    made: TestHost = fleet(1, superuser=True)[0]
    client.knows([made])
    return made


@pytest.fixture
def proxy() -> Iterator[Callable[[TestHost, float], Proxy]]:
    """``proxy(host, delay)``: a way to the host that counts and delays."""
    made: list[Proxy] = []

    def make(host: TestHost, delay: float = 0.0) -> Proxy:
        made.append(Proxy(host.address, host.port, delay))
        return made[-1]

    yield make
    for each in made:
        each.close()
