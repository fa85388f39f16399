"""Files that other processes read while they are replaced."""

from __future__ import annotations

import os
import secrets


def write_whole(path: str, text: str, mode: int = 0o700) -> None:
    """Replaces the file at once: a reader sees the old text or the new one. Raises OSError."""
    part = f"{path}.{secrets.token_hex(4)}.part"  # Nodes in PID namespaces of their own have the same pids.
    with open(part, "w", encoding="utf-8", opener=lambda name, how: os.open(name, how, mode)) as file:
        file.write(text)
    os.replace(part, path)
