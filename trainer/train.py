"""Train a small Llama-style model by data parallelism. Read from ``main`` down.

    torchrun --nproc-per-node 2 trainer/train.py --steps 200

Exit status: 0 done, or saved after SIGTERM; 2 wrong settings; 3 bad data; 4 no such device; 5 loss not finite.
"""

from __future__ import annotations

import contextlib
import math
import sys
from pathlib import Path
from typing import Any

if not __package__:
    # Run as a script from anywhere: the package is the folder this file lies in.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer import checkpoint
from trainer.config import Config, parse
from trainer.data import DataError, Windows, load_bytes
from trainer.dist import DeviceError, Stop, World, world
from trainer.metrics import Metrics
from trainer.model import Llama, generate

BAD_DATA, NO_DEVICE, NOT_FINITE = 3, 4, 5


def learning_rate(config: Config, step: int) -> float:
    """Linear warm-up, then a cosine down to a tenth of the peak."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))


def make_optimizer(config: Config, model: nn.Module) -> torch.optim.AdamW:
    """AdamW; only matrices decay."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.95), fused=True)


class Run:
    """Everything that changes while training, and what a checkpoint must hold of it."""

    def __init__(self, config: Config, here: World) -> None:
        self.config, self.here = config, here
        torch.manual_seed(config.seed)
        self.model = Llama(config).to(here.device)
        self.optimizer = make_optimizer(config, self.model)
        self.scaler = torch.amp.GradScaler(here.device.type, enabled=here.amp is torch.float16)
        self.step = 0
        compiled: nn.Module = torch.compile(self.model) if config.compile else self.model  # type: ignore[assignment]
        self.parallel: nn.Module = compiled
        if here.size > 1:
            devices = [here.device] if here.device.type == "cuda" else None
            self.parallel = DistributedDataParallel(compiled, device_ids=devices, gradient_as_bucket_view=True)

    def state(self) -> dict[str, Any]:
        """For a checkpoint. Ranks hold the same weights, so one of them writes."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "rng": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint's state, exactly."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        torch.set_rng_state(state["rng"])
        self.step = int(state["step"])

    def train_step(self, windows: Windows, micro: int) -> tuple[float, float]:
        """One optimizer step; the mean loss per token over all ranks, and the gradient's norm.

        The gradient is that of (sum of losses) / (tokens of the global batch), however the batch is split; DDP
        averages over ranks, hence the factor ``size``.
        """
        config, here = self.config, self.here
        share = config.global_batch // here.size
        first = self.step * config.global_batch + here.rank * share
        tokens = config.global_batch * config.context
        total = torch.zeros((), device=here.device)
        for done in range(0, share, micro):
            x_BT, y_BT = (part.to(here.device, non_blocking=True) for part in windows.batch(first + done, micro))
            last = done + micro >= share
            # Gradients are exchanged once, with the last part.
            quiet = contextlib.nullcontext() if last or here.size == 1 else self.parallel.no_sync()  # type: ignore[operator]
            with quiet:
                with here.autocast():
                    loss = self.parallel(x_BT, y_BT)
                self.scaler.scale(loss * (here.size / tokens)).backward()
            total += loss.detach()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(config, self.step)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return here.sum(total).item() / tokens, float(norm)

    @torch.no_grad()
    def validation_loss(self, windows: Windows) -> float:
        """The mean loss per token of a few held-out windows, the same ones every time."""
        self.model.eval()
        x_BT, y_BT = (part.to(self.here.device) for part in windows.batch(0, 16, held_out=True))
        with self.here.autocast():
            loss = self.model(x_BT, y_BT).item() / y_BT.numel()
        self.model.train()
        return float(loss)


def micro_batch(config: Config, here: World) -> int:
    """Sequences per forward pass. Raises ValueError with all numbers where the batch does not divide."""
    share, rest = divmod(config.global_batch, here.size)
    micro = config.micro_batch or share
    if rest or share == 0 or share % micro:
        raise ValueError(
            f"--global-batch {config.global_batch} over {here.size} ranks in parts of {micro} does not come out even"
        )
    return micro


def train(config: Config, here: World) -> int:
    """The loop. Returns the exit status."""
    micro = micro_batch(config, here)
    windows = Windows(load_bytes(config.data, config.max_bytes), config.context, config.seed)
    run, stop = Run(config, here), Stop()
    metrics = Metrics(config.folder, here.first)
    config.folder.mkdir(parents=True, exist_ok=True)
    found = checkpoint.newest(config.folder) if config.resume == "auto" else None
    if found is not None:
        run.restore(checkpoint.load(found))
    say(here, f"{sum(p.numel() for p in run.model.parameters()):,} parameters, {here.size} ranks on {here.device.type}, "
        f"{here.amp or 'fp32'}, {len(windows.train_S):,} bytes of text" + (f", resumed at step {run.step}" if found else ""))  # fmt: skip
    while run.step < config.steps:
        loss, norm = run.train_step(windows, micro)
        metrics.count(config.global_batch * config.context)
        if not math.isfinite(loss):
            say(here, f"loss is {loss} at step {run.step}: lower --lr, or look at the data")
            return NOT_FINITE
        if run.step % config.log_every == 0 or run.step == config.steps:
            metrics.write(step=run.step, loss=loss, lr=learning_rate(config, run.step - 1), grad_norm=norm)
        stopping = stop.agreed(here)
        if run.step % config.save_every == 0 or run.step == config.steps or stopping:
            if here.first:
                checkpoint.save(config.folder, run.step, run.state(), config.keep)
            if stopping:
                say(here, f"asked to stop: saved at step {run.step}")
                return 0
    if here.first:
        finish(config, run, windows, metrics)
    return 0


def finish(config: Config, run: Run, windows: Windows, metrics: Metrics) -> None:
    """The held-out loss and a sample."""
    metrics.write(step=run.step, validation_loss=run.validation_loss(windows))
    run.model.eval()
    text = generate(run.model, b"def ", config.sample, config.context, torch.Generator().manual_seed(config.seed))
    (config.folder / "sample.txt").write_bytes(text)
    print("sample:\n" + text.decode("utf-8", "replace"), flush=True)


def say(here: World, text: str) -> None:
    """One line, once."""
    if here.first:
        print(text, flush=True)


def main() -> int:
    """Run by torchrun on every rank, or alone."""
    config = parse()
    try:
        with world(config) as here:
            return train(config, here)
    except (DataError, DeviceError, ValueError) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return BAD_DATA if isinstance(error, DataError) else NO_DEVICE if isinstance(error, DeviceError) else 2


if __name__ == "__main__":
    sys.exit(main())
