"""Parts of sentences: numbers with their nouns, and shortened lists."""

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


def list_first(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """`a, b, c`; `a, b and 5 more` where there are more than `most`."""
    if len(items) > most:
        before_more = "" if separator == ", " else separator.rstrip()
        return f"{separator.join(items[:most])}{before_more} and {len(items) - most} more"
    return separator.join(items)


def name_some(names: Sequence[str], most: int = 3) -> str:
    """`a`, `a, b and c`; `a, b, c and 2 more` where there are more than `most`."""
    if 1 < len(names) <= most:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return list_first(names, most)


def format_about(seconds: float) -> str:
    """Returns a time no more exactly than an estimate is: `14 min`, `3 h`, `2 days`."""
    minutes = max(1, round(seconds / 60))
    if minutes < 100:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{hours} h" if hours < 48 else counted(round(seconds / 86_400), "day")
