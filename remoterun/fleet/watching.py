"""Watching many hosts: each has a thread, a connection and a pace of its own, so none can delay another."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, Queue, SimpleQueue

from remoterun.errors import RemoterunError
from remoterun.host.conversation import Conversation
from remoterun.host.remote import Remote
from remoterun.host.rounds import Rounds
from remoterun.model.gpu import Round

# A refresh shall not cost a host more than a tenth of the time, nor be put off for longer than this.
_SHARE = 10
_LONGEST_PAUSE_S = 30.0
# Seconds between attempts to reach a host that does not answer.
_RETRY_S = (2, 5, 10, 20, 30)
HISTORY = 120


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of one host. ``at`` and ``asked`` are of the monotonic clock, None: never; ``error`` is why the
    last attempt failed, None while the host answers; ``problem`` why its GPUs could not be read anew while it answers (then
    ``round`` is what was read before). ``history`` holds by UUID the utilisation of the last rounds."""

    host: str
    round: Round | None = None
    at: float | None = None
    asked: float | None = None
    error: RemoterunError | None = None
    problem: str | None = None
    count: int = 0
    history: dict[str, tuple[int | None, ...]] = field(default_factory=dict)

    def age_s(self, now: float) -> float | None:
        """How old the values are."""
        return None if self.at is None else max(0.0, now - self.at)

    def silent_s(self, now: float) -> float:
        """For how long the host has owed an answer; 0 when it owes none."""
        return 0.0 if self.asked is None or self.error is not None else max(0.0, now - self.asked)


class Watch:
    """A running watch over hosts. ``readings`` may be read at any time, from any thread."""

    def __init__(self, remotes: Sequence[Remote], *, beat_s: float = 2.0, once: bool = False) -> None:
        self.names = tuple(remote.host.name for remote in remotes)
        self.beat_s = beat_s
        self._once = once
        self._readings = {name: Reading(name) for name in self.names}
        self._changed: Queue[str] = Queue()
        self._closed = threading.Event()
        self._watchers = {remote.host.name: _Watcher(self, remote) for remote in remotes}

    def start(self) -> None:
        """Begin. The threads die with the process: one that waits for a dead host delays no end."""
        for watcher in self._watchers.values():
            threading.Thread(target=watcher.run, daemon=True).start()

    def close(self) -> None:
        """Let go of all hosts; connections that are being made are left to the end of the process."""
        self._closed.set()
        for watcher in self._watchers.values():
            watcher.wake.set()
            watcher.close()

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it is over."""
        return self._closed.is_set()

    @property
    def once(self) -> bool:
        """Whether each host is asked one time only."""
        return self._once

    def reading(self, name: str) -> Reading:
        """What is known of a host now."""
        return self._readings[name]

    def readings(self) -> list[Reading]:
        """What is known now, in the order of the hosts."""
        return [self._readings[name] for name in self.names]

    def put(self, reading: Reading, *, news: bool) -> None:
        """A host's own thread tells."""
        self._readings[reading.host] = reading
        if news:
            self._changed.put(reading.host)

    def changes(self) -> int:
        """How many answers came since the last call."""
        count = 0
        while True:
            try:
                self._changed.get_nowait()
            except Empty:
                return count
            count += 1

    def answers(self) -> Iterator[Reading]:
        """With ``once``: each host as it answers, or fails to."""
        for _ in self.names:
            yield self._readings[self._changed.get()]

    def next_answer(self, timeout: float) -> bool:
        """Wait for another answer; False when none came in time."""
        try:
            self._changed.get(timeout=max(0.0, timeout))
        except Empty:
            return False
        return True

    def history(self, host: str, job: str) -> str:
        """The newest lines of a job's gpu.csv, by its host's own conversation. Blocks; empty where it cannot be had."""
        return self._watchers[host].ask_history(job)


class _Watcher:
    """The thread of one host."""

    def __init__(self, watch: Watch, remote: Remote) -> None:
        self.watch = watch
        self.remote = remote
        self.wake = threading.Event()
        self._questions: SimpleQueue[tuple[str, SimpleQueue[str]]] = SimpleQueue()
        self._conversation: Conversation | None = None
        self._past: dict[str, deque[int | None]] = {}

    def run(self) -> None:
        """Connect, ask, sleep, ask …; connect anew after a failure, ever more rarely."""
        failures = 0
        while not self.watch.closed:
            before = self._now().count
            try:
                with self.remote.converse() as conversation:
                    self._conversation = conversation
                    self._rounds(Rounds(self.remote, conversation))
            except RemoterunError as error:
                self._fail(error)
            except Exception as error:
                # A thread that dies in silence would leave a row that never changes.
                self._fail(RemoterunError(f"unexpected: {type(error).__name__}: {error}"))
            finally:
                self._conversation = None
            if self.watch.once:
                return
            failures = 0 if self._now().count > before else failures + 1
            self._sleep(_RETRY_S[min(failures, len(_RETRY_S)) - 1] if failures else 1)

    def close(self) -> None:
        """End the conversation, whoever waits for an answer in it."""
        conversation = self._conversation
        if conversation is not None:
            conversation.close()

    def ask_history(self, job: str) -> str:
        """Put the question behind the round that is on its way."""
        answer: SimpleQueue[str] = SimpleQueue()
        self._questions.put((job, answer))
        self.wake.set()
        try:
            return answer.get(timeout=10)
        except Empty:
            return ""

    def _rounds(self, rounds: Rounds) -> None:
        while not self.watch.closed:
            known = self._now()
            asked = time.monotonic()
            self.watch.put(replace(known, asked=asked), news=False)
            found = rounds.next()
            now = time.monotonic()
            if found.gpus.problem and known.round is not None and known.round.gpus.gpus:
                # Cards do not vanish because their driver hangs: what was known stays, and grows old.
                told = replace(known, asked=None, error=None, problem=found.gpus.problem, count=known.count + 1)
            else:
                told = Reading(known.host, found, now, count=known.count + 1, history=self._remember(found))
            self.watch.put(told, news=True)
            if self.watch.once:
                return
            until = asked + max(self.watch.beat_s, min(_LONGEST_PAUSE_S, _SHARE * (found.took_s or 0.0)))
            while (left := until - time.monotonic()) > 0 and not self.watch.closed:
                self._answer(rounds)
                self._sleep(left)
            self._answer(rounds)

    def _answer(self, rounds: Rounds) -> None:
        while not self._questions.empty():
            job, answer = self._questions.get()
            answer.put(rounds.history(job))

    def _remember(self, found: Round) -> dict[str, tuple[int | None, ...]]:
        for gpu in found.gpus.gpus:
            if gpu.uuid:
                self._past.setdefault(gpu.uuid, deque(maxlen=HISTORY)).append(gpu.utilization_pct)
        return {uuid: tuple(past) for uuid, past in self._past.items()}

    def _fail(self, error: RemoterunError) -> None:
        if self.watch.closed:
            return
        known = self._now()
        self.watch.put(replace(known, asked=None, error=error), news=True)

    def _now(self) -> Reading:
        return self.watch.reading(self.remote.host.name)

    def _sleep(self, seconds: float) -> None:
        self.wake.wait(seconds)
        self.wake.clear()
