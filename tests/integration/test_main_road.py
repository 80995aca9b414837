"""The main job on a real host over real SSH: launch, follow, list, attach, stop, remove."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remoterun import Fleet
from tests.conftest import require
from tests.fleet.client import Client
from tests.fleet.host import TestHost

pytestmark = pytest.mark.fleet


def jobs(client: Client, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(client.run("ps", "--json", *arguments, check=True).stdout)["jobs"]
    return found


def launch(client: Client, host: TestHost, *arguments: str) -> str:
    """Launch detached; the id."""
    return client.run("launch", "-d", "-H", host.name, *arguments, check=True).stdout.strip()


def until(check: Callable[[], object], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def test_launch_follows_to_the_end_and_exits_with_the_jobs_status(host: TestHost, client: Client) -> None:
    client.script("b.sh", '#!/bin/sh\necho "hello from $(hostname) $1"\necho made >made.txt\nexit 7\n')
    done = client.run("launch", "-H", host.name, "b.sh", "it's $x")
    assert done.stdout == f"hello from {host.name} it's $x\n"
    assert done.returncode == 7, done.stderr
    assert [(job["host"], job["state"], job["exit_code"]) for job in jobs(client)] == [(host.name, "failed", 7)]
    assert host.sh("cat .remoterun/jobs/*/code/made.txt").stdout == "made\n"
    assert not (client.project / "made.txt").exists()


def test_a_python_script_trains_under_torchrun_with_two_ranks(torch_host: TestHost, client: Client) -> None:
    host = torch_host
    # One write for the whole line: ranks share the log, and print() writes its parts one by one.
    text = "import os, sys\nsys.stdout.write('rank {RANK} of {WORLD_SIZE} {REMOTERUN_OUT}\\n'.format(**os.environ))\n"
    client.script("sub dir/train it.py", text)
    done = client.run(
        "launch",
        "-H",
        host.name,
        "--python",
        sys.executable,
        "--nproc-per-node",
        "2",
        "sub dir/train it.py",
        check=True,
    )
    job = jobs(client)[0]["id"]
    out = f"{host.home}/.remoterun/jobs/{job}/out"
    # torch itself warns on a host without reverse DNS; those lines begin with [W.
    said = [line for line in done.stdout.splitlines() if "[W" not in line]
    assert sorted(said) == [f"[rank 1] rank 1 of 2 {out}", f"rank 0 of 2 {out}"]
    assert f"rank 1 of 2 {out}" in client.run("logs", "--rank", "1", check=True).stdout.splitlines()
    assert "rank 1 of 2" not in client.run("logs", "--rank", "0", check=True).stdout


def test_python_without_torch_is_told_before_anything_starts(host: TestHost, client: Client) -> None:
    client.script("a.py", "print(1)\n")
    host.shim("python3", '#!/bin/sh\nexec /usr/bin/python3 -S -I "$@"\n')
    done = client.run("launch", "-H", host.name, "a.py")
    assert done.returncode == 255
    assert "has no torch" in done.stderr
    assert "--python" in done.stderr
    assert jobs(client, "-H", host.name) == []


def test_an_interpreter_that_does_not_exist_is_reported_by_launch(host: TestHost, client: Client) -> None:
    client.script("a.py", "print(1)\n")
    done = client.run("launch", "-H", host.name, "--python", "/no/such/python", "a.py")
    assert (done.returncode, "/no/such/python" in done.stderr) == (255, True)
    for detach in ((), ("-d",)):
        done = client.run("launch", *detach, "-H", host.name, "--", "no-such-program")
        assert done.returncode == 127
        assert "no-such-program" in done.stdout + done.stderr


def test_dry_run_touches_nothing_and_eject_does_the_same_as_launch(host: TestHost, client: Client) -> None:
    client.script("b.sh", "#!/bin/sh\necho ejected $1 $SECRET\n")
    plan = client.run("launch", "-H", host.name, "-e", "SECRET=hush", "--dry-run", "b.sh", "a b", check=True).stdout
    assert "b.sh 'a b'" in plan
    assert "hush" not in plan
    assert host.sh("ls -A .remoterun 2>/dev/null || true").stdout == ""
    script = client.project / "start.sh"
    client.run("launch", "-H", host.name, "-e", "SECRET=hush", "--eject", str(script), "b.sh", "a b", check=True)
    there = host.home / "start.sh"
    there.write_bytes(script.read_bytes())
    host.give(there)
    script.unlink()
    host.sh("sh start.sh")
    until(lambda: [job["state"] for job in jobs(client, "-H", host.name)] == ["succeeded"])
    assert client.run("logs", "-H", host.name, "b", check=True).stdout == "ejected a b hush\n"


def test_secrets_stand_on_no_command_line_in_no_record_and_in_no_log(host: TestHost, client: Client) -> None:
    (client.project / "secrets.env").write_text("# comment\nTOKEN=s3cr3t-one\n")
    (client.project / ".gitignore").write_text("secrets.env\n")
    subprocess.run(["git", "init", "-q"], cwd=client.project, check=True)
    client.script("b.sh", '#!/bin/sh\n[ "${#TOKEN} ${#MORE}" = "10 10" ] && echo right\nsleep 3\n')
    job = launch(client, host, "--env-file", "secrets.env", "-e", "MORE=s3cr3t two", "b.sh")
    until(lambda: client.run("logs", job, check=True).stdout == "right\n")
    assert not [words for words in host.login_processes().values() if "s3cr3t" in words]
    found = host.sh(f"grep -rl s3cr3t .remoterun/jobs/{job}").stdout.split()
    assert found == [f".remoterun/jobs/{job}/env"]
    assert host.sh(f"stat -c %a .remoterun/jobs/{job}/env .remoterun/jobs/{job}").stdout.split() == ["600", "700"]
    # The snapshot holds no file that git ignores.
    assert host.sh(f"ls -A .remoterun/jobs/{job}/code").stdout.split() == [".gitignore", "b.sh"]


def test_later_edits_never_touch_a_running_job_and_only_changes_are_sent(host: TestHost, client: Client) -> None:
    client.script("b.sh", "#!/bin/sh\nsleep 2\ncat data/x keep\n")
    client.script("data/x", "one\n")
    client.script("keep", "kept\n")
    client.script("gone/y", "y\n")
    first = launch(client, host, "b.sh")
    client.script("data/x", "two\n")
    (client.project / "gone" / "y").unlink()
    (client.project / "gone").rmdir()
    plan = client.run("launch", "-H", host.name, "--dry-run", "b.sh", check=True).stdout
    assert "to send 4 bytes on top of" in plan
    second = launch(client, host, "b.sh")
    assert client.run("wait", second).returncode == 0
    assert client.run("logs", first, check=True).stdout == "one\nkept\n"
    assert client.run("logs", second, check=True).stdout == "two\nkept\n"
    assert host.sh(f"ls .remoterun/jobs/{second}/code").stdout.split() == ["b.sh", "data", "keep"]
    # What a job writes reaches no other: neither the next job nor the snapshot that both come from.
    host.sh(f"echo spoilt >.remoterun/jobs/{second}/code/keep")
    third = launch(client, host, "b.sh")
    assert client.run("wait", third).returncode == 0
    assert client.run("logs", third, check=True).stdout == "two\nkept\n"


def test_another_laptop_sees_and_ends_the_same_jobs(host: TestHost, client: Client, yard: object) -> None:
    client.script("b.sh", "#!/bin/sh\necho on; sleep 60\n")
    job = launch(client, host, "b.sh")
    other = Client(client.yard, "other")
    other.knows([host])
    assert [found["id"] for found in jobs(other, "-H", host.name)] == [job]
    other.run("stop", "-H", host.name, job, check=True)
    assert jobs(client)[0]["state"] == "stopped"


def test_stop_reaches_torchruns_workers_and_what_called_setsid(torch_host: TestHost, client: Client) -> None:
    host = torch_host
    text = (
        "import os, signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen(['setsid', 'sh', '-c', 'trap \"\" TERM HUP; sleep 1000 & wait'])\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    client.script("train.py", text)
    host.sh("setsid -f sh -c 'echo $$ >foreign; exec sleep 999' >/dev/null 2>&1 </dev/null")
    foreign = int(host.sh("while ! [ -s foreign ]; do sleep 0.05; done; cat foreign").stdout)
    other = launch(client, host, "--name", "other", "--", "sleep", "500")
    job = launch(client, host, "--python", sys.executable, "--nproc-per-node", "2", "train.py")
    until(lambda: client.run("logs", job).stdout.count("ready") == 2, 40)
    assert len([words for words in host.login_processes().values() if "train.py" in words]) >= 3
    done = client.run("stop", job, "--grace", "1", check=True)
    assert "no process of it is left" in done.stderr
    left = host.login_processes()
    assert not [words for words in left.values() if "train.py" in words or "sleep 1000" in words]
    assert left[foreign] == "sleep 999"
    states = {found["id"]: found["state"] for found in jobs(client)}
    assert states == {job: "stopped", other: "running"}
    again = client.run("stop", job, check=True)
    assert "ended already" in again.stderr
    assert client.run("rm", other).returncode == 2
    client.run("stop", other, check=True)
    client.run("rm", other, job, check=True)
    assert jobs(client, "-a") == []


def test_a_long_checkpoint_finishes_within_the_grace(torch_host: TestHost, client: Client) -> None:
    host = torch_host
    text = (
        "import os, signal, sys, time\n"
        "def save(*_):\n"
        "    time.sleep(2 + 2 * int(os.environ['RANK']))\n"
        "    open(os.environ['REMOTERUN_OUT'] + '/saved' + os.environ['RANK'], 'w').close()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    client.script("train.py", text)
    job = launch(client, host, "--python", sys.executable, "--nproc-per-node", "2", "train.py")
    until(lambda: client.run("logs", job).stdout.count("ready") == 2, 40)
    client.run("stop", job, "--grace", "30", check=True)
    assert host.sh(f"ls .remoterun/jobs/{job}/out").stdout.split() == ["saved0", "saved1"]
    assert "killed" not in str(jobs(client)[0]["reason"])


def test_ctrl_c_detaches_and_the_job_goes_on(host: TestHost, client: Client) -> None:
    client.script("b.sh", "#!/bin/sh\necho started\nsleep 4\necho finished\n")
    terminal = client.terminal("launch", "-H", host.name, "b.sh")
    terminal.wait_for("started")
    terminal.send("C-c")
    screen = terminal.wait_for("EXIT=130")
    assert "remoterun logs -f" in screen.replace("\n", " ")
    done = client.run("logs", "-f", check=True)
    assert done.stdout == "started\nfinished\n"


def test_attach_shows_the_log_detaches_and_passes_ctrl_c_twice(host: TestHost, client: Client) -> None:
    client.script("b.sh", "#!/bin/sh\ntrap 'echo got INT; exit 9' INT\necho started\nwhile :; do sleep 0.2; done\n")
    job = launch(client, host, "b.sh")
    for term in ("xterm-256color", "xterm-ghostty"):
        terminal = client.terminal("attach", job, term=term)
        terminal.wait_for("started")
        terminal.send("C-b", "d")
        terminal.wait_for("EXIT=0")
    assert jobs(client)[0]["state"] == "running"
    terminal = client.terminal("attach", job)
    terminal.wait_for("started")
    terminal.send("C-c")
    terminal.wait_for("once more")
    assert jobs(client)[0]["state"] == "running"
    terminal.send("C-c")
    terminal.wait_for("got INT")
    until(lambda: jobs(client)[0]["exit_code"] == 9)


def test_attach_makes_a_killed_session_and_a_deleted_socket_anew(host: TestHost, client: Client) -> None:
    job = launch(client, host, "--", "sh", "-c", "echo started; sleep 100")
    socket = host.sh("ls .remoterun/tmux-*/socket").stdout.strip()
    host.sh(f"tmux -S {socket} kill-server")
    assert jobs(client)[0]["state"] == "running"
    terminal = client.terminal("attach", job)
    terminal.wait_for("started")
    host.sh(f"rm {socket}")
    second = client.terminal("attach", job)
    second.wait_for("started")
    assert jobs(client)[0]["state"] == "running"


def test_attach_without_a_terminal_is_one_clear_sentence(host: TestHost, client: Client) -> None:
    job = launch(client, host, "--", "sleep", "50")
    done = client.run("attach", job)
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr


def test_a_client_killed_at_any_moment_leaves_no_half_job(host: TestHost, client: Client) -> None:
    client.script("b.sh", "#!/bin/sh\necho ran\n")
    client.script("big", "x" * 3_000_000)
    started = time.monotonic()
    assert client.run("launch", "-d", "-H", host.name, "b.sh").returncode == 0
    whole = time.monotonic() - started
    for step in range(20):
        client.script("big", f"{step}" + os.urandom(1_000_000).hex())
        process = client.start("launch", "-d", "-H", host.name, "b.sh")
        time.sleep(whole * (step + 1) / 20)
        process.send_signal(signal.SIGKILL)
        process.wait()
    until(lambda: all(job["state"] == "succeeded" for job in jobs(client, "-H", host.name)), 20)
    host.sh("pkill -u $(id -u) -x never || true")
    client.run("launch", "-H", host.name, "b.sh", check=True)
    left = host.sh("ls -A .remoterun/jobs .remoterun/trees/*").stdout
    assert ".aside" not in left
    for log in host.sh("cat .remoterun/jobs/*/log").stdout.splitlines():
        assert log == "ran"


def test_a_cut_link_loses_and_doubles_no_byte(host: TestHost, client: Client) -> None:
    client.script("b.sh", "#!/bin/sh\nfor i in $(seq 1 400); do echo line $i; sleep 0.05; done\n")
    process = client.start("launch", "-H", host.name, "b.sh")
    until(
        lambda: host.sh("grep -c . .remoterun/jobs/*/log 2>/dev/null || true").stdout.strip() not in ("", "0", "1", "2")
    )
    for pid in host.sshd_sessions():
        host.kill(pid)
    time.sleep(2)
    host.cut()
    time.sleep(1)
    host.restore()
    out, err = process.communicate(timeout=90)
    assert out.decode() == "".join(f"line {number}\n" for number in range(1, 401))
    assert process.returncode == 0
    assert b"reconnecting" in err


def test_a_silent_link_is_noticed_within_twenty_seconds(host: TestHost, client: Client) -> None:
    client.script("b.sh", "#!/bin/sh\necho on\nsleep 300\n")
    process = client.start("launch", "-H", host.name, "b.sh")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"on\n"
    host.cut()
    cut_at = time.monotonic()
    for line in process.stderr:
        if b"reconnecting" in line:
            break
    assert time.monotonic() - cut_at < 21
    host.restore()
    for line in process.stderr:
        if b"again" in line:
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def test_a_dark_hosts_job_is_unknown_never_dead(host: TestHost, client: Client) -> None:
    job = launch(client, host, "--", "sleep", "60")
    assert jobs(client)[0]["state"] == "running"
    host.cut()
    done = client.run("status", job, "--json")
    document = json.loads(done.stdout)["job"]
    assert (done.returncode, document["state"], document["last_known_state"]) == (255, "unknown", "running")
    assert document["exit_code"] is None
    listed = json.loads(client.run("ps", "--json", check=True).stdout)
    assert [entry["host"] for entry in listed["unreachable"]] == [host.name]
    assert [(found["id"], found["state"]) for found in listed["jobs"]] == [(job, "unknown")]
    assert client.run("stop", job).returncode == 255
    host.restore()
    assert jobs(client)[0]["state"] == "running"


def test_killed_from_outside_is_lost_and_left_overs_are_cleared(host: TestHost, client: Client) -> None:
    job = launch(client, host, "--", "sh", "-c", "echo words; setsid sleep 777 & sleep 888")
    until(lambda: client.run("logs", job).stdout == "words\n")
    for pid, words in host.login_processes().items():
        if "supervise.sh" in words or words.startswith("sh -c echo words") or words == "sleep 888":
            host.kill(pid)
    found = jobs(client)[0]
    assert (found["state"], found["exit_code"]) == ("lost", None)
    assert "killed from outside" in str(found["reason"])
    assert client.run("logs", job).stdout == "words\n"
    client.run("stop", job, check=True)
    assert not [words for words in host.login_processes().values() if words == "sleep 777"]


def test_a_killed_supervisor_is_no_killed_job(host: TestHost, client: Client) -> None:
    job = launch(client, host, "--", "sleep", "1000")
    for pid, words in host.login_processes().items():
        if "supervise.sh" in words:
            host.kill(pid)
    found = jobs(client)[0]
    assert found["state"] == "running"
    assert "supervisor was killed" in str(found["reason"])
    for pid, words in host.login_processes().items():
        if words == "sleep 1000":
            host.kill(pid)
    until(lambda: jobs(client)[0]["state"] == "lost")
    assert client.run("wait", job).returncode == 255


def test_names_mean_whole_names_and_the_newest(host: TestHost, client: Client) -> None:
    one = launch(client, host, "--name", "exp-1", "--", "echo", "one")
    ten = launch(client, host, "--name", "exp-10", "--", "echo", "ten")
    dotted = launch(client, host, "--name", "v1.2", "--", "echo", "dotted")
    under = launch(client, host, "--name", "v1_2", "--", "echo", "under")
    assert len({one, ten, dotted, under}) == 4
    said = {name: client.run("logs", name, check=True).stdout for name in ("exp-1", "exp-10", "v1.2", "v1_2", ten[:12])}
    assert said == {"exp-1": "one\n", "exp-10": "ten\n", "v1.2": "dotted\n", "v1_2": "under\n", ten[:12]: "ten\n"}
    newer = launch(client, host, "--name", "exp-1", "--", "echo", "newer")
    assert client.run("logs", "exp-1", check=True).stdout == "newer\n"
    assert client.run("logs", one, check=True).stdout == "one\n"
    assert newer != one
    # Nothing named: this project's newest.
    assert client.run("logs", check=True).stdout == "newer\n"
    for bad in ("exp", "exp-", "no-such"):
        assert client.run("logs", bad).returncode == 2


@pytest.mark.parametrize("name", ["a:b", "$0", "@1", "-t", "=x", "ünï", "job 7", "", "x" * 300])
def test_bad_names_are_refused_before_anything_starts(host: TestHost, client: Client, name: str) -> None:
    client.script("b.sh", "#!/bin/sh\n")
    assert client.run("launch", "-H", host.name, f"--name={name}", "b.sh").returncode == 2
    assert host.sh("ls -A .remoterun 2>/dev/null || true").stdout == ""


def test_exec_gives_exactly_these_arguments_and_prefixes_lines(
    fleet: Callable[..., list[TestHost]], client: Client
) -> None:
    two = fleet(2)
    client.knows(two)
    odd = ["a b", "it's", '"$HOME"', "-n", "x\ny", "ü;", ""]
    names = ",".join(host.name for host in two)
    done = client.run("exec", "-H", two[0].name, "--", "printf", "<%s>", *odd, check=True)
    assert done.stdout == "".join(f"<{word}>" for word in odd)
    done = client.run("exec", "-H", names, "--", "sh", "-c", "hostname; echo err >&2; exit $(hostname | tr -cd 0-9)")
    assert sorted(done.stdout.splitlines()) == sorted(f"{host.name}: {host.name}" for host in two)
    assert sorted(done.stderr.splitlines()) == sorted(f"{host.name}: err" for host in two)
    assert done.returncode == max(int(re.sub(r"\D", "", host.name)) for host in two) % 256
    two[1].cut()
    assert client.run("exec", "-H", names, "--", "true").returncode == 255


def test_the_python_interface(host: TestHost, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    require("git")
    client.use(monkeypatch)
    client.script("b.sh", "#!/bin/sh\necho from $1\nexit 4\n")
    fleet = Fleet.load()
    job = fleet.launch("b.sh", "python", hosts=[host.name])
    assert b"".join(job.logs(follow=True)) == b"from python\n"
    assert job.wait().exit_code == 4
    assert job.state.value == "failed"
    assert [found.id for found in fleet.jobs([host.name]).jobs] == [job.id]
    job.remove()
    assert fleet.jobs([host.name], every=True).jobs == ()


def test_hosts_and_gpus_name_the_dark_one_and_show_the_others(
    fleet: Callable[..., list[TestHost]], client: Client
) -> None:
    up, down = fleet(2)
    client.knows([up, down])
    down.cut()
    both = ("-H", f"{up.name},{down.name}")
    for verb in ("hosts", "gpus"):
        document = json.loads(client.run(verb, *both, "--json", check=True).stdout)
        assert {entry["host"]: entry["reachable"] for entry in document["hosts"]} == {up.name: True, down.name: False}
        assert down.name in client.run(verb, *both, check=True).stdout


def test_failures_in_json_have_a_code_and_a_hint(client: Client, tmp_path: Path) -> None:
    done = client.run("status", "--json", "no-such-job")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (2, "unknown-job")
    assert set(error) == {"code", "message", "hint", "host"}
    done = client.run("ps", "--json", "--no-such-option")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "usage")
    done = client.run("ps", "--json", "-H", "nowhere.invalid")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "unknown-host")


def test_the_job_starts_in_the_launchs_own_folder_of_the_project(host: TestHost, client: Client) -> None:
    subprocess.run(["git", "init", "-q"], cwd=client.project, check=True)
    script = client.script("sub/dir/b.sh", "#!/bin/sh\npwd\ncat ../../top\n")
    client.script("top", "from the top\n")
    root, client.project = client.project, client.project / "sub"
    for target in ("dir/b.sh", str(script)):
        done = client.run("launch", "-H", host.name, target)
        assert done.returncode == 1, "cat runs in sub/, from where ../../top is not there"
        assert done.stdout.splitlines()[0].endswith("/code/sub")
    client.project = root / "sub" / "dir"
    done = client.run("launch", "-H", host.name, "b.sh", check=True)
    assert done.stdout.splitlines()[1] == "from the top"
    client.project = root
    for outside in ("/bin/true", "../x.sh"):
        assert client.run("launch", "-H", host.name, outside).returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_and_a_folder_without_permission_are_named_and_leave_nothing(
    fleet: Callable[..., list[TestHost]], client: Client
) -> None:
    client.script("b.sh", "#!/bin/sh\necho ran\n")
    client.script("big", os.urandom(3_000_000).hex())
    small = client.folder / "small"
    small.mkdir()
    # Before the host is made: it has mounts of its own from then on.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "none", str(small)], check=True)
    try:
        host = fleet(1)[0]
        client.knows([host])
        (client.project / "hosts.yaml").write_text(f"hosts:\n  {host.name}: {{workdir: {small}/w}}\n")
        done = client.run("launch", "-H", host.name, "b.sh")
        assert done.returncode == 255
        assert "No space left" in done.stderr
        assert "free KiB" in done.stderr
        assert client.run("ps", "-H", host.name, "--json", check=True).stdout.count('"id"') == 0
        assert host.sh(f"find {small}/w -type f | wc -l").stdout.strip() == "0"
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    (client.project / "hosts.yaml").write_text(f"hosts:\n  {host.name}: {{workdir: /proc/w}}\n")
    done = client.run("launch", "-H", host.name, "b.sh")
    assert done.returncode == 255
    assert "/proc/w" in done.stderr
    assert "workdir" in done.stderr
