"""Following a log, and what a job costs its host while it idles: ``python -m bench.logs`` (as root: it makes its own host).

latency   a line from the job's write to our stdout, against ssh HOST tail -F: median and 99th percentile
burst     1 GB written at once, against the same tail -F into cat: rate; and our memory
idle      processor time and memory of supervisor, watcher and view for a job that sleeps
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.proxy import Proxy
from tests.fleet.yard import Yard, sweep

LINES = 300
ROUND_TRIP_S = 0.02
BURST = 1 << 30
IDLE_S = 120
TICKS = os.sysconf("SC_CLK_TCK")


def delays(argv: Sequence[str], client: Client, found: list[float]) -> subprocess.Popen[bytes]:
    """Read lines that hold the time of their writing; both ends have one clock."""
    process = subprocess.Popen(
        argv, env=client.env, cwd=client.project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )

    def read() -> None:
        assert process.stdout is not None
        found.extend(time.time() - float(line.split()[0]) for line in process.stdout)

    threading.Thread(target=read, daemon=True).start()
    return process


def bench_latency(client: Client, host: TestHost, round_trip: str) -> None:
    """Both read the same job's log side by side, over a link with this round trip."""
    client.script(
        "ticks.py",
        f"import time\nprint(time.time(), flush=True)\ntime.sleep(4)\nfor _ in range({LINES}):\n    print(time.time(), flush=True)\n    time.sleep(0.05)\n",
    )
    job = client.run("launch", "-d", "-H", host.name, "--", "python3", "-u", "ticks.py", check=True).stdout.strip()
    ours: list[float] = []
    theirs: list[float] = []
    log = f"{host.home}/.remoterun/jobs/{job}/log"
    readers = [
        delays([sys.executable, "-m", "remoterun", "logs", "-f", job], client, ours),
        delays([str(client.bin / "ssh"), host.name, f"tail -n +1 -F {log}"], client, theirs),
    ]
    readers[0].wait()
    time.sleep(1)
    readers[1].terminate()
    # The lines that were there before both readers stood are not counted.
    one, two = sorted(ours[-LINES + 5 :]), sorted(theirs[-LINES + 5 :])
    for name, at in (("median", 0.5), ("99th percentile", 0.99)):
        mine, other = one[int(at * len(one))], two[int(at * len(two))]
        print(
            f"line to screen at {round_trip}, {name:<20} {mine * 1000:8.2f} ms {other * 1000:8.2f} ms   ratio {mine / other:5.2f}   goal <= 1.1",
            flush=True,
        )


def peak_kib(pid: int) -> int:
    """The most memory a process has held so far (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0


def bench_burst(client: Client, host: TestHost) -> None:
    """The job writes when both may begin; each reads it alone."""
    line = "x" * 99
    client.script("burst.sh", f"#!/bin/sh\nyes {line} | head -c {BURST}\n")
    job = client.run("launch", "-d", "-H", host.name, "burst.sh", check=True).stdout.strip()
    client.run("wait", job, check=True, timeout=300)
    log = f"{host.home}/.remoterun/jobs/{job}/log"
    rates: dict[str, float] = {}
    peak = 0
    for name, argv in (
        ("theirs", [str(client.bin / "ssh"), host.name, f"tail -c +1 -F {log}"]),
        ("ours", [sys.executable, "-m", "remoterun", "logs", "-f", job]),
    ):
        start = time.perf_counter()
        process = subprocess.Popen(
            argv, env=client.env, cwd=client.project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        got = 0
        while got < BURST:
            got += len(os.read(process.stdout.fileno(), 1 << 20))
        rates[name] = BURST / (time.perf_counter() - start) / 1e6
        if name == "ours":
            peak = peak_kib(process.pid)
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        process.wait()
    print(
        f"burst of 1 GiB {'':<30} {rates['ours']:6.0f} MB/s {rates['theirs']:6.0f} MB/s   ratio {rates['ours'] / rates['theirs']:5.2f}   goal >= 0.5"
    )
    print(f"our memory {'':<34} {peak / 1024:6.0f} MiB   goal <= 80", flush=True)


def used(pids: Sequence[int]) -> tuple[float, float]:
    """Seconds of processor time (with ended children's) and MiB of memory of their own."""
    ticks, kib = 0, 0
    for pid in pids:
        if not Path(f"/proc/{pid}").exists():
            continue
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        ticks += sum(int(fields[at]) for at in (11, 12, 13, 14))
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                kib += int(line.split()[1])
    return ticks / TICKS, kib / 1024


def bench_idle(client: Client, host: TestHost) -> None:
    """All of ours that a sleeping job with a GPU has beside it; nvidia-smi's own time is not in it (a shell here)."""
    client.run("launch", "-d", "-H", host.name, "--gpus", "1", "--", "sleep", "10000", check=True)
    time.sleep(3)
    mine = {
        pid: words
        for pid, words in host.login_processes().items()
        if any(part in words for part in ("supervise.sh", "view.sh", "tmux -u", "tail -n"))
    }
    # Those that are there for as long as the job: the short ones are counted as their children.
    time.sleep(12)
    mine = {pid: words for pid, words in mine.items() if Path(f"/proc/{pid}").exists()}
    before, _ = used(list(mine))
    time.sleep(IDLE_S)
    after, memory = used(list(mine))
    share = (after - before) / IDLE_S * 100
    print(f"idle job: processor {'':<25} {share:8.3f} % of a core   goal <= 0.2")
    supervisors = [pid for pid, words in mine.items() if "supervise.sh" in words]
    print(
        f"idle job: memory of supervisor and watcher {used(supervisors)[1]:11.1f} MiB; with tmux and its view {memory:.1f} MiB   goal <= 6"
    )
    client.run("stop", check=True)


def main() -> None:
    """All of them, one after the other."""
    sweep()
    yard = Yard()
    client = Client(yard)
    host = TestHost(yard, number=yard.next(), gpus=1)
    try:
        client.knows([host])
        bench_latency(client, host, "0 ms")
        far = Client(yard, "far")
        slow = Proxy(host.address, host.port, ROUND_TRIP_S / 2)
        far.knows([host], via=slow)
        bench_latency(far, host, f"{ROUND_TRIP_S * 1000:.0f} ms")
        slow.close()
        far.close()
        bench_burst(client, host)
        bench_idle(client, host)
    finally:
        client.close()
        host.close()
        yard.close()


if __name__ == "__main__":
    main()
