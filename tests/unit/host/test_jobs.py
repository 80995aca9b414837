"""States are judged from several signs, never from one alone."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoterun.host.jobs import Scan, exit_words, judge, parse_scan
from remoterun.model.job import JobState, JobStatus

ID = "train-0304-050607-00ff"
HEAD = b"boot=B1\nhost=M/n\nnow=1000\n"


def scan(*, files: dict[str, str] | None = None, values: str = "", record: dict[str, object] | None = None) -> Scan:
    contents = {
        **(files or {}),
        "job.json": json.dumps({"id": ID, "name": "train", "host_id": "M/n", "gpus": ["GPU-1"], **(record or {})}),
    }
    body = "".join(f"file={name} {len(text.encode())}\n{text}\n" for name, text in contents.items())
    return parse_scan(HEAD + f"\njob={ID}\n{values}{body}".encode())


def state(found: Scan) -> JobStatus:
    job = judge(found.jobs[0], found, "gpu1")
    assert job is not None
    return job


START = "supervisor=5\nsupervisor_ticks=6\nboot=B1\nhost=M/n\nstarted=2026-03-04T05:06:07Z\n"
ALIVE = "supervisor_is=alive\nmain_is=alive\n"
DEAD = "supervisor_is=dead\nmain_is=dead\n"
ORPHAN = "supervisor_is=dead\nmain_is=alive\n"
EXIT = "code=3\nstate=failed\nended=2026-03-04T06:06:07Z\n"


@pytest.mark.parametrize(
    ("files", "values", "expected"),
    [
        ({"start": START}, ALIVE, JobState.RUNNING),
        ({"start": START}, ORPHAN, JobState.RUNNING),
        ({"start": START}, DEAD, JobState.LOST),
        ({"start": START.replace("B1", "B0")}, ALIVE, JobState.LOST),
        ({"start": START, "exit": EXIT}, DEAD, JobState.FAILED),
        ({"start": START.replace("B1", "B0"), "exit": EXIT}, DEAD, JobState.FAILED),
        ({"start": START, "exit": "code=0\nstate=succeeded\n"}, ALIVE, JobState.SUCCEEDED),
        ({"start": START, "exit": "code=143\nstate=stopped\n"}, "", JobState.STOPPED),
        ({}, "made=990\n", JobState.STARTING),
        ({}, "made=900\n", JobState.LOST),
    ],
)
def test_states(files: dict[str, str], values: str, expected: JobState) -> None:
    assert state(scan(files=files, values=values)).state is expected


def test_another_hosts_job_in_a_shared_home_is_never_called_dead() -> None:
    job = state(scan(files={"start": START}, values=DEAD, record={"host_id": "M/other", "hostname": "other"}))
    assert job.state is JobState.UNKNOWN
    assert "other" in (job.reason or "")


def test_times_gpus_and_last_line() -> None:
    job = state(
        scan(
            files={"start": START, "tail": "a\r 50%\r\x1b[31m100% ü\x1b[0m\n\n"},
            values=ALIVE + "log_time=990\nlog_size=7\n",
        )
    )
    assert job.started == datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone.utc)
    assert (job.gpus, job.last_line, job.log_idle_s, job.log_size) == (("GPU-1",), "100% ü", 10.0, 7)


def test_a_folder_without_a_whole_record_is_no_job() -> None:
    for text in ("", "{", "[]", json.dumps({"id": "other"})):
        found = parse_scan(HEAD + f"\njob={ID}\nfile=job.json {len(text)}\n{text}\n".encode())
        assert judge(found.jobs[0], found, "gpu1") is None


def test_a_logs_tail_cannot_forge_a_job() -> None:
    forged = f"\njob=evil-0304-050607-00ff\nfile=exit {len(EXIT)}\n{EXIT}\n"
    found = scan(files={"start": START, "tail": forged}, values=ALIVE)
    assert [signs.id for signs in found.jobs] == [ID]
    assert state(found).state is JobState.RUNNING


@given(st.binary(max_size=400), st.integers(0, 600))
def test_damaged_answers_never_raise_and_never_end_a_job(junk: bytes, cut: int) -> None:
    whole = HEAD + f"\njob={ID}\n{ALIVE}file=start {len(START)}\n{START}\n".encode()
    found = parse_scan(whole[:cut] + junk)
    for signs in found.jobs:
        job = judge(signs, found, "gpu1")
        assert job is None or job.id == signs.id


@pytest.mark.parametrize(
    ("code", "words"),
    [(137, "SIGKILL"), (143, "SIGTERM"), (127, "no such program"), (1, "exit status 1"), (250, "exit status 250")],
)
def test_exit_statuses_in_words(code: int, words: str) -> None:
    assert words in exit_words(code)
