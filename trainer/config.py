"""Every setting of a run, in one frozen value; the command line is made from it."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def setting(default: Any, text: str, choices: Sequence[str] = ()) -> Any:
    """A field with the line of help that explains it (with its unit)."""
    return dataclasses.field(default=default, metadata={"help": text, "choices": tuple(choices)})


@dataclass(frozen=True)
class Config:
    """The settings of one run. Batches are counted in sequences, lengths in tokens."""

    # model
    layers: int = setting(4, "transformer blocks")
    width: int = setting(128, "model width (features)")
    heads: int = setting(4, "attention heads")
    kv_heads: int = setting(2, "key and value heads (grouped-query attention)")
    context: int = setting(128, "sequence length (tokens)")
    # data
    data: str = setting(
        "", "a file or folder of text, read byte by byte [default: the Python standard library's source]"
    )
    max_bytes: int = setting(8_000_000, "how much of it to read (bytes)")
    # optimisation
    steps: int = setting(200, "optimizer steps in all")
    global_batch: int = setting(16, "sequences per optimizer step, over all ranks")
    micro_batch: int = setting(
        0, "sequences per forward pass and rank, 0: as many as fit the global batch without accumulation"
    )
    lr: float = setting(3e-3, "peak learning rate")
    warmup: int = setting(20, "steps of linear warm-up")
    weight_decay: float = setting(0.1, "decoupled weight decay of matrices")
    clip: float = setting(1.0, "largest norm of the gradient")
    seed: int = setting(0, "seed of weights and of the data's order")
    # machine
    device: str = setting("auto", "auto takes a GPU where there is one", ("auto", "cpu", "cuda"))
    precision: str = setting(
        "auto", "auto: bf16 on GPUs that have it, fp16 on others, fp32 on the CPU", ("auto", "fp32", "bf16", "fp16")
    )
    compile: bool = setting(False, "torch.compile the model")
    # output
    out: str = setting("", "output folder [default: $REMOTERUN_OUT, else out]")
    log_every: int = setting(10, "steps between metric lines")
    save_every: int = setting(50, "steps between checkpoints")
    keep: int = setting(2, "newest checkpoints to keep")
    resume: str = setting(
        "auto",
        "auto continues from the newest checkpoint in the output folder (or $REMOTERUN_CHECKPOINT)",
        ("auto", "never"),
    )
    sample: int = setting(200, "bytes to generate at the end")

    def __post_init__(self) -> None:
        """Refuse what cannot work, with the numbers."""
        for name in (
            "layers",
            "width",
            "heads",
            "kv_heads",
            "context",
            "steps",
            "global_batch",
            "log_every",
            "save_every",
            "keep",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}")
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(f"--width {self.width} over --heads {self.heads} must give an even head size")
        if self.heads % self.kv_heads:
            raise ValueError(f"--heads {self.heads} must be a multiple of --kv-heads {self.kv_heads}")

    @property
    def folder(self) -> Path:
        """Where outputs go."""
        return Path(self.out or os.environ.get("REMOTERUN_OUT") or "out")


def parse(arguments: Sequence[str] | None = None) -> Config:
    """The command line as a Config; a wrong one ends with status 2 and a sentence."""
    parser = argparse.ArgumentParser(
        prog="train.py", description="Train a small Llama-style model.", allow_abbrev=False
    )
    for field in dataclasses.fields(Config):
        flag, text = f"--{field.name.replace('_', '-')}", field.metadata["help"]
        if isinstance(field.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default, help=text)
        else:
            shown = text if "[default" in text else f"{text} [default: {field.default}]"
            parser.add_argument(
                flag,
                type=type(field.default),
                default=field.default,
                help=shown,
                choices=field.metadata["choices"] or None,
                metavar=None if field.metadata["choices"] else type(field.default).__name__.upper(),
            )
    try:
        return Config(**vars(parser.parse_args(arguments)))
    except ValueError as error:
        parser.error(str(error))
