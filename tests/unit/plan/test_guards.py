"""Limits, restarts and news as they are typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.errors import UsageError
from remoterun.model.guards import Guards, Restart
from remoterun.plan.durations import in_words, parse_duration
from remoterun.plan.guards import guards_file, notify_file, parse_notify, parse_restart, restart_file


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800), ("1.5h", 5400), (" 1W ", 604800)],
)
def test_spans(text: str, seconds: int) -> None:
    assert parse_duration(text, "--timeout") == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5m", "1y", "five", "1h 30", "30mm", "1e3", "９m", "99999d", "1:30"])
def test_what_is_no_span_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        parse_duration(text, "--timeout")


@given(st.integers(1, 10**7))
def test_words_say_what_was_meant_to_within_their_second_unit(seconds: int) -> None:
    said = parse_duration(in_words(seconds), "x")
    assert said <= seconds
    assert seconds - said < max(60, seconds * 0.05)


def test_restart() -> None:
    assert parse_restart("on-failure", None, None) == Restart()
    assert parse_restart("on-failure:3", "1, 137", 60) == Restart(3, (1, 137), 60)
    assert restart_file(Restart(3, (1, 137), 60)) == "most=3\ncodes=1 137\ndelay=60\n"
    for text, codes in (
        ("always", None),
        ("on-failure:", None),
        ("on-failure:x", None),
        ("on-failure", "0"),
        ("on-failure", "256"),
    ):
        with pytest.raises(UsageError):
            parse_restart(text, codes, None)


def test_notify() -> None:
    assert parse_notify("ntfy:my_topic")[0] == "ntfy"
    assert parse_notify("ntfy:https://news.example/t") == ("ntfy", "https://news.example/t")
    assert parse_notify("https://hooks.example/x") == ("url", "https://hooks.example/x")
    assert notify_file(["mail me", "http://h/x"]) == "command mail me\nurl http://h/x\n"
    for text in ("", "  ", "a\nb", "ntfy:", "ntfy:two words", 'https://h/"x', "https://h/a b"):
        with pytest.raises(UsageError):
            parse_notify(text)


def test_the_watchers_pause_is_short_enough_for_the_shortest_guard() -> None:
    assert "tick=20\n" in guards_file(Guards())
    assert "tick=2\n" in guards_file(Guards(idle_s=10))
    assert "tick=1\n" in guards_file(Guards(idle_s=1))
    assert "timeout=60\ntimeout_words=1m\n" in guards_file(Guards(timeout_s=60))
    assert "stall" not in guards_file(Guards(stall_s=None))
