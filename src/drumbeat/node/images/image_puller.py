"""Provides a job's image on this node, pulled with the server's credentials, or built."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Generator, Mapping
from typing import Any

from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import UnreachableError
from drumbeat.model.plan import Container
from drumbeat.node.images import container_engine, inspection
from drumbeat.node.logs.node_log import NodeLog
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.supervisor.node_tasks import NodeTasks

Say = Callable[[str], None]
_ACCESS = "registries"


class ImagePuller:
    """Provides the images of one attempt, pulled or built."""

    def __init__(self, enrolment: Enrolment, engine: ContainerEngine, log: NodeLog, node_tasks: NodeTasks) -> None:
        self._enrolment, self._engine = enrolment, engine
        self._log, self._node_tasks = log, node_tasks

    def have(self, wanted: Container, say: Say) -> inspection.Image:
        """Returns the image; removes the credentials afterwards. say: receives progress
        messages. Raises RefusedError.
        """

        def tell(line: str) -> None:
            self._log.add(line)
            say(line)

        with self._access(wanted, say) as access:
            if wanted.build is None:
                container_engine.fetch(self._engine, wanted.image, access, tell)
            else:
                from drumbeat.node.images.image_builder import ImageBuilder

                ImageBuilder(self._enrolment, self._engine, self._log, self._node_tasks, say).provide(
                    wanted, access, tell
                )
        return inspection.look(self._engine, wanted.image)

    @contextlib.contextmanager
    def _access(self, wanted: Container, say: Say) -> Generator[container_engine.Access]:
        """Gets the credentials of the job's registries from the server, in a folder that only this user can read."""
        scratch = self._scratch()
        if not wanted.registries:
            yield container_engine.Access(scratch=scratch)
            return
        answer = self._asked(say)
        folder = f"{self._enrolment.root}/{_ACCESS}"
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder, 0o700)
        try:
            _write_credentials(f"{folder}/config.json", answer["auths"])
            yield container_engine.Access(folder, tuple(answer["insecure"]), scratch)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _scratch(self) -> str:
        try:
            return container_engine.scratch(self._engine, self._enrolment.root)
        except OSError:  # There may be nothing to fetch; otherwise the engine reports the error.
            return ""

    def _asked(self, say: Say) -> dict[str, Any]:
        """The server's answer, after any time without a server."""
        link, backoff = ServerLink(self._enrolment), Backoff()
        while True:
            try:
                return link.registries()
            except UnreachableError as error:
                say(f"waiting for the credentials of registries: {error.what}")
                backoff.wait()


def _write_credentials(path: str, auths: Mapping[str, object]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "w", encoding="utf-8") as opened:
        json.dump({"auths": dict(auths)}, opened)
