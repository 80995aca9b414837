"""Text as bytes, and which window of it each sample is.

The order is a pure function of (seed, sample number): any split over ranks and micro-batches gives the same global
batch, and the whole state of the data is one integer, the step.
"""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

VALIDATION_SHARE = 0.02


class DataError(Exception):
    """The data cannot be used; the message says why."""


def load_bytes(place: str, most: int) -> Tensor:
    """The text of a file, or of all text files of a folder in the order of their names, as uint8 [S]."""
    root = Path(place) if place else Path(sysconfig.get_paths()["stdlib"])
    if not root.exists():
        raise DataError(f"{root} does not exist")
    files = [root] if root.is_file() else sorted(root.rglob("*.py" if not place else "*"))
    pieces, size = [], 0
    for file in files:
        if not file.is_file() or "site-packages" in file.parts:
            continue
        try:
            piece = file.read_bytes()[: most - size]
        except OSError:
            continue
        pieces.append(piece)
        size += len(piece)
        if size >= most:
            break
    if size < 1000:
        raise DataError(f"{root} holds only {size} bytes of text")
    return torch.from_numpy(np.frombuffer(b"".join(pieces), dtype=np.uint8).copy())


class Windows:
    """Windows of ``context`` + 1 bytes. Sample number → window, the same on every rank and at every resume."""

    def __init__(self, text_S: Tensor, context: int, seed: int) -> None:
        cut = int(len(text_S) * (1 - VALIDATION_SHARE))
        self.train_S, self.held_S = text_S[:cut], text_S[cut:]
        if len(self.held_S) < 2 * context:
            raise DataError(f"{len(text_S)} bytes are too few for windows of {context}")
        self.context, self.seed = context, seed

    def _offset(self, sample: int, room: int) -> int:
        digest = hashlib.blake2b(f"{self.seed}:{sample}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % room

    def batch(self, first: int, count: int, *, held_out: bool = False) -> tuple[Tensor, Tensor]:
        """Tokens and targets [B, T] of the samples ``first`` … ``first + count - 1``."""
        text_S = self.held_S if held_out else self.train_S
        room = len(text_S) - self.context - 1
        starts = [self._offset(sample, room) for sample in range(first, first + count)]
        rows_BS = torch.stack([text_S[start : start + self.context + 1] for start in starts]).long()
        return rows_BS[:, :-1].contiguous(), rows_BS[:, 1:].contiguous()
