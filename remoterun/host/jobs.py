"""Jobs as their hosts' files and processes tell them. Pure: raw signs in, a judged :class:`JobStatus` out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from remoterun.model.job import JobState, JobStatus

# How long a job may be without a start record before its start has failed, in seconds.
STARTING_S = 60


@dataclass(frozen=True, slots=True)
class Signs:
    """What sh/jobs.sh says of one job: ``values`` of its lines, the bytes of its ``files``."""

    id: str
    values: Mapping[str, str]
    files: Mapping[str, bytes]

    def record(self, name: str) -> dict[str, str]:
        """A record file (lines of key=value); empty when it is not there."""
        lines = self.files.get(name, b"").decode("utf-8", "replace").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a host's jobs."""

    boot: str
    host_id: str
    now: int
    jobs: tuple[Signs, ...]


def parse_scan(output: bytes) -> Scan:
    """The answer of ``rr_scan`` or ``rr_show``. Truncated or odd parts are left out, never made up."""
    header: dict[str, str] = {}
    jobs: list[Signs] = []
    values, files = header, dict[str, bytes]()
    position = 0
    while position < len(output):
        end = output.find(b"\n", position)
        end = len(output) if end < 0 else end
        key, _, raw = output[position:end].partition(b"=")
        value = raw.decode("utf-8", "replace")
        position = end + 1
        if key == b"job":
            values, files = {}, {}
            jobs.append(Signs(value, values, files))
        elif key == b"file":
            name, _, size = value.partition(" ")
            length = int(size) if size.isdigit() else 0
            files[name] = output[position : position + length]
            position += length + 1
        elif key:
            values[key.decode("ascii", "replace")] = value
    return Scan(
        boot=header.get("boot", ""),
        host_id=header.get("host", ""),
        now=_int(header.get("now")) or 0,
        jobs=tuple(jobs),
    )


