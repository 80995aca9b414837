"""What may go, and what never does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.errors import UsageError
from remoterun.model.host import Keep
from remoterun.plan.keep import YOUNG_S, StoredJob, StoredTree, choose_removals, parse_size

NOW = 10**6


def job(
    name: str, *, ended: bool = True, ago: int = 0, kib: int = 10, tree: str = "t", needs: str | None = None
) -> StoredJob:
    return StoredJob(name, ended, NOW - ago, kib, "p", tree, needs)


JOBS = [job("a", ago=10), job("b", ago=90000), job("c", ago=200000), job("d", ended=False, ago=10**5)]


@pytest.mark.parametrize(
    ("keep", "going"),
    [
        (None, ""),
        (Keep(), ""),
        (Keep(count=1), "bc"),
        (Keep(count=0), "abc"),
        (Keep(age="1d"), "bc"),
        (Keep(age="2d"), "c"),
        (Keep(bytes="20k"), "c"),
        (Keep(bytes="1g"), ""),
        (Keep(count=2, age="1d"), "bc"),
    ],
)
def test_the_oldest_ended_jobs_go_first(keep: Keep | None, going: str) -> None:
    assert "".join(found.id for found in choose_removals(JOBS, [], keep, NOW).jobs) == going


def test_a_job_that_a_live_one_was_resumed_from_stays() -> None:
    jobs = [job("old", ago=10**5), job("live", ended=False, needs="old")]
    assert choose_removals(jobs, [], Keep(count=0), NOW).jobs == ()
    jobs = [job("old", ago=10**5), job("live", needs="old")]
    assert len(choose_removals(jobs, [], Keep(count=0), NOW).jobs) == 2


def test_snapshots_go_when_nobody_needs_them() -> None:
    old = YOUNG_S + 1
    trees = [
        StoredTree("p", name, NOW - ago, 5) for name, ago in (("new", 0), ("used", old), ("young", 60), ("old", old))
    ]
    trees.append(StoredTree("q", "only", NOW - 10**5, 5))
    found = choose_removals([job("a", tree="used")], trees, None, NOW)
    assert [tree.tree for tree in found.trees] == ["old"]
    assert found.kib == 5
    assert [tree.tree for tree in choose_removals([job("a", tree="used")], trees, Keep(count=0), NOW).trees] == [
        "used",
        "old",
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6), st.integers(0, 1000)), max_size=20), st.integers(0, 5))
def test_what_is_not_ended_never_goes(found: list[tuple[bool, int, int]], count: int) -> None:
    jobs = [job(str(number), ended=ended, ago=ago, kib=kib) for number, (ended, ago, kib) in enumerate(found)]
    removal = choose_removals(jobs, [], Keep(count=count, age="1h", bytes="1k"), NOW)
    assert all(one.ended for one in removal.jobs)
    assert len([one for one in jobs if one.ended]) - len(removal.jobs) <= count


def test_sizes() -> None:
    assert parse_size("200g", "x") == 200 << 30
    assert parse_size("1.5 MiB", "x") == 3 << 19
    for text in ("", "g", "-1g", "1x", "1gg"):
        with pytest.raises(UsageError, match="--keep-bytes"):
            parse_size(text, "--keep-bytes")
