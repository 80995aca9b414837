"""A decoder-only transformer of the Llama kind. It knows nothing of devices, ranks or files.

Tensor names carry their shape: B batch, T time (tokens), D model width, H heads, K key/value heads, E head size,
V vocabulary, N = B*T rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trainer.config import Config

VOCABULARY = 256  # bytes
ROPE_BASE = 10_000.0
NORM_EPS = 1e-5
# Rows of logits at once: with a vocabulary of tens of thousands the logits would be the largest tensor by far.
LOSS_ROWS = 2048


def rotary_tables(context: int, head_size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [T, E] of rotary position embedding (Su et al., RoFormer, 2021)."""
    inverse_E2 = ROPE_BASE ** (-torch.arange(0, head_size, 2).float() / head_size)
    angle_TE = torch.outer(torch.arange(context).float(), inverse_E2).repeat(1, 2)
    return angle_TE.cos(), angle_TE.sin()


def rotate(x_BHTE: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
    """Turn pairs (i, i + E/2) by their position's angle."""
    left, right = x_BHTE.chunk(2, dim=-1)
    return x_BHTE * cos_TE + torch.cat((-right, left), dim=-1) * sin_TE


class Attention(nn.Module):
    """Causal grouped-query attention."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = config.heads, config.kv_heads, config.width // config.heads
        self.q_proj = nn.Linear(config.width, self.heads * self.size, bias=False)
        self.k_proj = nn.Linear(config.width, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(config.width, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, config.width, bias=False)

    def forward(self, x_BTD: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
        B, T, _ = x_BTD.shape
        q_BHTE = self.q_proj(x_BTD).view(B, T, self.heads, self.size).transpose(1, 2)
        k_BKTE = self.k_proj(x_BTD).view(B, T, self.kv_heads, self.size).transpose(1, 2)
        v_BKTE = self.v_proj(x_BTD).view(B, T, self.kv_heads, self.size).transpose(1, 2)
        q_BHTE, k_BKTE = rotate(q_BHTE, cos_TE, sin_TE), rotate(k_BKTE, cos_TE, sin_TE)
        y_BHTE = F.scaled_dot_product_attention(
            q_BHTE.to(v_BKTE.dtype),
            k_BKTE.to(v_BKTE.dtype),
            v_BKTE,
            is_causal=True,
            enable_gqa=self.kv_heads != self.heads,
        )
        return self.o_proj(y_BHTE.transpose(1, 2).reshape(B, T, -1))


class FeedForward(nn.Module):
    """SwiGLU (Shazeer, 2020)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden = -(-8 * config.width // 3 // 32) * 32
        self.gate_proj = nn.Linear(config.width, hidden, bias=False)
        self.up_proj = nn.Linear(config.width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, config.width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x_BTD)) * self.up_proj(x_BTD))


class Block(nn.Module):
    """Attention and feed-forward, each on a normed copy added back."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.mlp = FeedForward(config)

    def forward(self, x_BTD: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
        x_BTD = x_BTD + self.self_attn(self.input_layernorm(x_BTD), cos_TE, sin_TE)
        return x_BTD + self.mlp(self.post_attention_layernorm(x_BTD))


class Llama(nn.Module):
    """Tokens in, summed cross-entropy (with targets) or logits out."""

    cos_TE: Tensor
    sin_TE: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, config.width)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.lm_head = nn.Linear(config.width, VOCABULARY, bias=False)
        cos_TE, sin_TE = rotary_tables(config.context, config.width // config.heads)
        self.register_buffer("cos_TE", cos_TE, persistent=False)
        self.register_buffer("sin_TE", sin_TE, persistent=False)
        self.apply(self._start)
        for name, weight_DD in self.named_parameters():
            # Each block adds twice to the stream; smaller last matrices keep its variance (GPT-2).
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.normal_(weight_DD, std=0.02 / (2 * config.layers) ** 0.5)

    @staticmethod
    def _start(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor | None = None) -> Tensor:
        """The sum of the tokens' losses [] with targets, else logits [B, T, V]."""
        T = tokens_BT.shape[1]
        x_BTD = self.embed_tokens(tokens_BT)
        for block in self.layers:
            x_BTD = block(x_BTD, self.cos_TE[:T], self.sin_TE[:T])
        x_BTD = self.norm(x_BTD)
        if targets_BT is None:
            return self.lm_head(x_BTD)
        return chunked_loss(self.lm_head, x_BTD.flatten(0, 1), targets_BT.flatten())

    def flops_per_token(self, context: int) -> float:
        """Forward and backward: 6 for each weight of a matrix, 12 L D T for attention (PaLM, appendix B)."""
        weights = sum(p.numel() for p in self.parameters()) - self.embed_tokens.weight.numel()
        return 6.0 * weights + 12.0 * len(self.layers) * self.embed_tokens.embedding_dim * context


def chunked_loss(head: nn.Module, x_ND: Tensor, targets_N: Tensor) -> Tensor:
    """Summed cross-entropy, some rows at a time; their logits are made again in the backward pass, not kept."""

    def rows(x_RD: Tensor, targets_R: Tensor) -> Tensor:
        return F.cross_entropy(head(x_RD).float(), targets_R, reduction="sum")

    if len(x_ND) <= LOSS_ROWS:
        return rows(x_ND, targets_N)
    parts: Iterator[tuple[Tensor, Tensor]] = zip(x_ND.split(LOSS_ROWS), targets_N.split(LOSS_ROWS), strict=True)
    return sum(
        (checkpoint(rows, x, t, use_reentrant=False) for x, t in parts), start=x_ND.new_zeros((), dtype=torch.float32)
    )


@torch.no_grad()
def generate(
    model: Llama, prompt: bytes, count: int, context: int, generator: torch.Generator, temperature: float = 0.8
) -> bytes:
    """``count`` bytes after ``prompt``, drawn one by one."""
    device = model.embed_tokens.weight.device
    tokens = list(prompt)
    for _ in range(count):
        window_BT = torch.tensor([tokens[-context:]], device=device)
        logits_V = model(window_BT)[0, -1].float().cpu()
        tokens.append(int(torch.multinomial((logits_V / temperature).softmax(-1), 1, generator=generator)))
    return bytes(tokens)
