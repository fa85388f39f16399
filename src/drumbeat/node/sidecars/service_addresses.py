"""The ports and sockets of a node's services: assigned when their round starts, and stored in a
file for later agents.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict

from drumbeat.launchers.services import VS_CODE, ServicePlace, has_process
from drumbeat.model.plan import ServicePlan
from drumbeat.node.platform.files import write_whole

__all__ = ["ServicePlace", "assign", "read"]


def assign(services: tuple[ServicePlan, ...], root: str) -> dict[str, ServicePlace]:
    """Assigns each service its port or socket for a round, and stores them. Raises OSError."""
    given = {one.name: _place(one, root) for one in services}
    write_whole(_file(root), json.dumps({name: asdict(place) for name, place in given.items()}), 0o600)
    return given


def read(root: str) -> dict[str, ServicePlace]:
    """The ports and sockets of the last round; empty before the first one."""
    with contextlib.suppress(OSError, ValueError, TypeError), open(_file(root), encoding="utf-8") as file:
        return {name: ServicePlace(**place) for name, place in json.load(file).items()}
    return {}


def _place(service: ServicePlan, root: str) -> ServicePlace:
    if service.type == VS_CODE:
        folder = os.path.join(root, "companions")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, f"{service.name}.sock")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return ServicePlace(socket=path)
    if service.port or not has_process(service):
        return ServicePlace(service.port)
    with socket.socket() as probe:  # The service takes the port at once; the kernel doesn't assign it again soon.
        probe.bind(("127.0.0.1", 0))
        return ServicePlace(probe.getsockname()[1])


def _file(root: str) -> str:
    return f"{root}/services.json"
