"""The records of the images that a node has built: in the cache, one folder for each storage of images.

The image itself is in the container engine's storage. Locks, pins and the time of the last use work as for
environments.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from typing import Any

from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.model.plan import BUILT
from drumbeat.node.environments.folders import EnvironmentFolder
from drumbeat.node.images import container_engine
from drumbeat.node.platform import cache_folders


@dataclass(frozen=True)
class ImagePlace(EnvironmentFolder):
    """The record of one image, built or not."""

    engine: ContainerEngine

    def made(self) -> dict[str, Any] | None:
        """The record of a complete image; None = there is none, or the engine no longer has the image."""
        record = self.record()
        return record if record and container_engine.has(self.engine, str(record["image"])) else None

    def forget(self) -> None:
        """Removes the record, unless a container uses the image, which may exist without a mark."""
        image = f"{BUILT}:{os.path.basename(self.folder)}"
        if container_engine.remove(self.engine, image):
            super().forget()

    def unmake(self) -> None:
        """Removes the image, too; layers that other images share stay."""
        if record := self.record():
            container_engine.remove(self.engine, str(record["image"]))
        super().unmake()


def folder(engine: ContainerEngine) -> str:
    """The folder of the records of this engine's images. Raises RefusedError."""
    parts = f"{socket.gethostname()} {engine.kind} {container_engine.storage(engine)}"
    return os.path.abspath(f"{cache_folders.folder('images')}/{hashlib.sha256(parts.encode()).hexdigest()[:12]}")
