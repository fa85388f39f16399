"""Programs that the server has and a node may lack."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import Query
from starlette.responses import FileResponse

from drumbeat.model.errors import NotFoundError
from drumbeat.model.stacks import DIGEST_HEADER, PY_SPY
from drumbeat.server.context import away
from drumbeat.server.nodes.agent_api.sync import PREFIX, Admitted
from drumbeat.server.routing import new_router

router = new_router(PREFIX, tags=["agents"])

FIX = "Install it beside the server (pip install py-spy), or on the nodes."


@router.get("/tools/{name}")
async def get_tool(name: str, caller: Admitted, machine: Annotated[str, Query(max_length=40)]) -> FileResponse:
    """A program for machines of this kind; the hash of its content is in a header."""
    del caller
    path = _path(name, machine)
    digest = await away(lambda: _digest(path, path.stat().st_mtime))
    return FileResponse(path, media_type="application/octet-stream", headers={DIGEST_HEADER: digest})


def _path(name: str, machine: str) -> Path:
    """The program's file on this machine. Raises NotFoundError."""
    if name != PY_SPY:
        raise NotFoundError("the server gives no such program", where=name[:80], fix=f"It gives {PY_SPY}.")
    if machine != platform.machine():
        what = f"the server's {name} is for {platform.machine()}, and the node is {machine}"
        raise NotFoundError(what, fix="Install py-spy on the node.")
    folders = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    path = shutil.which(name, path=folders)
    if not path:
        raise NotFoundError(f"the server has no {name}", fix=FIX)
    return Path(path)


@cache
def _digest(path: Path, changed_at: float) -> str:
    del changed_at
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
