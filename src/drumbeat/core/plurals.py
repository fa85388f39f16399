"""Small parts of sentences."""

from __future__ import annotations

from collections.abc import Sequence


def counted(n: int, what: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def name_ranks(ranks: Sequence[int], most: int) -> str:
    """`rank 3`, `ranks 0, 1 and 3`; `12 ranks` where there are more than `most`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > most:
        return f"{len(ranks)} ranks"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
