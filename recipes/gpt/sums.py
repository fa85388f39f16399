"""Text for a small language model, made here: sums in words, whose every right continuation is known.

    three and nine make twelve.
    zero and seven make seven.

The two numbers of a sentence can't be foreseen, and everything else follows from them. So the loss of a perfect model
is known, and a model of pairs of letters stays far above it.
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
LETTERS = "\n ." + "".join(sorted({letter for word in (*NUMBERS, "and", "make") for letter in word}))
CODE = {letter: number for number, letter in enumerate(LETTERS)}


def sentence(a: int, b: int) -> str:
    """`three and nine make twelve.` and the end of the line."""
    return f"{NUMBERS[a]} and {NUMBERS[b]} make {NUMBERS[a + b]}.\n"


def write(length: int, seed: int) -> str:
    """So many letters of text; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    shortest = len(sentence(6, 2))
    pairs = torch.randint(LARGEST + 1, (length // shortest + 1, 2), generator=generator).tolist()
    return "".join(sentence(a, b) for a, b in pairs)[:length]


def encode(text: str) -> Tensor:
    """The letters as numbers."""
    return torch.tensor([CODE[letter] for letter in text])


def floor() -> float:
    """The loss per letter of a perfect model: what is unknown of a sentence, over its mean length."""
    sums = [sentence(a, b) for a in range(LARGEST + 1) for b in range(LARGEST + 1)]
    return math.log(len(sums)) * len(sums) / sum(map(len, sums))


def loss_of_pairs(letters: Tensor) -> float:
    """The loss per letter of a model that knows how often each letter follows another, and nothing else."""
    counts = torch.zeros(len(LETTERS), len(LETTERS))
    counts.index_put_((letters[:-1], letters[1:]), torch.ones(len(letters) - 1), accumulate=True)
    likely = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return -(counts[counts > 0] * likely[counts > 0].log()).sum().item() / (len(letters) - 1)


class Batches:
    """The global batch of each step, drawn anew from the text; a rank takes its rows of it."""

    def __init__(self, letters: Tensor, rows: int, context: int, seed: int) -> None:
        self.letters, self.rows, self.context, self.seed = letters, rows, context, seed

    def take(self, step: int, shard: int = 0, shards: int = 1) -> tuple[Tensor, Tensor]:
        """Inputs and targets, (rows / shards, context): the same global batch for any number of shards."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        starts = torch.randint(len(self.letters) - self.context, (self.rows,), generator=generator)
        own = starts.view(shards, -1)[shard]
        windows = self.letters[own[:, None] + torch.arange(self.context + 1)]
        return windows[:, :-1], windows[:, 1:]
