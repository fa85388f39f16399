"""drumbeat's curated environments for tests and the matrix: a job that does nothing has each made once, in `.cache`."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from drumbeat import Client
from drumbeat.model.api.jobs import JobView
from tests.real.guard import guarded
from tools.kept_folder import KEPT

NODES = KEPT / "drumbeat"
"""What a server that is started with DRUMBEAT_CACHE set to it has its nodes keep there."""
PATIENCE_S = 2400
PAUSE_S = 45
"""Before the second try: a package index has bad moments."""
_TELLS = "python -c 'import pip; print(pip.__file__)'"
"""Where its packages lie: `sys.prefix` is the job's own layer."""


def without_compiler() -> str:
    """What this machine lacks to build packages from source, "" = nothing."""
    lacks = [package for program, package in (("c++", "g++"), ("make", "make")) if shutil.which(program) is None]
    return f"needs a C++ compiler and make: apt-get install {' '.join(lacks)}" if lacks else ""


def folder(environment: str) -> Path:
    """Where it is; it is made when it isn't there. Raises LookupError when it can't be."""
    KEPT.mkdir(parents=True, exist_ok=True)
    note = KEPT / f"environment-{environment}"
    with note.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = Path(note.read_text()) if note.exists() else None
        if found is None or not (found / "bin" / "python").exists():
            found = _make(environment)
            note.write_text(str(found))
        return found


def _make(environment: str) -> Path:
    before = os.environ.get("DRUMBEAT_CACHE")
    # The guard ends the server, which is detached, and its job also when this process is killed.
    with tempfile.TemporaryDirectory(prefix="drumbeat-curated-") as home, guarded(Path(home)):
        os.environ["DRUMBEAT_CACHE"] = str(NODES)  # The server that is started hands it on to its agents.
        client = Client(home=home)
        try:
            ended = _run(client, environment)
            if ended is None or ended.state != "completed":
                time.sleep(PAUSE_S)
                ended = _run(client, environment)
            if ended is None or ended.state != "completed":
                raise LookupError(f"{environment} can't be made: {ended.sentence if ended else 'it takes too long'}")
            said = "".join(piece.text for piece in client.logs(ended.name) if piece.rank >= 0)
            return Path(said.split()[-1]).parents[4]
        finally:
            client.stop(force=True)
            client.close()
            if before is None:
                del os.environ["DRUMBEAT_CACHE"]
            else:
                os.environ["DRUMBEAT_CACHE"] = before


def _run(client: Client, environment: str) -> JobView | None:
    return client.wait(client.submit({"command": _TELLS, "environment": environment}).name, PATIENCE_S)
