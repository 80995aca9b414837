"""The main road's speed against its peers, in one run: ``python -m bench.main_road`` (as root: it makes its own hosts).

Prints the median of each pair and their ratio:
  help      remoterun --help against python -c pass
  launch    launch with nothing to send, to the job's first line, at 100 ms round trip, against rsync + ssh by hand,
            without and with a warm ControlMaster; and the round trips that the proxy counted
  ps        ps over 16 hosts against ssh to one of them
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.proxy import Proxy
from tests.fleet.yard import Yard, sweep

ROUND_TRIP_S = 0.1
FILES = 200


def timed(action: Callable[[], object]) -> float:
    """Seconds that ``action`` takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def pairs(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> tuple[float, float, float]:
    """Medians of both, and of the ratios round by round; the first round is not counted."""
    found = [(ours(), theirs()) for _ in range(rounds + 1)][1:]
    return (
        statistics.median(one for one, _ in found),
        statistics.median(two for _, two in found),
        statistics.median(one / two for one, two in found),
    )


def report(name: str, measured: tuple[float, float, float], goal: str) -> None:
    """One line of the table."""
    ours, theirs, ratio = measured
    print(f"{name:<44} {ours * 1000:8.0f} ms {theirs * 1000:8.0f} ms   ratio {ratio:5.2f}   goal {goal}", flush=True)


def bench_help(client: Client) -> None:
    """``--help`` against an interpreter that does nothing."""
    script = Path(sys.executable).with_name("remoterun")

    def ours() -> float:
        return timed(lambda: subprocess.run([script, "--help"], env=client.env, capture_output=True, check=True))

    def theirs() -> float:
        return timed(lambda: subprocess.run([sys.executable, "-c", "pass"], env=client.env, check=True))

    report("--help : python -c pass", pairs(ours, theirs, 20), "<= 6")
    probe = "import sys, remoterun.cli.main as m; m.run(['--help']); print(sorted({'fabric','paramiko','rich','textual','yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], env=client.env, capture_output=True, text=True, check=True)
    print(f"{'heavy imports on the way to --help':<44} {done.stdout.splitlines()[-1]}")


def first_line(client: Client, *argv: str) -> float:
    """Seconds until a command's first line of output; then it is left to end by itself."""
    start = time.perf_counter()
    process = subprocess.Popen(
        argv, env=client.env, cwd=client.project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    seconds = time.perf_counter() - start
    assert line == b"first\n", line
    process.stdout.read()
    process.wait()
    return seconds


def bench_launch(yard: Yard, host: TestHost) -> None:
    """Launch through a proxy that delays."""
    client = Client(yard, "far")
    proxy = Proxy(host.address, host.port, ROUND_TRIP_S / 2)
    client.knows([host], via=proxy)
    for number in range(FILES):
        client.script(f"src/f{number}.py", f"x = {number}\n")
    client.script("b.sh", "#!/bin/sh\necho first\n")
    launch = (sys.executable, "-m", "remoterun", "launch", "-H", host.name, "b.sh")
    first_line(client, *launch)
    ssh = "ssh -o ControlPath=none"
    plain = f"rsync -a -e '{ssh}' ./ {host.name}:by-hand/ && {ssh} {host.name} 'cd by-hand && exec ./b.sh'"
    control = client.folder / "c"
    warm = f"rsync -a -e 'ssh -o ControlPath={control}' ./ {host.name}:by-hand/ && ssh -o ControlPath={control} {host.name} 'cd by-hand && exec ./b.sh'"
    master = subprocess.Popen(
        ["ssh", "-N", "-M", "-o", f"ControlPath={control}", host.name], env=client.env, stderr=subprocess.DEVNULL
    )
    while not control.exists():
        time.sleep(0.05)
    proxy.reset()
    first_line(client, *launch)
    trips = proxy.round_trips
    report(
        "launch : rsync + ssh by hand",
        pairs(lambda: first_line(client, *launch), lambda: first_line(client, "sh", "-c", plain), 5),
        "<= 0.6",
    )
    report(
        "launch : rsync + ssh, warm ControlMaster",
        pairs(lambda: first_line(client, *launch), lambda: first_line(client, "sh", "-c", warm), 5),
        "<= 1.2",
    )
    print(f"{'round trips of the launch':<44} {trips:8d}                                 goal <= 20")
    master.terminate()
    master.wait()
    proxy.close()
    client.close()


def bench_ps(yard: Yard, hosts: list[TestHost]) -> None:
    """``ps`` over all hosts, each with some jobs."""
    client = Client(yard, "near")
    client.knows(hosts)
    names = ",".join(host.name for host in hosts)
    for host in hosts:
        client.run("launch", "-d", "-H", host.name, "--", "true", check=True)

    def ours() -> float:
        return timed(lambda: client.run("ps", "-H", names, check=True))

    def theirs() -> float:
        return timed(lambda: subprocess.run(["ssh", hosts[0].name, "true"], env=client.env, check=True))

    report(f"ps over {len(hosts)} hosts : ssh to one", pairs(ours, theirs, 7), "<= 4")
    client.close()


def main() -> None:
    """All of it."""
    sweep()
    yard = Yard()
    hosts: list[TestHost] = []
    try:
        hosts = [TestHost(yard) for _ in range(16)]
        bench_help(Client(yard, "help"))
        bench_launch(yard, hosts[0])
        bench_ps(yard, hosts)
    finally:
        for host in hosts:
            host.close()
        yard.close()


if __name__ == "__main__":
    main()
