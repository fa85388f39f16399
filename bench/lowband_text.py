"""Text whose loss has a known floor: each of a few letters is followed by one of four others, by fixed chances."""

import torch
from torch import Tensor

LETTERS, FOLLOWERS = 32, 4


class Chain:
    """The chances of every letter after every other; the same for the same seed."""

    def __init__(self, seed: int = 1) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.followers = torch.stack([torch.randperm(LETTERS, generator=draw)[:FOLLOWERS] for _ in range(LETTERS)])
        weights = torch.rand(LETTERS, FOLLOWERS, generator=draw) + 0.1
        self.chances = weights / weights.sum(dim=1, keepdim=True)

    def write(self, length: int, seed: int) -> Tensor:
        """So many letters, as numbers."""
        draws = torch.rand(length, generator=torch.Generator().manual_seed(seed)).tolist()
        limits, followers = self.chances.cumsum(dim=1)[:, :-1].tolist(), self.followers.tolist()
        letter, text = 0, []
        for draw in draws:
            letter = followers[letter][sum(draw >= limit for limit in limits[letter])]
            text.append(letter)
        return torch.tensor(text)

    def floor(self, text: Tensor) -> float:
        """The loss per letter of a model that knows the chances, on a text like this one."""
        share = torch.bincount(text, minlength=LETTERS) / len(text)
        return -(share * (self.chances * self.chances.log()).sum(dim=1)).sum().item()


def windows(text: Tensor, starts: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets, (starts, context)."""
    taken = text[starts[:, None] + torch.arange(context + 1)]
    return taken[:, :-1], taken[:, 1:]
