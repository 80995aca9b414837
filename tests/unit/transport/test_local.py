"""This machine as a host."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from remoterun.errors import LinkLost
from remoterun.transport.base import Pipe
from remoterun.transport.local import LocalTransport

HERE = LocalTransport("local")


def read_all(pipe: Pipe, size: int = 1 << 16) -> bytes:
    found = b""
    while data := pipe.recv(size):
        found += data
    return found


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("no-such-tool", 127),
    ],
)
def test_exit_status(command: str, status: int) -> None:
    with HERE.connect() as connection:
        assert connection.open(command).exit_status(10) == status


def test_streams_are_apart_and_end_in_order() -> None:
    with HERE.connect() as connection:
        pipe = connection.open("cat; echo e >&2; echo o")
        pipe.send(b"\0\xff in\n")
        pipe.send_eof()
        assert read_all(pipe) == b"\0\xff in\no\n"
        assert pipe.recv_stderr(100) == b"e\n"
        assert pipe.recv_stderr(100) == b""
        assert pipe.recv(100) == b""
        assert pipe.exit_status() == 0


def test_a_hundred_megabytes_each_way_at_once() -> None:
    block = os.urandom(1 << 20)
    wanted = hashlib.sha256(block * 100).hexdigest()
    with HERE.connect() as connection:
        pipe = connection.open("exec cat")

        def send() -> None:
            for _ in range(100):
                pipe.send(block)
            pipe.send_eof()

        sender = threading.Thread(target=send)
        sender.start()
        found, size = hashlib.sha256(), 0
        while data := pipe.recv(1 << 17):
            found.update(data)
            size += len(data)
        sender.join()
        assert (size, found.hexdigest()) == (100 << 20, wanted)


def test_timeouts() -> None:
    with HERE.connect() as connection:
        pipe = connection.open("sleep 20")
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            pipe.recv(1, 0.1)
        with pytest.raises(TimeoutError):
            pipe.recv_stderr(1, 0.1)
        with pytest.raises(TimeoutError):
            pipe.exit_status(0.1)
        with pytest.raises(TimeoutError):
            pipe.recv(1, 0)
        assert time.monotonic() - started < 5
    assert time.monotonic() - started < 5, "closing ends the command"


def test_closing_from_another_thread_frees_who_waits_though_a_child_holds_the_streams() -> None:
    connection = HERE.connect()
    # The child has a session of its own, as what a job leaves behind does: closing does not reach it.
    pipe = connection.open("setsid sleep 3 & echo up; wait")
    assert pipe.recv(100) == b"up\n"
    got: list[object] = []

    def full() -> None:
        try:
            pipe.send(bytes(1 << 20))
        except LinkLost as error:
            got.append(error.message)

    threads = [threading.Thread(target=lambda: got.append(pipe.recv(1))), threading.Thread(target=full)]
    threads.append(threading.Thread(target=lambda: got.append(pipe.recv_stderr(1))))
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    started = time.monotonic()
    connection.close()
    connection.close()
    for thread in threads:
        thread.join(5)
    assert time.monotonic() - started < 2
    assert sorted(map(str, got)) == ["b''", "b''", "the command on this machine no longer reads its input"]


def test_a_command_that_stops_reading_is_told() -> None:
    with HERE.connect() as connection:
        pipe = connection.open("exec 0</dev/null; sleep 5")
        with pytest.raises(LinkLost, match="no longer reads"):
            pipe.send(bytes(1 << 20))


def test_the_command_is_out_of_the_terminals_reach() -> None:
    with HERE.connect() as connection:
        pipe = connection.open("ps -o pgid=,sid= -p $$")
        group, session = read_all(pipe).split()
        assert group == session != str(os.getsid(0)).encode()


def test_many_connections_need_no_low_file_numbers() -> None:
    # select() fails from number 1024 on.
    holders = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)] if _may_open(1200) else []
    try:
        with HERE.connect() as connection:
            assert connection.open("echo high").recv(100, 5) == b"high\n"
    finally:
        for number in holders:
            os.close(number)


def _may_open(count: int) -> bool:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
        soft = count
    return soft >= count


def test_no_file_stays_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with HERE.connect() as connection:
        for _ in range(20):
            pipe = connection.open("exit 0")
            pipe.exit_status()
            pipe.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_interactive_argv_runs_here() -> None:
    argv = HERE.interactive_argv('echo "it\'s $((1 + 1))"')
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"it's 2\n"


@pytest.mark.parametrize("module", ["base", "local", "factory", "fake"])
def test_what_needs_no_ssh_does_not_import_it(module: str) -> None:
    code = f"import remoterun.transport.{module}, sys; print([m for m in ('paramiko','cryptography','fabric') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
