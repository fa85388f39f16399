"""The token of a server's home, and the user to whom it belongs."""

from __future__ import annotations

import os
import pwd
import secrets
from pathlib import Path

from drumbeat.model.principal import USER_NAME
from drumbeat.server.home import first_written

TOKEN_BYTES = 32


def read_home_token(home: Path) -> str:
    """Returns the home's token, which is created at the first start and never expires. Its file has mode 0600."""
    path = home / "token"
    if not path.exists():
        first_written(path, secrets.token_urlsafe(TOKEN_BYTES).encode())
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path.read_text().strip()


def user_of_server() -> str:
    """Returns the operating system's name of the user as which the server runs: the user of the home's token."""
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # In a container, a user may have no name.
        name = ""
    return name if USER_NAME.fullmatch(name) else f"uid-{uid}"
