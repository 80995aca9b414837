"""The twelve samples through the real probe script (dash, bash, busybox) and the parser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remoterun.host import scripts
from remoterun.host.gpus import jobs_of, parse
from remoterun.model.gpu import Gpu, GpuReport, GpuState
from tests.fleet.nvidia import SAMPLES, Card, FakeNvidia, Process, cards

# The samples' words for states → ours.
WORDS = {
    "free": {GpuState.FREE},
    "busy": {GpuState.BUSY, GpuState.BUSY_UNSEEN},
    "error": {GpuState.ERROR},
    "mig": {GpuState.MIG},
    "display": {GpuState.DISPLAY},
    "unsettled": {GpuState.UNSETTLED},
}
KEYS = {
    "util_pct": "utilization_pct",
    "mem_total_mib": "memory_total_mib",
    "mem_used_mib": "memory_used_mib",
    "temp_c": "temperature_c",
    "power_w": "power_w",
    "power_limit_w": "power_limit_w",
    "fan_pct": "fan_pct",
    "pstate": "pstate",
    "name": "name",
}
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


def look(fake: FakeNvidia, shell: str = "dash", tier: int = 3) -> bytes:
    """The probe's answer with this nvidia-smi in front of PATH."""
    if shutil.which(SHELLS[shell][0]) is None:
        assert "CI" not in os.environ
        pytest.skip(f"{shell} is missing")
    text = "".join(scripts.read(name) for name in ("lib", "facts", "gpus")) + f"rr_gpus N0 8 {tier}\n"
    env = {**os.environ, "PATH": f"{fake.binary.parent}:{os.environ['PATH']}"}
    done = subprocess.run([*SHELLS[shell], "-s"], input=text.encode(), capture_output=True, env=env, timeout=60)
    assert done.stderr == b""
    return done.stdout


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvidia:
    (tmp_path / "bin").mkdir()
    return FakeNvidia(tmp_path / "nvidia", tmp_path / "bin" / "nvidia-smi")


def compare(report: GpuReport, expected: dict[str, Any]) -> None:
    by_uuid = {gpu.uuid: gpu for gpu in report.gpus}
    assert len(by_uuid) == len(expected["gpus"])
    for wanted in expected["gpus"]:
        gpu = by_uuid[wanted["uuid"]]
        for key, ours in KEYS.items():
            if key in wanted:
                assert getattr(gpu, ours) == wanted[key], (wanted["index"], key)
        assert gpu.index == wanted["index"]
        assert gpu.state in WORDS[wanted["state"]], (wanted, gpu)
        assert gpu.pickable == wanted["auto_pick"], (wanted, gpu)
    for process in expected.get("procs", ()):
        (found,) = [each for each in by_uuid[process["uuid"]].processes if each.pid == process["pid"]]
        assert found.memory_mib == process["mem_mib"]
        if process.get("name"):
            assert process["name"] in (found.command or "") or found.user is not None


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "sample",
    ["01-looks-free-but-broken", "02-lost-gpu", "03-mig", "05-unknown-field", "06-unified-memory", "07-inforom-warning",
     "09-hidden-processes", "10-display-gpu-and-odd-names", "11-insufficient-permissions"],
)  # fmt: skip
def test_samples(fake: FakeNvidia, sample: str, shell: str) -> None:
    fake.replay(sample)
    report = parse(look(fake, shell), "N0")
    assert report.available
    assert report.problem is None
    compare(report, json.loads((SAMPLES / sample / "expected.json").read_text(encoding="utf-8"))["expected"])


def test_lost_gpu_is_named_and_the_look_is_partial(fake: FakeNvidia) -> None:
    fake.replay("02-lost-gpu")
    report = parse(look(fake), "N0")
    assert report.partial
    assert any("0000:85:00.0" in text and "lost" in text for text in report.warnings)


def test_mig_devices_have_their_own_uuids(fake: FakeNvidia) -> None:
    fake.replay("03-mig")
    report = parse(look(fake), "N0")
    wanted = json.loads((SAMPLES / "03-mig" / "expected.json").read_text(encoding="utf-8"))["expected"]["mig"]
    assert [device.uuid for device in report.gpus[1].mig_devices] == [device["uuid"] for device in wanted]
    assert [device.profile for device in report.gpus[1].mig_devices] == [device["profile"] for device in wanted]


@pytest.mark.parametrize("name", ["mismatch", "no-comm", "no-devices"])
def test_unusable_drivers_are_one_sentence_and_no_gpu(fake: FakeNvidia, name: str) -> None:
    folder = SAMPLES / "04-driver-unusable"
    runs = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["runs"]
    status = next(run["rc"] for run in runs if run["stdout"] == f"{name}.txt")
    fake.fail(status, (folder / f"{name}.txt").read_text())
    report = parse(look(fake), "N0")
    assert report.gpus == ()
    assert report.problem
    assert len(fake.calls()) == 1, "a driver that cannot answer is asked once"


