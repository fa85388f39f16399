"""The variables that a server reads from its environment once, when it starts."""

from __future__ import annotations

import os
from pathlib import Path

from drumbeat.protocol.api.server import ServerView

_READ_AT_START = (
    "SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "DRUMBEAT_OTLP", "DRUMBEAT_LOG_FORMAT", "DRUMBEAT_MLFLOW",
    "DRUMBEAT_DATABASE", "DRUMBEAT_SHARED", "DRUMBEAT_ALLOW_PUBLIC", "DRUMBEAT_SPARE_S",
)  # fmt: skip


def unused_variables(server: ServerView) -> list[str]:
    """Returns those that are set here and that the server, which was started before, has another value of or lacks.

    A server on another machine, or of another user, can't be asked: for that, the list is empty.
    """
    from drumbeat.client.discovery import here

    machine = here()
    if (server.host, server.boot_id) != (machine.host, machine.boot_id):
        return []
    try:
        entries = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
    return [name for name in _READ_AT_START if name in os.environ and _entry(name) not in entries]


def _entry(name: str) -> bytes:
    return os.fsencode(f"{name}={os.environ[name]}")
