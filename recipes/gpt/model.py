"""A small GPT whose layers can live in different processes.

Shapes: B batch, T positions, C channels, V words.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    """What the network is made of."""

    words: int
    context: int = 32
    layers: int = 4
    heads: int = 4
    channels: int = 64


class Attention(nn.Module):
    """Causal self-attention; the number of heads here follows from the weights, which may be a shard."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.of_head = size.channels // size.heads
        self.query, self.key, self.value, self.out = (nn.Linear(size.channels, size.channels) for _ in range(4))

    def forward(self, x_BTC: Tensor) -> Tensor:
        """Each position's mix of the values at and before it."""
        batch, length, _ = x_BTC.shape
        q, k, v = (
            layer(x_BTC).view(batch, length, -1, self.of_head).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    """Attention and a network of two layers, each added to its input."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(size.channels), nn.LayerNorm(size.channels)
        self.attention = Attention(size)
        self.wide, self.narrow = (
            nn.Linear(size.channels, 4 * size.channels),
            nn.Linear(4 * size.channels, size.channels),
        )

    def forward(self, x_BTC: Tensor) -> Tensor:
        """The same shape."""
        x_BTC = x_BTC + self.attention(self.norm_1(x_BTC))
        return x_BTC + self.narrow(functional.gelu(self.wide(self.norm_2(x_BTC))))


class GPT(nn.Module):
    """The whole network, or the part of it that `keep` leaves: the names of its weights stay those of the whole."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.words: nn.Embedding | None = nn.Embedding(size.words, size.channels)
        self.places: nn.Embedding | None = nn.Embedding(size.context, size.channels)
        self.blocks = nn.ModuleDict({str(number): Block(size) for number in range(size.layers)})
        self.norm: nn.LayerNorm | None = nn.LayerNorm(size.channels)
        self.head: nn.Linear | None = nn.Linear(size.channels, size.words)
        self.apply(_initialize)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, T, V) of words (B, T); a part takes and gives the hidden state (B, T, C) at its inner ends."""
        if self.words is not None and self.places is not None:
            x = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks.values():
            x = block(x)
        return x if self.norm is None or self.head is None else self.head(self.norm(x))

    def keep(self, stage: int, stages: int) -> "GPT":
        """Drops what the other stages have."""
        each, rest = divmod(self.size.layers, stages)
        if each == 0 or rest:
            raise SystemExit(f"{self.size.layers} layers can't be divided into {stages} equal stages")
        kept = {str(number) for number in range(stage * each, (stage + 1) * each)}
        self.blocks = nn.ModuleDict({name: block for name, block in self.blocks.items() if name in kept})
        if stage > 0:
            self.words = self.places = None
        if stage < stages - 1:
            self.norm = self.head = None
        return self


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def loss_of(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean cross entropy per word."""
    return functional.cross_entropy(logits_BTV.flatten(0, 1).float(), targets_BT.flatten())
