"""Names and ids of jobs (contract §5; field report B25)."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.errors import UsageError
from remoterun.plan import ids

NOW = datetime(2026, 3, 4, 5, 6, 7)


@pytest.mark.parametrize("name", ["v1.2", "v1_2", "Exp-1", "a", "0", "x" * 64])
def test_good_names(name: str) -> None:
    job = ids.make_id(name, NOW, "00ff")
    assert ids.is_id(job)
    assert job.endswith("-0304-050607-00ff")
    assert set(job) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    "name", ["", "a:b", "$0", "@1", "-t", "=x", "ünï", "job 7", "x" * 65, "x" * 300, "a\n", "../a", "a/b"]
)
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        ids.check_name(name)


def test_names_that_tmux_would_confuse_stay_apart() -> None:
    assert ids.matches("v1.2", ids.make_id("v1_2", NOW, "0001"), "v1_2") == 0
    assert ids.matches("v1.2", ids.make_id("v1.2", NOW, "0001"), "v1.2") == 2


def test_a_name_is_matched_whole() -> None:
    other = ids.make_id("exp-10", NOW, "0001")
    assert ids.matches("exp-1", other, "exp-10") == 0
    assert ids.matches("exp-10-0304", other, "exp-10") == 1
    assert ids.matches("exp-10-", other, "exp-10") == 0
    assert ids.matches(other, other, "exp-10") == 3


@given(st.text(max_size=80))
def test_any_target_gives_a_good_default_name(target: str) -> None:
    ids.check_name(ids.default_name(target))
