"""What goes on on the host while nobody looks: attempts, limits, stalls, news, terminals, post-mortems."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from remoterun import Command, Fleet, Guards, JobSpec, Restart
from tests.conftest import require
from tests.fleet.client import Client
from tests.fleet.host import TestHost
from tests.fleet.nvidia import cards

pytestmark = pytest.mark.fleet


def launch(client: Client, host: TestHost, *arguments: str) -> str:
    return client.run("launch", "-d", "-H", host.name, *arguments, check=True).stdout.strip()


def status(client: Client, job: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.run("status", job, "--json", check=True).stdout)["job"]
    return found


def until(check: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def file(host: TestHost, job: str, name: str) -> str:
    return host.sh(f"cat .remoterun/jobs/{job}/{name}", check=False).stdout


def test_a_failed_job_is_begun_again_with_its_newest_checkpoint(host: TestHost, client: Client) -> None:
    client.script(
        "sub/again.sh",
        '#!/bin/sh\necho "attempt $REMOTERUN_ATTEMPT from ${REMOTERUN_CHECKPOINT#*/jobs/*/}"\nmkdir -p checkpoints "$REMOTERUN_OUT/x"\n'
        'n=$REMOTERUN_ATTEMPT; : >checkpoints/step-$n; : >checkpoints/step-9.tmp\n[ "$n" = 3 ] || { printf open; exit 9; }\n',
    )
    done = client.run("launch", "-H", host.name, "--restart", "on-failure:5", "--restart-delay", "1s", "sub/again.sh")
    job = json.loads(client.run("ps", "--json").stdout)["jobs"][0]
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "attempt 1 from ",
        "open",
        "-- remoterun: attempt 1 ended with exit status 9; attempt 2 begins in 1 s",
        "attempt 2 from code/checkpoints/step-1",
        "open",
        "-- remoterun: attempt 2 ended with exit status 9; attempt 3 begins in 2 s",
        "attempt 3 from code/checkpoints/step-2",
    ]
    assert (job["state"], job["attempt"]) == ("succeeded", 3)
    # Each attempt's own output can be had alone.
    assert (
        client.run("logs", job["id"], "--attempt", "2", check=True).stdout.splitlines()[0].startswith("attempt 2 from")
    )
    assert client.run("logs", job["id"], "--attempt", "2", check=True).stdout.splitlines()[1:] == ["open"]


def test_no_attempt_follows_where_none_was_asked_for(host: TestHost, client: Client) -> None:
    at_most = launch(client, host, "--restart", "on-failure:1", "--restart-delay", "1s", "--", "sh", "-c", "exit 4")
    until(lambda: status(client, at_most)["state"] == "failed")
    assert (status(client, at_most)["attempt"], status(client, at_most)["exit_code"]) == (2, 4)
    other = ("--restart", "on-failure", "--restart-delay", "1s", "--restart-exit-codes", "3,5")
    assert client.run("launch", "-H", host.name, *other, "--", "sh", "-c", "exit 4").returncode == 4
    # What could not be started at all is not tried for ever.
    assert client.run("launch", "-H", host.name, "--restart", "on-failure", "--", "no-such-program").returncode == 127


def test_a_stop_between_two_attempts_is_a_stop(host: TestHost, client: Client) -> None:
    job = launch(client, host, "--restart", "on-failure", "--restart-delay", "1h", "--", "sh", "-c", "exit 4")
    until(lambda: status(client, job)["state"] == "starting")
    assert "attempt 2" in status(client, job)["reason"]
    assert status(client, job)["exit_code"] is None
    began = time.monotonic()
    client.run("stop", job, check=True)
    assert time.monotonic() - began < 20
    assert status(client, job)["state"] == "stopped"


def test_time_limits_let_a_job_save(host: TestHost, client: Client) -> None:
    client.script(
        "save.sh", "#!/bin/sh\ntrap 'sleep 1; echo saved; exit 0' TERM\necho go\nwhile :; do sleep 0.1; done\n"
    )
    done = client.run("launch", "-H", host.name, "--timeout", "2s", "save.sh")
    job = json.loads(client.run("ps", "--json").stdout)["jobs"][0]
    assert "saved" in done.stdout.splitlines()
    assert job["state"] == "stopped"
    assert "time limit of 2s" in job["reason"]


def test_idle_gpus_end_a_job_and_busy_or_unknown_ones_do_not(host: TestHost, client: Client) -> None:
    shown = cards(2, host.name)
    host.nvidia.show(shown)
    refused = client.run("launch", "-H", host.name, "--gpus", "none", "--stop-when-idle", "4s", "--", "sleep", "60")
    assert refused.returncode == 2
    assert "no GPU" in refused.stderr
    idle = launch(client, host, "--gpus", "1", "--stop-when-idle", "4s", "--", "sleep", "60")
    until(lambda: status(client, idle)["state"] == "stopped", 25)
    assert "idle for 4s" in status(client, idle)["reason"]
    # Nothing is known of it soon after its start. Unknown is never idle.
    busy = launch(client, host, "--gpus", "1", "--stop-when-idle", "10s", "--", "sleep", "600")
    host.nvidia.fail(9, "the driver gives no answer")
    time.sleep(14)
    assert status(client, busy)["state"] == "running"
    host.nvidia.show(shown)
    client.run("stop", busy, check=True)


def test_a_stall_is_shown_told_and_looked_into(host: TestHost, client: Client) -> None:
    host.nvidia.show(cards(1, host.name))
    job = launch(
        client, host, "--stall-after", "4s", "--notify", 'cat >>told; echo "$REMOTERUN_EVENT $REMOTERUN_STATE" >>told',
        "--", "python3", "-c", "import time\ndef stuck():\n    time.sleep(60)\nstuck()",
    )  # fmt: skip
    until(lambda: status(client, job)["stalled_s"] is not None)
    assert "stalled" in client.run("ps", check=True).stdout
    until(lambda: "stall stalled" in file(host, job, "told"))
    assert "python3" in file(host, job, "stacks")
    client.run("stop", job, check=True)
    until(lambda: "end stopped" in file(host, job, "told"))
    assert file(host, job, "told").count("end stopped") == 1


def test_news_reach_a_web_address_that_no_command_line_shows(host: TestHost, client: Client) -> None:
    require("curl")
    client.script(
        "server.py",
        "import http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        text = self.rfile.read(int(self.headers['Content-Length'])).decode()\n"
        "        print(self.path, self.headers.get('Title', '-'), text, flush=True)\n"
        "        self.send_response(200); self.end_headers()\n"
        "    def log_message(self, *a): pass\n"
        "http.server.HTTPServer(('127.0.0.1', 8123), H).serve_forever()\n",
    )
    server = launch(client, host, "--name", "server", "--", "python3", "server.py")
    until(lambda: host.sh("cat /proc/net/tcp").stdout.count(":1FBB") > 0)
    job = launch(
        client, host, "--name", "told", "--notify", "http://127.0.0.1:8123/hook?token=s3cret", "--notify", "ntfy:http://127.0.0.1:8123/topic",
        "--", "sh", "-c", "printf 'it said \"no\"\\n'; sleep 1; exit 3",
    )  # fmt: skip
    until(lambda: "/topic" in file(host, server, "log"))
    said = file(host, server, "log").splitlines()
    body = json.loads(next(line for line in said if line.startswith("/hook?token=s3cret")).split(" ", 2)[2])
    assert (body["job"], body["event"], body["state"], body["exit_code"]) == (job, "end", "failed", 3)
    assert 'it said "no"' in body["text"]
    assert any(line.startswith(f"/topic {job} failed") for line in said)
    assert "s3cret" not in json.dumps(status(client, job))
    assert (
        "s3cret"
        not in client.run("launch", "-H", host.name, "--dry-run", "--notify", "http://x/s3cret", "--", "true").stdout
    )
    client.run("stop", server, check=True)


def test_a_terminal_of_its_own_outlives_the_tmux_server(host: TestHost, client: Client) -> None:
    client.script(
        "ask.py",
        "import sys\nprint(sys.stdin.isatty())\nprint('hi', input('name? '))\nimport pdb; pdb.set_trace()\nprint('after')\n",
    )
    screen = client.terminal("launch", "-H", host.name, "--tty", "--", "python3", "ask.py")
    screen.wait_for("name?")
    screen.send("Ann", "Enter")
    screen.wait_for("(Pdb)")
    host.sh("tmux -S .remoterun/tmux-*/socket kill-server")
    screen.wait_for("EXIT=")
    job = json.loads(client.run("ps", "--json").stdout)["jobs"][0]
    assert job["state"] == "running"
    again = client.terminal("attach", job["id"])
    again.wait_for("(Pdb)")
    again.send("p 40+2", "Enter")
    again.wait_for("42")
    again.send("c", "Enter")
    assert client.run("wait", job["id"]).returncode == 0
    assert [line.strip() for line in client.run("logs", job["id"]).stdout.splitlines()][:2] == ["True", "name? Ann"]


def test_why_names_the_rank_and_its_traceback(torch_host: TestHost, client: Client) -> None:
    host = torch_host
    client.script(
        "bad.py",
        "import os, time\nif os.environ['RANK'] == '1':\n    raise RuntimeError('CUDA out of memory. Tried to allocate')\ntime.sleep(30)\n",
    )
    done = client.run("launch", "-H", host.name, "--python", sys.executable, "--nproc-per-node", "2", "bad.py")
    assert done.returncode == 1
    found = json.loads(client.run("why", "--json", check=True).stdout)
    assert found["rank"] == 1
    assert found["traceback"].splitlines()[-1].startswith("RuntimeError: CUDA out of memory")
    assert "memory was full" in found["findings"][0]["cause"]
    assert "RuntimeError" in client.run("why", check=True).stdout


def test_the_exit_status_of_a_rank_decides_under_torchrun(torch_host: TestHost, client: Client) -> None:
    host = torch_host
    client.script("five.py", "import os, sys\nsys.exit(5 if os.environ['REMOTERUN_ATTEMPT'] == '1' else 6)\n")
    done = client.run(
        "launch", "-H", host.name, "--python", sys.executable, "--restart", "on-failure", "--restart-exit-codes", "5",
        "--restart-delay", "1s", "five.py", timeout=200,
    )  # fmt: skip
    assert done.returncode == 1
    job = json.loads(client.run("ps", "--json").stdout)["jobs"][0]
    assert job["attempt"] == 2
    assert "exit status 6" in job["reason"]


def test_stacks_show_where_python_is(torch_host: TestHost, client: Client) -> None:
    require("py-spy")
    host = torch_host
    client.script("stuck.py", "import time\ndef stuck_here():\n    time.sleep(60)\nstuck_here()\n")
    job = launch(client, host, "--", sys.executable, "stuck.py")
    until(lambda: "stuck_here" in client.run("stacks", job).stdout)
    client.run("stop", job, check=True)
    assert client.run("stacks", job).returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_does_not_swallow_the_end(fleet: Callable[..., list[TestHost]], client: Client) -> None:
    small = client.folder / "small"
    small.mkdir()
    # Before the host is made: it has mounts of its own from then on.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "none", str(small)], check=True)
    try:
        host = fleet(1)[0]
        client.knows([host])
        client.script("hosts.yaml", f"hosts:\n  {host.name}: {{workdir: {small}/w}}\n")
        done = client.run("launch", "-H", host.name, "--", "sh", "-c", "echo begun; cat /dev/zero >fill; exit 3")
        assert done.returncode == 3, done.stderr
        assert "disk" in json.loads(client.run("ps", "--json").stdout)["jobs"][0]["reason"]
        assert "disk of its folder is full" in client.run("why", check=True).stdout
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_rerun_is_the_old_snapshot_command_and_secrets(host: TestHost, client: Client) -> None:
    body = '#!/bin/sh\necho "old code, $1, $SECRET, ${REMOTERUN_CHECKPOINT#*/jobs/*/}"\n'
    client.script("sub/a.sh", body + 'mkdir -p "$REMOTERUN_OUT/checkpoints/step-7"\n')
    client.script("env.txt", "SECRET=it's $hidden\n")
    client.project = client.project / "sub"
    first = launch(client, host, "--env-file", "../env.txt", "--name", "One", "a.sh", "a b")
    client.script("a.sh", "#!/bin/sh\necho new code\n")
    again = client.run("rerun", first, check=True)
    assert again.stdout == "old code, a b, it's $hidden, \n"
    assert (
        client.run("rerun", "One", "-e", "SECRET=other", "--name", "two", check=True).stdout.split(", ")[2] == "other"
    )
    job = status(client, "two")
    assert job["plan"]["rerun_of"].startswith("one-")
    assert "hidden" not in json.dumps(job)
    # From the checkpoint of the one that is named, also when it was itself resumed and has saved nothing.
    client.run("rerun", "--resume", first, "-d", "--name", "three", check=True)
    until(lambda: status(client, "three")["state"] == "succeeded")
    assert client.run("logs", "three").stdout == "old code, a b, it's $hidden, out/checkpoints/step-7\n"
    host.sh(f"rm -r .remoterun/jobs/{status(client, 'three')['id']}/out/checkpoints")
    assert client.run("rerun", "--resume", "three").stdout == "old code, a b, it's $hidden, out/checkpoints/step-7\n"


def test_rerun_without_checkpoint_or_snapshot_makes_no_job(host: TestHost, client: Client) -> None:
    client.script("a.sh", "#!/bin/sh\necho ran\n")
    job = launch(client, host, "a.sh")
    done = client.run("rerun", "--resume", job)
    assert done.returncode == 2
    assert "--checkpoint" in done.stderr
    host.sh("rm -r .remoterun/trees")
    done = client.run("rerun", job)
    assert done.returncode == 255
    assert "launch it anew" in done.stderr
    assert len(json.loads(client.run("ps", "--json").stdout)["jobs"]) == 1
    assert host.sh("ls -A .remoterun/jobs").stdout.split() == [job]


def test_a_job_that_only_survived_a_reboot_as_files_goes_on_in_one_command(host: TestHost, client: Client) -> None:
    client.script(
        "t.sh", '#!/bin/sh\necho "from ${REMOTERUN_CHECKPOINT##*/}"\n[ -z "$REMOTERUN_CHECKPOINT" ] || exit 0\n'
        'mkdir -p "$REMOTERUN_OUT/checkpoints/step-5"\nexec sleep 1000\n',
    )  # fmt: skip
    job = launch(client, host, "t.sh")
    until(lambda: "from" in file(host, job, "log"))
    host.reboot()
    found = status(client, job)
    assert (found["state"], found["reason"]) == ("lost", "the host was rebooted")
    assert client.run("rerun", "--resume", check=True).stdout == "from step-5\n"


def test_parts_of_a_log(host: TestHost, client: Client) -> None:
    client.script(
        "l.sh", "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $n; sleep 0.7; done\nprintf 'no end'\n"
    )
    # A stall of four seconds makes the watcher look every second.
    job = launch(client, host, "--stall-after", "4s", "l.sh")
    until(lambda: "line 9" in file(host, job, "log"))
    moment = datetime.now().isoformat()
    followed = client.run("logs", "-f", "--grep", "line [2-4]|end", job, check=True)
    assert followed.stdout == "line 2\nline 3\nline 4\nno end\n"
    assert client.run("logs", "--grep", "line [2-4]|end", "-n", "2", job, check=True).stdout == "line 4\nno end\n"
    lines = client.run("logs", "--since", moment, job, check=True).stdout.splitlines()
    assert lines[-4:] == ["line 10", "line 11", "line 12", "no end"]
    assert len(lines) < 12
    assert client.run("logs", "--since", "0.5h", job, check=True).stdout.count("line") == 12
    assert len(client.run("logs", "--since", "2020-01-01", job, check=True).stdout.splitlines()) == 13
    for wrong in (("--grep", "("), ("--since", "soon"), ("--attempt", "2"), ("--rank", "0", "-f")):
        assert client.run("logs", job, *wrong).returncode == 2, wrong


def test_a_log_that_was_cut_short_is_noticed(host: TestHost, client: Client) -> None:
    client.script(
        "l.sh",
        "#!/bin/sh\nseq 1000\nwhile [ ! -e go ]; do sleep 0.2; done\necho after\nwhile [ ! -e end ]; do sleep 0.2; done\n",
    )
    job = launch(client, host, "l.sh")
    until(lambda: "1000" in file(host, job, "log"))
    follower = client.start("logs", "-f", job)
    assert follower.stdout is not None
    while follower.stdout.readline() != b"1000\n":
        pass
    host.sh(f": >.remoterun/jobs/{job}/log")
    host.cut()
    for pid in host.sshd_sessions():
        host.kill(pid)
    host.sh(f": >.remoterun/jobs/{job}/code/go")
    until(lambda: "after" in file(host, job, "log"))
    host.restore()
    assert follower.stdout.readline() == b"after\n"
    host.sh(f": >.remoterun/jobs/{job}/code/end")
    out, err = follower.communicate(timeout=60)
    assert out == b""
    assert b"cut short" in err


def test_why_knows_of_a_gpu_that_is_gone(host: TestHost, client: Client) -> None:
    shown = cards(2, host.name)
    host.nvidia.show(shown)
    job = launch(client, host, "--gpus", "2", "--", "sleep", "600")
    pid = int(file(host, job, "main").split("main=")[1].split()[0])
    host.nvidia.show(shown[:1])
    host.kill(pid)
    until(lambda: status(client, job)["state"] == "failed")
    found = json.loads(client.run("why", job, "--json", check=True).stdout)
    assert found["findings"][0]["cause"] == f"GPU 1 ({shown[1].uuid}) is no longer there"
    assert any("SIGKILL" in finding["cause"] for finding in found["findings"])


def test_from_python_everything_that_the_command_line_can(
    host: TestHost, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.use(monkeypatch)
    fleet = Fleet.load()
    command = Command("plain", "sh", ("-c", "echo $REMOTERUN_ATTEMPT $X; [ $REMOTERUN_ATTEMPT = 2 ]"))
    spec = JobSpec("api", command, env={"X": "it's"}, guards=Guards(restart=Restart(most=3, delay_s=1), timeout_s=60))
    job = fleet.launch_spec(spec, hosts=[host.name])
    assert job.wait().attempt == 2
    assert b"".join(job.logs()).splitlines()[-1] == b"2 it's"
    assert job.rerun().wait().exit_code == 0
    assert [finding.cause for finding in job.why().findings] == []


def test_status_shows_what_the_gpus_did_and_the_loss(host: TestHost, client: Client) -> None:
    shown = cards(2, host.name)
    host.nvidia.show(shown)
    lines = "".join(f'{{"step": {n}, "loss": {5 - n}}}\\n' for n in range(5))
    script = f"printf '{lines}' >\"$REMOTERUN_OUT/metrics.jsonl\"; sleep 600"
    job = launch(client, host, "--gpus", "2", "--stall-after", "4s", "--", "sh", "-c", script)
    host.nvidia.show([replace(card, utilization="60") for card in shown])
    until(lambda: "60" in file(host, job, "gpu.csv"))
    history = status(client, job)["history"]
    assert history["loss"] == [5, 4, 3, 2, 1]
    assert set(history["utilization_pct"]) == {card.uuid for card in shown}
    assert history["utilization_pct"][shown[1].uuid][-1] == 60
    text = client.run("status", job, check=True).stdout
    assert "last 60 %" in text
    assert "5 to 1, lowest 1" in text
    client.run("stop", job, check=True)
    assert client.run("--plain", "status", job, check=True).stdout.isascii()
