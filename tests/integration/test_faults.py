"""A short form of the fault suite (``python -m bench.faults``): random faults, no broken invariant."""

from __future__ import annotations

import pytest

from bench.faults.rounds import Field
from tests.conftest import require
from tests.fleet.yard import Yard

pytestmark = [pytest.mark.fleet, pytest.mark.slow]


def test_random_faults_break_no_invariant(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    require("sshd", "tmux", root=True)
    with Field(yard, 20261201, 3, monkeypatch.setenv) as field:
        faults, broken, _ = field.run(40)
    assert sum(faults.values()) >= 40
    assert not broken, "\n".join(broken)
