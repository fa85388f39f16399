"""Names the adapters and puts them together. Only entry points import this."""

from __future__ import annotations

import os
import secrets
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from drumbeat.control.service import Control, Setting
from drumbeat.engines.local import LocalEngine


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some instant of the past."""
        return time.monotonic()


def make_control(home: Path) -> Control:
    """A control room whose state lies in `home`, with the engine of this machine."""
    from drumbeat.stores.folder import FolderArtifacts
    from drumbeat.stores.sql import make_store

    clock = SystemClock()
    local = LocalEngine(home / "nodes", home / "jobs")
    return Control(
        Setting(
            store=make_store(os.environ.get("DRUMBEAT_DATABASE") or home / "drumbeat.db"),
            artifacts=FolderArtifacts(home),
            engines={"local": local},
            clock=clock,
            key=_key(home / "key"),
            programs=str(Path(sys.executable).parent),
        )
    )


def _key(path: Path) -> bytes:
    """The server's own secret, made at the first start."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    return path.read_bytes()
