"""Text for a small language model, made here: sums in words, whose every right continuation is known.

    three and nine make twelve .
    zero and seven make seven .

The two numbers of a sentence can't be foreseen, and everything else follows from them. So the loss of a perfect model
is known, and a model that knows only which word follows which stays far above it.
"""

import math

import torch
from torch import Tensor

NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
)  # fmt: skip
LARGEST = 9
"""Of the two numbers that are added."""
WORDS = (*NUMBERS, "and", "make", ".")
CODE = {word: number for number, word in enumerate(WORDS)}


def sentence(a: int, b: int) -> list[str]:
    """`three and nine make twelve .`, word by word."""
    return [NUMBERS[a], "and", NUMBERS[b], "make", NUMBERS[a + b], "."]


def write(sentences: int, seed: int) -> Tensor:
    """So many sentences as numbers, a word each; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(LARGEST + 1, (sentences, 2), generator=generator).tolist()
    return encode([word for a, b in pairs for word in sentence(a, b)])


def encode(words: list[str]) -> Tensor:
    """The words as numbers."""
    return torch.tensor([CODE[word] for word in words])


def floor() -> float:
    """The loss per word of a perfect model: the two numbers of a sentence are unknown."""
    return 2 * math.log(LARGEST + 1) / len(sentence(0, 0))


def loss_of_pairs(text: Tensor) -> float:
    """The loss per word of a model that knows how often each word follows another, and nothing else."""
    counts = torch.zeros(len(WORDS), len(WORDS))
    counts.index_put_((text[:-1], text[1:]), torch.ones(len(text) - 1), accumulate=True)
    likely = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return -(counts[counts > 0] * likely[counts > 0].log()).sum().item() / (len(text) - 1)


class Batches:
    """The global batch of each step, drawn from the text; a rank takes its rows of it."""

    def __init__(self, text: Tensor, rows: int, context: int, seed: int) -> None:
        self.text, self.rows, self.context, self.seed = text, rows, context, seed

    def take(self, step: int, shard: int = 0, shards: int = 1) -> tuple[Tensor, Tensor]:
        """Inputs and targets, (rows / shards, context): the same global batch for any number of shards."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        starts = torch.randint(len(self.text) - self.context, (self.rows,), generator=generator)
        own = starts.view(shards, -1)[shard]
        windows = self.text[own[:, None] + torch.arange(self.context + 1)]
        return windows[:, :-1], windows[:, 1:]
