"""What is written down of the images that a node has built: in the cache, one folder for each storage of images.

The image itself lies in the container engine's storage. Locks, pins and the time of the last use are an environment's.
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
    """One image's, whether it is built or not."""

    engine: ContainerEngine

    def made(self) -> dict[str, Any] | None:
        """What `mark_made` wrote; None = it isn't there, or its image has gone since."""
        told = self.told()
        return told if told and container_engine.has(self.engine, str(told["image"])) else None

    def forget(self) -> None:
        """It stays while somebody's container is of its image, which may be there though nobody marked it as made."""
        image = f"{BUILT}:{os.path.basename(self.folder)}"
        if container_engine.remove(self.engine, image):
            super().forget()

    def unmake(self) -> None:
        """Removes its image too; other images that have layers of it keep these."""
        if told := self.told():
            container_engine.remove(self.engine, str(told["image"]))
        super().unmake()


def folder(engine: ContainerEngine) -> str:
    """Where the images of this engine's storage are written down. Raises RefusedError."""
    told = f"{socket.gethostname()} {engine.kind} {container_engine.storage(engine)}"
    return os.path.abspath(f"{cache_folders.folder('images')}/{hashlib.sha256(told.encode()).hexdigest()[:12]}")
