"""Reads the audit log of a server, which `audit.py` writes: its file and the older ones beside it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from drumbeat.model.api.users import AuditLine

NAME = "audit.log"
OLDER = 3
"""How many older files are kept; number 1 is the youngest."""
MAX_LINES = 10_000
_LINE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3}Z?) (?P<who>\S+) (?P<role>\S+) (?P<method>\S+) (?P<path>\S*) "
    r"(?P<status>\d{3})(?: of (?P<of>\S+))?"
)


def read_audit_log(folder: Path, since: datetime | None, limit: int) -> list[AuditLine]:
    """Returns the newest lines, the oldest of them first. Lines that aren't whole are left out.

    since: leaves out those before; a time without zone is UTC.
    """
    oldest = since.replace(tzinfo=UTC) if since is not None and since.tzinfo is None else since
    lines = (one for one in _lines(folder) if oldest is None or one.at >= oldest)
    return list(deque(lines, limit))


def _lines(folder: Path) -> Iterator[AuditLine]:
    files = [folder / f"{NAME}.{n}" for n in range(OLDER, 0, -1)]
    for file in (*files, folder / NAME):
        try:
            with file.open(errors="replace") as content:
                for text in content:
                    if match := _LINE.fullmatch(text.rstrip("\n")):
                        yield _line(match)
        except FileNotFoundError:
            continue


def _line(match: re.Match[str]) -> AuditLine:
    given = match.groupdict()
    # A version before this one wrote the server's local time.
    at = datetime.fromisoformat(given["at"].replace(",", ".")).astimezone(UTC)
    return AuditLine(
        at, given["who"], given["role"], given["method"], given["path"], int(given["status"]), given["of"] or ""
    )
