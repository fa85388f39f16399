"""Golden files: what a version that users have wrote, and what this one says less or otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

FOLDER = Path(__file__).parents[1] / "golden" / "v0.2.0"


def differences(golden: Any, now: Any, at: str = "") -> Iterator[str]:
    """Yields a line for each value of a golden document that isn't in today's; keys that only today's has are fine."""
    if isinstance(golden, dict) and isinstance(now, dict):
        before, after = cast("dict[str, Any]", golden), cast("dict[str, Any]", now)
        yield from (f"{at}.{key}: {before[key]!r} is missing" for key in before if key not in after)
        for key in filter(after.__contains__, before):
            yield from differences(before[key], after[key], f"{at}.{key}")
    elif isinstance(golden, list) and isinstance(now, list):
        listed, found = cast("list[Any]", golden), cast("list[Any]", now)
        if len(listed) != len(found):
            yield f"{at}: was a list of {len(listed)}, is one of {len(found)}"
        for n, (one, other) in enumerate(zip(listed, found, strict=False)):
            yield from differences(one, other, f"{at}[{n}]")
    elif golden != now or isinstance(golden, bool) != isinstance(now, bool):
        yield f"{at}: was {golden!r}, is {now!r}"
