"""Where cells run: a server in a home of its own, with a compute of an engine."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from drumbeat import Client
from drumbeat.model.errors import ConflictError
from tools.demo_on import ENGINES

OWN_ADDRESSES = {"kubernetes": "kubernetes-real"}
"""Of the ways in which an engine can be had here, the one whose nodes have addresses of their own."""
GIVES_BACK_S = 60.0


@dataclass(frozen=True)
class Place:
    """A server of the matrix's own with a compute."""

    client: Client
    compute: str
    folder: Path


@contextlib.contextmanager
def place_on(engine: str, folder: Path) -> Generator[Place]:
    """A server in a home of its own, and a compute of that engine with three nodes; SIGTERM ends them too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(ENGINES[OWN_ADDRESSES.get(engine, engine)](3, folder)) if engine != "local" else None
        client = stack.enter_context(Client(home=folder / "home"))
        stack.callback(lambda: client.stop(force=True))
        name = "local"
        if file:
            name = client.create_compute(file).name
            stack.callback(lambda: delete_compute(client, name))
        yield Place(client, name, folder)


def delete_compute(client: Client, compute: str) -> None:
    """Deletes a compute, once its jobs have given their nodes back: a moment after their ends."""
    deadline = time.monotonic() + GIVES_BACK_S
    while True:
        try:
            client.delete_compute(compute)
        except ConflictError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return
