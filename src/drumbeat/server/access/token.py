"""The token of a server's home, which every request of a person needs."""

from __future__ import annotations

import secrets
from pathlib import Path

from drumbeat.server.home import first_written

TOKEN_BYTES = 32


def token_of(home: Path) -> str:
    """Returns the token of this home, which is made at the first start and never expires; its file has mode 0600."""
    path = home / "token"
    if not path.exists():
        first_written(path, secrets.token_urlsafe(TOKEN_BYTES).encode())
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path.read_text().strip()