def judge(signs: Signs, scan: Scan, host: str) -> JobStatus | None:
    """The job that ``signs`` speak of, or None when its folder is no whole job's. ``host``: inventory name."""
    try:
        record = json.loads(signs.files["job.json"])
    except (KeyError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("id") != signs.id:
        return None
    state, reason, code = _state(signs, scan, record)
    exit_record, start = signs.record("exit"), signs.record("start")
    tail = signs.files.get("tail", b"")
    log_time = _int(signs.values.get("log_time"))
    live = not state.ended
    return JobStatus(
        id=signs.id,
        name=str(record.get("name") or signs.id),
        host=host,
        state=state,
        nodes=int(record.get("nodes") or 1),
        reason=reason,
        exit_code=code,
        gpus=_gpus(signs, record),
        created=parse_time(record.get("created")),
        started=parse_time(start.get("started")),
        ended=parse_time(exit_record.get("ended")),
        attempt=_attempt(signs),
        runtime=record.get("runtime"),
        last_line=_last_line(tail),
        log_idle_s=float(max(0, scan.now - log_time)) if live and log_time and scan.now else None,
        stalled_s=_since(signs.record("stall").get("since"), scan.now) if state is JobState.RUNNING else None,
        log_size=_int(signs.values.get("log_size")),
        stop=signs.record("stop"),
        record=record,
    )


def _state(signs: Signs, scan: Scan, record: Mapping[str, object]) -> tuple[JobState, str | None, int | None]:
    """State, reason and exit status. The exit record wins over every other sign."""
    exit_record, start = signs.record("exit"), signs.record("start")
    if exit_record:
        code = _int(exit_record.get("code"))
        state = JobState(exit_record.get("state", "failed"))
        return state, _why_ended(state, code, signs.record("stop"), exit_record, start), code
    if scan.host_id and record.get("host_id") not in (None, scan.host_id):
        return JobState.UNKNOWN, f"it runs on {record.get('hostname')}, which shares this home folder", None
    queued = signs.record("queued")
    if not start and queued:
        if scan.boot and queued.get("boot") not in ("", None, scan.boot):
            return JobState.LOST, f"the host was rebooted while it waited for GPUs; remoterun rerun {signs.id}", None
        if signs.values.get("waiter_is") == "alive":
            return JobState.QUEUED, queued.get("why") or None, None
        return JobState.LOST, f"killed while it waited for GPUs; remoterun rerun {signs.id}", None
    if not start:
        made = _int(signs.values.get("made"))
        if made is not None and scan.now and scan.now - made > STARTING_S:
            return JobState.LOST, "its supervisor never started", None
        return JobState.STARTING, None, None
    if scan.boot and start.get("boot") and start["boot"] != scan.boot:
        return JobState.LOST, "the host was rebooted", None
    pause = signs.record("pause")
    if signs.values.get("supervisor_is") == "alive":
        if signs.record("stop"):
            return JobState.RUNNING, "stopping", None
        if pause:
            ended = f"attempt {_attempt(signs)} ended with exit status {pause.get('code')}"
            return JobState.STARTING, f"{ended}; attempt {pause.get('attempt')} begins soon", None
        return JobState.RUNNING, None, None
    if signs.values.get("main_is") == "alive":
        return JobState.RUNNING, "its supervisor was killed: the exit status will not be recorded", None
    by_kernel = oom_words(start, signs.values.get("oom_kills_now"))
    return (
        JobState.LOST,
        by_kernel or "its supervisor and its first process were killed from outside (SIGKILL)",
        None,
    )


def _gpus(signs: Signs, record: Mapping[str, object]) -> tuple[str, ...]:
    """By UUID: as planned, or as the host chose them for a job that waited."""
    planned = record.get("gpus")
    if isinstance(planned, list) and planned:
        return tuple(str(uuid) for uuid in planned)
    chosen = signs.files.get("gpus", b"").decode("ascii", "replace").strip() if signs.record("start") else ""
    return tuple(chosen.split(",")) if chosen else ()


def _attempt(signs: Signs) -> int:
    """The number of the newest attempt; 1 where none has begun."""
    return _int(signs.record("main").get("attempt")) or 1


def _since(time: str | None, now: int) -> float | None:
    """Seconds from an epoch time of the host to its now."""
    then = _int(time)
    return float(max(0, now - then)) if then is not None and now else None


def oom_words(start: Mapping[str, str], oom_kills: str | None) -> str | None:
    """What the kernel's count of processes that it ended for want of memory says of the time since ``start``."""
    before, after = _int(start.get("oom_kills")), _int(oom_kills)
    if before is None or after is None or after <= before:
        return None
    count = after - before
    ended = "a process" if count == 1 else f"{count} processes"
    return f"killed while the kernel, out of memory, ended {ended} on this host"


def _why_ended(
    state: JobState, code: int | None, stop: Mapping[str, str], end: Mapping[str, str], start: Mapping[str, str]
) -> str | None:
    if state is JobState.STOPPED:
        killed = _int(stop.get("killed"))
        forced = f", {killed} killed after {stop.get('grace')} s" if killed else ""
        why = f"{stop['why']}; " if stop.get("why") else ""
        return f"{why}stopped with SIG{stop.get('signal', 'TERM')}{forced}"
    if code is None or code == 0:
        return None
    words = exit_words(code)
    rank_code = _int(end.get("rank_code"))
    if rank_code is not None and rank_code != code:
        words += f"; the rank that failed first: {exit_words(rank_code)}"
    if {code, rank_code} & {128 + 9, 128 + 7} and (by_kernel := oom_words(start, end.get("oom_kills"))):
        words += f" ({by_kernel})"
    free = _int(end.get("free_kib"))
    if free is not None and free < 1024:
        words += f"; the disk of its folder was full ({free} KiB left)"
    return words


def exit_words(code: int) -> str:
    """An exit status in words."""
    if code == 126:
        return "exit status 126: could not be started (no permission, no such folder, or --setup failed)"
    if code == 127:
        return "exit status 127: could not be started (no such program)"
    if 128 < code < 128 + 65:
        from signal import Signals

        try:
            return f"ended by signal {Signals(code - 128).name}"
        except ValueError:
            return f"ended by signal {code - 128}"
    return f"exit status {code}"


def _last_line(tail: bytes) -> str | None:
    """The last line with anything on it, with control codes taken out."""
    text = tail.decode("utf-8", "replace")
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]", "", text)
    for line in reversed(re.split(r"[\r\n]+", text)):
        shown = "".join(sign for sign in line if sign.isprintable()).strip()
        if shown:
            return shown
    return None


def parse_time(text: object) -> datetime | None:
    """An ISO 8601 UTC time as the host writes it."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def _int(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d{1,18}", text) else None
