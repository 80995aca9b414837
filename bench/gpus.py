"""Reading many hosts' GPUs, against the same nvidia-smi line by parallel ssh: ``python -m bench.gpus`` (as root: it makes its own
hosts; ``python -m bench.gpus 8`` makes eight instead of 32).

  once      gpus --once over all hosts, against one ssh for each of them, side by side, running the main query
  dark      the same with 4 hosts that do not answer, against the connect time-out
  live      processor and memory of the live view at a refresh of 2 s, over 30 s
  refresh   one refresh of one host at 100 ms round trip
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from remoterun.host.remote import new_nonce
from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.nvidia import CORE
from tests.fleet.proxy import Proxy
from tests.fleet.yard import Yard, sweep

LINE = f"nvidia-smi --query-gpu={CORE} --format=csv,noheader,nounits"
TIMEOUT_S = 5
DARK = 4


def timed(action: Callable[[], object]) -> float:
    """Seconds that ``action`` takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def say(name: str, text: str, goal: str) -> None:
    """One line of the result."""
    print(f"{name:<36} {text:<50} goal {goal}", flush=True)


def once(client: Client, hosts: list[TestHost], rounds: int = 5) -> None:
    """Ours and parallel ssh in turn."""
    names = ",".join(host.name for host in hosts)
    loop = " & ".join(f"ssh -o ControlPath=none {host.name} '{LINE}'" for host in hosts) + " & wait"
    ours, theirs = [], []
    for _ in range(rounds + 1):
        ours.append(timed(lambda: client.run("gpus", "--once", "-H", names, check=True, timeout=120)))
        theirs.append(timed(lambda: client.command("sh", "-c", loop, check=True, timeout=120)))
    ratio = statistics.median(one / two for one, two in zip(ours[1:], theirs[1:], strict=True))
    text = f"{statistics.median(ours[1:]):.2f} s : {statistics.median(theirs[1:]):.2f} s, ratio {ratio:.2f}"
    say(f"gpus --once, {len(hosts)} hosts : parallel ssh", text, "<= 1.0")


def dark(client: Client, hosts: list[TestHost]) -> None:
    """Some hosts do not answer."""
    for host in hosts[:DARK]:
        host.cut()
    names = ",".join(host.name for host in hosts)
    seconds = timed(lambda: client.run("gpus", "--once", "-H", names, check=True, timeout=120))
    for host in hosts[:DARK]:
        host.restore()
    say(f"the same, {DARK} of them dark", f"{seconds:.2f} s, {seconds / TIMEOUT_S:.2f} connect time-outs", "<= 1.2")


def live(client: Client, hosts: list[TestHost], seconds: float = 30) -> None:
    """The view on a terminal of 200x60, measured by the kernel."""
    mark = new_nonce()
    client.env["BENCH_MARK"] = mark
    view = client.terminal("gpus", "-H", ",".join(host.name for host in hosts), columns=200, lines=60)
    view.wait_for(f"{len(hosts)} hosts  {8 * len(hosts)} GPUs", timeout=120)
    time.sleep(5)
    pid = _view_pid(mark)
    before, began = _cpu(pid), time.perf_counter()
    time.sleep(seconds)
    share = (_cpu(pid) - before) / (time.perf_counter() - began)
    memory = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    view.send("q")
    say("live view, 2 s", f"{100 * share:.0f} % of a core, {int(memory.split()[1]) / 1024:.0f} MiB", "<= 25 %, <= 150")


def _view_pid(mark: str) -> int:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if mark.encode() in (folder / "environ").read_bytes() and words[1:3] == [b"-m", b"remoterun"]:
                return int(folder.name)
        except OSError:
            continue
    raise RuntimeError("the view does not run")


def _cpu(pid: int) -> float:
    cells = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def _refreshes(host: TestHost) -> int:
    """How often the main query was put: once for each refresh."""
    return sum(call.startswith("--query-gpu=index,") for call in host.nvidia.calls())


def refresh(yard: Yard, host: TestHost) -> None:
    """Round trips and seconds of a refresh, through a proxy that delays."""
    client = Client(yard, "far")
    proxy = Proxy(host.address, host.port, 0.05)
    client.knows([host], via=proxy, name="far")
    process = subprocess.Popen(
        [sys.executable, "-m", "remoterun", "gpus", "-H", "far", "--json", "--watch", "--interval", "1"],
        env=client.env, cwd=client.project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    before = proxy.round_trips
    rounds = 20
    calls = _refreshes(host)
    for _ in range(rounds):
        process.stdout.readline()
    asked = _refreshes(host) - calls
    trips = (proxy.round_trips - before) / max(1.0, asked)
    process.terminate()
    process.wait()
    process.stdout.close()
    proxy.close()
    client.close()
    say("one refresh at 100 ms", f"{trips:.2f} round trips", "<= 1.5")


def main() -> None:
    """All of it."""
    sweep()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    yard = Yard()
    hosts: list[TestHost] = []
    try:
        with ThreadPoolExecutor(4) as pool:
            hosts = list(pool.map(lambda _: TestHost(yard, gpus=8), range(count)))
        client = Client(yard, "near")
        client.knows(hosts)
        once(client, hosts)
        live(client, hosts)
        refresh(yard, hosts[0])
        dark(client, hosts)
    finally:
        for host in hosts:
            host.close()
        yard.close()


if __name__ == "__main__":
    main()
