"""Fixtures: test hosts and the client that talks to them (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.need import require as require
from tests.fleet.proxy import Proxy
from tests.fleet.yard import ROOT, Yard, sweep

# A busy machine is slow now and then; that is no fault of what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def yard() -> Iterator[Yard]:
    """The place where this session's hosts stand."""
    require("sshd", "ssh", "ssh-keygen", "tmux", *(("ip", "unshare", "nsenter", "setpriv", "useradd") if ROOT else ()))
    sweep()
    made = Yard()
    yield made
    made.close()


@pytest.fixture
def fleet(yard: Yard) -> Iterator[Callable[..., list[TestHost]]]:
    """``fleet(n, **options)``: n real hosts for this test (options: see TestHost), which know each other by name."""
    made: list[TestHost] = []
    pool = ThreadPoolExecutor(8)

    def make(count: int = 1, **options: Any) -> list[TestHost]:
        numbers = [yard.next() for _ in range(count)]
        new = list(pool.map(lambda number: TestHost(yard, number=number, **options), numbers))
        made.extend(new)
        for host in made:
            host.knows(made)
        return new

    yield make
    list(pool.map(lambda host: host.close(), made))
    pool.shutdown()


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
    require(modules=("torch",))
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
