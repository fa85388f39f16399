"""Ages and durations as a user types them: `30d`, `12h`."""

from __future__ import annotations

from datetime import timedelta

from drumbeat.model.errors import RefusedError

MAX_DAYS = 36_500
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def parse_age(text: str, option: str) -> timedelta:
    """Parses `30d`, `12h`, `90m`, `45s`, `2w`. Raises RefusedError."""
    number, unit = text.strip()[:-1], text.strip()[-1:].lower()
    try:
        age = timedelta(seconds=float(number) * UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        age = timedelta(-1)
    if not timedelta(0) <= age <= timedelta(days=MAX_DAYS):
        what = f"cannot read {text!r} as a duration"
        raise RefusedError(what, where=option, fix="Write a number and a unit: 30d, 12h, 90m, 45s or 2w.")
    return age
