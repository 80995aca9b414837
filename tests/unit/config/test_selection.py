"""Words after -H, and destinations: pure text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.config import selection
from remoterun.config.destination import Destination, parse
from remoterun.errors import UsageError

PART = st.text("abc.-_0", max_size=4)


@given(PART, st.integers(0, 60), st.integers(0, 12), st.booleans(), PART)
def test_a_range_is_its_numbers(before: str, low: int, more: int, padded: bool, after: str) -> None:
    width = len(str(low + more)) + 1 if padded else 0
    names = [f"{before}{number:0{width}d}{after}" for number in range(low, low + more + 1)]
    assert selection.expand_range(f"{before}[{low:0{width}d}-{low + more}]{after}") == names
    if low > 0 and more:
        with pytest.raises(UsageError):
            selection.expand_range(f"{before}[{low + more}-{low}]{after}")


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("a[1-3,7]", ["a1", "a2", "a3", "a7"]),
        ("a[1,1-2]", ["a1", "a2"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a[098-101]", ["a098", "a099", "a100", "a101"]),
        ("a[0-1]", ["a0", "a1"]),
        ("a[12]", ["a[12]"]),
        ("plain", ["plain"]),
    ],
)
def test_ranges(word: str, names: list[str]) -> None:
    assert selection.expand_range(word) == names


@pytest.mark.parametrize(
    "word", ["a[1-99999999]", "a[1-9]b[1-9]c[1-9]d[1-9]", "a[1-2-3]", "a[1-999999999,1-999999999]"]
)
def test_ranges_that_are_refused(word: str) -> None:
    with pytest.raises(UsageError):
        selection.expand_range(word)


@given(
    st.lists(st.text("ab-@*[]1", min_size=1, max_size=5).filter(lambda word: word.count("[") == word.count("]") == 0))
)
def test_a_list_is_its_words(words: list[str]) -> None:
    assert selection.split(" , ".join(words)) == words


def test_commas_in_brackets_are_the_ranges() -> None:
    assert selection.split("a[1,3], b ,,") == ["a[1,3]", "b"]


@given(
    st.from_regex(r"[a-z0-9][a-z0-9._-]{0,10}", fullmatch=True) | st.ip_addresses(v=6).map(str),
    st.none() | st.from_regex(r"[a-z][a-z0-9@._-]{0,8}", fullmatch=True),
    st.integers(1, 65535),
)
def test_a_destination_is_read_as_it_is_written(host: str, user: str | None, port: int) -> None:
    there = Destination(host, user, port)
    assert parse(str(there)) == there
    assert parse(f"ssh://{there}/") == there


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("box", Destination("box")),
        ("bob@box", Destination("box", "bob")),
        ("bob@corp.example@box:22", Destination("box", "bob@corp.example", 22)),
        ("fd00:77::2", Destination("fd00:77::2")),
        ("u@[fd00:77::2]:2299", Destination("fd00:77::2", "u", 2299)),
        ("[fe80::1%eth0]", Destination("fe80::1%eth0")),
        ("fe80::1%eth0", Destination("fe80::1%eth0")),
        ("2001:db8:1:2:3:4:5:6", Destination("2001:db8:1:2:3:4:5:6")),
        ("2001:db8::abcd", Destination("2001:db8::abcd")),
    ],
)
def test_destinations(word: str, expected: Destination) -> None:
    assert parse(word) == expected


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("u@fd00:77::2:2299", "u@[fd00:77::2]:2299 with port 2299, or u@[fd00:77::2:2299]"),
        ("fe80::1%eth0:22", "[fe80::1%eth0]:22"),
        ("box:0", "port"),
        ("box:", "port"),
        ("box:99999", "port"),
        ("a:b:c", "[fd00::2]:22"),
        ("[box]:22", "IPv6"),
        ("[fd00::2", "IPv6"),
        ("[fd00::2]x", "IPv6"),
        ("-x", "'-x'"),
        ("@box", "user"),
        ("a b", "'a b'"),
        ("-oX@box", "user"),
        ("\0@box", "user"),
        ("a\x1bb@box", "user"),
        ("u@", "''"),
        ("", "''"),
    ],
)
def test_destinations_that_are_refused(word: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse(word)


@given(st.text(max_size=20))
def test_any_destination_is_read_or_refused(word: str) -> None:
    try:
        there = parse(word)
    except ValueError:
        return
    assert not there.host.startswith("-")
    assert "\0" not in f"{there.host}{there.user}"
    assert not set(there.host) & set(" \n'\"`$\\;&<>|(){}@[]*?,")
