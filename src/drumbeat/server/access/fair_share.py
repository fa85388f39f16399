"""How much of a limited thing each sender of requests may have at once."""

from __future__ import annotations

from collections import Counter


class FairShare:
    """Divides something between senders without a fixed share: a sender may have as much as is still free.

    One sender alone therefore gets at most half, two a third each, and there is always room for the next one (Choudhury
    and Hahne, Dynamic queue length thresholds, 1998).
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken: Counter[str] = Counter()

    @property
    def free(self) -> int:
        """How much no sender has."""
        return self.most - self._taken.total()

    def of(self, sender: str) -> int:
        """How much a sender has."""
        return self._taken[sender]

    def take(self, sender: str, amount: int) -> bool:
        """Gives a sender more, or returns False where it would have too much."""
        if self._taken[sender] + amount > self.free - amount:
            return False
        self._taken[sender] += amount
        return True

    def give_back(self, sender: str, amount: int) -> None:
        """Takes it back."""
        self._taken[sender] -= amount
        if not self._taken[sender]:
            del self._taken[sender]