def test_no_nvidia_smi_is_no_error() -> None:
    text = "".join(scripts.read(name) for name in ("lib", "facts", "gpus")) + "rr_gpus N0 8 3\n"
    done = subprocess.run(["/bin/dash", "-s"], input=text.encode(), capture_output=True, env={"PATH": "/nowhere"})
    assert parse(done.stdout, "N0") == GpuReport()


def test_the_tier_that_an_old_driver_accepts_is_remembered(fake: FakeNvidia) -> None:
    fake.replay("05-unknown-field")
    report = parse(look(fake), "N0")
    assert report.tier == 0
    assert report.driver == "470.256.02"
    before = len(fake.calls())
    again = parse(look(fake, tier=0), "N0")
    assert again.gpus == report.gpus
    assert len(fake.calls()) - before == 2, "core and apps, nothing that is refused anyway"


def test_a_hanging_driver_is_told_within_its_time(fake: FakeNvidia) -> None:
    fake.show(cards(2))
    fake.hang(60)
    text = "".join(scripts.read(name) for name in ("lib", "facts", "gpus")) + "rr_gpus N0 1 3\n"
    env = {**os.environ, "PATH": f"{fake.binary.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["dash", "-s"], input=text.encode(), capture_output=True, env=env, timeout=20)
    report = parse(done.stdout, "N0")
    assert "does not answer" in (report.problem or "")


def test_units_and_deprecated_tokens(fake: FakeNvidia) -> None:
    row = Card(0, "GPU-84ccd64f-9d6c-40de-8bd1-49249d82fc77").core()
    row = (
        row.replace(" 4,", " 4 MiB,")
        .replace("61.40", "[Not Supported]")
        .replace("34,", "[Requested functionality has been deprecated],")
    )
    fake.rows(f"\ufeff{row}\r\n")
    (gpu,) = parse(look(fake), "N0").gpus
    assert (gpu.memory_used_mib, gpu.power_w, gpu.temperature_c) == (4, None, None)


def test_processes_have_owners_and_jobs(fake: FakeNvidia) -> None:
    env = {**os.environ, "REMOTERUN_JOB": "train-0101-000000-abcd"}
    process = subprocess.Popen(["sleep", "30"], env=env)
    try:
        fake.show([Card(0, "GPU-1", processes=[Process(process.pid, 500)])])
        output = look(fake)
        (gpu,) = parse(output, "N0").gpus
        assert gpu.state is GpuState.BUSY
        assert gpu.processes[0].command == "sleep 30"
        assert gpu.processes[0].user
        assert jobs_of(output, "N0") == {process.pid: "train-0101-000000-abcd"}
    finally:
        process.kill()
        process.wait()


def framed(core: bytes, apps: bytes = b"", end: bytes = b"\nN0 end\n") -> bytes:
    return b"\nN0 begin core\n" + core + b"\nN0 rc 0\n\nN0 begin apps\n" + apps + b"\nN0 rc 0\n" + end


GOOD = "".join(card.core() + "\n" for card in cards(2)).encode()


@given(st.binary(max_size=300), st.integers(0, 900))
@settings(max_examples=300, deadline=None)
def test_damage_never_raises_never_invents_and_never_frees(junk: bytes, cut: int) -> None:
    whole = framed(GOOD, b"GPU-1, 5, 100, python\n")
    # A byte put into the middle of a cell is still a cell: such an answer only must not raise.
    parse(whole[:cut] + junk + whole[cut:], "N0")
    for output in (junk, whole[:cut], framed(junk), framed(GOOD, junk)):
        report = parse(output, "N0")
        known: set[str | None] = {card.uuid for card in cards(2)}
        for gpu in report.gpus:
            if not junk.strip() or b"GPU-" not in junk:
                assert gpu.uuid in known
            assert not gpu.pickable or (gpu.memory_used_mib is not None and gpu.utilization_pct is not None)


@given(
    st.sampled_from(["[N/A]", "[Unknown Error]", "[GPU requires reset]", "[Insufficient Permissions]", "ERR!"]),
    st.integers(4, 13),
)
def test_a_cell_that_is_no_value_is_none_and_never_zero(token: str, column: int) -> None:
    cells = cards(1)[0].core().split(", ")
    cells[column] = token
    (gpu,) = parse(framed(", ".join(cells).encode() + b"\n"), "N0").gpus
    named = {4: "utilization_pct", 6: "memory_total_mib", 7: "memory_used_mib", 8: "memory_free_mib", 9: "temperature_c",
             10: "power_w", 11: "power_limit_w", 12: "fan_pct", 13: "pstate"}  # fmt: skip
    if column in named:
        assert getattr(gpu, named[column]) is None
    assert not (column in (4, 7) and gpu.pickable)
    assert isinstance(gpu, Gpu)
