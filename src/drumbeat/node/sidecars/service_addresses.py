"""Where the services of a node listen: given when their round starts, and kept in a file for the agents after it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict

from drumbeat.launchers.services import VS_CODE, ServicePlace, has_process
from drumbeat.model.plan import ServicePlan
from drumbeat.node.platform.files import write_whole

__all__ = ["ServicePlace", "give", "read"]


def give(services: tuple[ServicePlan, ...], root: str) -> dict[str, ServicePlace]:
    """Gives each service its place for a round, and writes them down. Raises OSError."""
    given = {one.name: _place(one, root) for one in services}
    write_whole(_file(root), json.dumps({name: asdict(place) for name, place in given.items()}), 0o600)
    return given


def read(root: str) -> dict[str, ServicePlace]:
    """The places of the last round; none before the first one."""
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
    with socket.socket() as probe:  # The service takes it at once; the kernel doesn't give it again so soon.
        probe.bind(("127.0.0.1", 0))
        return ServicePlace(probe.getsockname()[1])


def _file(root: str) -> str:
    return f"{root}/services.json"
