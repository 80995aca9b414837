"""The trainer for real: processes under torchrun, gloo on the CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trainer.config import Config
from trainer.data import DataError, Windows, load_bytes
from trainer.model import Llama, chunked_loss

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).resolve().parents[2] / "trainer" / "train.py"
TINY = (
    *("--layers", "2", "--width", "32", "--heads", "2", "--kv-heads", "1", "--context", "32", "--global-batch", "8"),
    *("--lr", "0.01", "--warmup", "2", "--log-every", "1", "--max-bytes", "200000", "--sample", "8", "--device", "cpu"),
)


def command(ranks: int, out: Path, *more: str) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    return [sys.executable, *launcher, str(SCRIPT), *TINY, "--out", str(out), *more]


def run(ranks: int, out: Path, *more: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "REMOTERUN_OUT": ""}
    return subprocess.run(command(ranks, out, *more), capture_output=True, text=True, env=env, cwd=cwd, timeout=120)


def losses(out: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process, eight steps, undisturbed."""
    out = tmp_path_factory.mktemp("plain")
    done = run(1, out, "--steps", "8", "--save-every", "4", cwd=out)
    assert done.returncode == 0, done.stderr
    return out


def test_it_learns_and_leaves_checkpoint_metrics_and_sample(plain: Path) -> None:
    curve = losses(plain)
    assert list(curve) == list(range(1, 9))
    assert curve[8] < curve[1] - 0.3
    assert [entry.name for entry in sorted((plain / "checkpoints").iterdir())] == ["step-00000004", "step-00000008"]
    assert len((plain / "sample.txt").read_bytes()) == len(b"def ") + 8


@pytest.mark.parametrize("split", [(2, "0"), (1, "2"), (2, "1")])
def test_any_split_of_the_batch_gives_the_same_losses(plain: Path, tmp_path: Path, split: tuple[int, str]) -> None:
    ranks, micro = split
    done = run(ranks, tmp_path, "--steps", "8", "--micro-batch", micro)
    assert done.returncode == 0, done.stderr
    assert losses(tmp_path) == pytest.approx(losses(plain), abs=2e-5)


def test_resumed_is_bit_equal_to_uninterrupted(plain: Path, tmp_path: Path) -> None:
    # The schedule depends on the number of steps, so the first run is cut, not shortened.
    first = subprocess.Popen(
        command(1, tmp_path, "--steps", "8", "--save-every", "4"),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert first.stdout is not None
    for line in first.stdout:
        if line.startswith("step 5 "):
            first.send_signal(signal.SIGKILL)
            break
    first.wait()
    (tmp_path / "metrics.jsonl").unlink()
    done = run(1, tmp_path, "--steps", "8", "--save-every", "4")
    assert done.returncode == 0, done.stderr
    whole, rest = losses(plain), losses(tmp_path)
    assert rest
    assert min(rest) in (5, 6, 7, 8)
    assert rest == {step: whole[step] for step in rest}


def test_sigterm_saves_before_it_ends(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(1, tmp_path, "--steps", "100000", "--save-every", "100000"), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 3 "):
            break
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert process.wait(30) == 0
    assert "saved at step" in rest
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


def test_a_torn_checkpoint_is_passed_over(plain: Path, tmp_path: Path) -> None:
    torn = tmp_path / "checkpoints" / "step-00000099"
    torn.mkdir(parents=True)
    done = run(1, tmp_path, "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert list(losses(tmp_path)) == [1, 2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_is_an_error_that_says_what_to_check(tmp_path: Path) -> None:
    done = run(1, tmp_path, "--device", "cuda")
    assert done.returncode == 4
    for word in ("nvidia-smi", "CUDA_VISIBLE_DEVICES", "torch"):
        assert word in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--global-batch", "7", "--micro-batch", "2"], "7"),
        (["--width", "30", "--heads", "4"], "30"),
        (["--data", "/no/such"], "/no/such"),
        (["--stepz", "3"], "--stepz"),
    ],
)
def test_wrong_settings_are_sentences(tmp_path: Path, flags: list[str], words: str) -> None:
    done = run(1, tmp_path, *flags)
    assert done.returncode in (2, 3)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_chunked_loss_equals_the_plain_one() -> None:
    torch.manual_seed(0)
    model = Llama(Config(layers=1, width=32, heads=2, kv_heads=1, context=2100))
    x_ND = torch.randn(4200, 32, requires_grad=True)
    targets_N = torch.randint(0, 256, (4200,))
    plain = torch.nn.functional.cross_entropy(model.lm_head(x_ND), targets_N, reduction="sum")
    (wanted_ND,) = torch.autograd.grad(plain, x_ND)
    chunked = chunked_loss(model.lm_head, x_ND, targets_N)
    (got_ND,) = torch.autograd.grad(chunked, x_ND)
    assert chunked.item() == pytest.approx(plain.item(), rel=1e-6)
    torch.testing.assert_close(got_ND, wanted_ND)


def test_attention_does_not_look_ahead() -> None:
    torch.manual_seed(0)
    model = Llama(Config(layers=2, width=32, heads=4, kv_heads=2, context=16)).eval()
    tokens_BT = torch.randint(0, 256, (1, 16))
    other_BT = tokens_BT.clone()
    other_BT[0, 9] = (other_BT[0, 9] + 1) % 256
    first_BTV, second_BTV = model(tokens_BT), model(other_BT)
    torch.testing.assert_close(first_BTV[:, :9], second_BTV[:, :9])
    assert not torch.allclose(first_BTV[:, 9:], second_BTV[:, 9:])


def test_windows_are_a_pure_function_of_the_sample_number() -> None:
    text_S = load_bytes("", 100_000)
    one, two = Windows(text_S, 32, 1), Windows(text_S, 32, 1)
    x_BT, y_BT = one.batch(10, 4)
    assert torch.equal(x_BT[2:], two.batch(12, 2)[0])
    assert torch.equal(x_BT[:, 1:], y_BT[:, :-1])
    assert not torch.equal(x_BT, Windows(text_S, 32, 2).batch(10, 4)[0])


def test_too_little_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short")
    with pytest.raises(DataError):
        load_bytes(str(tmp_path), 1000)


def test_it_starts_as_a_module_too(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "trainer.train", *TINY, "--steps", "1", "--out", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=SCRIPT.parents[1], timeout=120)
    assert done.returncode == 0, done.stderr
