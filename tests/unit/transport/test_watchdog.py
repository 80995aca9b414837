"""When a silent link counts as dead."""

from __future__ import annotations

import threading
import time

import pytest

from remoterun.transport import watchdog
from remoterun.transport.watchdog import ASK_AFTER_S, DEAD_AFTER_S, Vigil, Watchdog


def watch(*, until: float, answers: list[float], sleeps: dict[float, float] | None = None) -> list[tuple[float, str]]:
    """What a vigil of one tick per second says, with bytes received at the times ``answers``."""
    vigil, said, now = Vigil(), [], 0.0
    while now < until:
        slept = (sleeps or {}).get(now, 0.0)
        now += 1.0 + slept
        last = max([0.0, *(at for at in answers if at <= now)])
        verdict = vigil.look(now, last, slept=bool(slept))
        if verdict:
            said.append((now, verdict))
        if verdict == "dead":
            break
    return said


def test_silence_is_asked_about_and_then_called_dead_within_twenty_seconds() -> None:
    assert watch(until=60, answers=[]) == [(ASK_AFTER_S, "ask"), (DEAD_AFTER_S, "dead")]
    assert watch(until=60, answers=[7.5])[-1] == (23.0, "dead"), "fifteen seconds after the last byte, in whole ticks"
    assert DEAD_AFTER_S + 2 * watchdog.TICK_S < 20


def test_bytes_are_a_sign_of_life_whatever_they_are() -> None:
    assert watch(until=60, answers=[float(second) for second in range(0, 60, 4)]) == []
    # An idle link that answers is asked again and again, and lives.
    assert {
        verdict for _, verdict in watch(until=60, answers=[5.1, 11.1, 17.1, 23.1, 29.1, 35.1, 41.1, 47.1, 53.1])
    } == {"ask"}
    # A slow one whose answer comes behind other bytes.
    assert "dead" not in {verdict for _, verdict in watch(until=60, answers=[14.0, 28.0, 42.0, 56.0])}


def test_a_sleep_is_no_silence() -> None:
    # Asked, then stopped for a minute: not dead at once, but asked at once, and dead in time if nothing comes.
    said = watch(until=200, answers=[], sleeps={6.0: 60.0})
    assert said == [(5.0, "ask"), (67.0, "ask"), (77.0, "dead")]
    assert watch(until=120, answers=[3.0, 64.5], sleeps={3.0: 60.0})[0] == (64.0, "ask"), "at once, not after five"


class Line:
    """A connection whose other end answers, or does not."""

    def __init__(self, *, answers: bool) -> None:
        self.last_received = time.monotonic()
        self.answers = answers
        self.gone = threading.Event()

    def ask(self) -> None:
        if self.answers:
            self.last_received = time.monotonic()

    def give_up(self) -> None:
        self.gone.set()

    def is_open(self) -> bool:
        return not self.gone.is_set()


def test_one_thread_looks_after_all_connections_and_ends_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASK_AFTER_S", "DEAD_AFTER_S", "TICK_S"):
        monkeypatch.setattr(watchdog, name, getattr(watchdog, name) / 50)
    dog = Watchdog()
    dead, alive = Line(answers=False), Line(answers=True)
    dog.watch(dead)
    dog.watch(alive)
    assert dead.gone.wait(5)
    assert not alive.gone.wait(0.5)
    alive.gone.set()
    until = time.monotonic() + 5
    while any(thread.name == "watchdog" for thread in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(thread.name == "watchdog" for thread in threading.enumerate())
    again = Line(answers=False)
    dog.watch(again)
    assert again.gone.wait(5), "a new connection starts it again"
