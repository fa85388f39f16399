"""Builds an image from a Dockerfile once on a node: finds it, waits for the agent that builds it, or builds it."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from drumbeat.launchers.container_command import ContainerEngine, build_line
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plan import BUILT, Container, ImageBuild
from drumbeat.node.environments.folders import EnvironmentFolder
from drumbeat.node.environments.garbage_collection import collect
from drumbeat.node.images import build_errors, container_engine, inspection
from drumbeat.node.inputs.snapshots import bring
from drumbeat.node.logs.node_log import NodeLog
from drumbeat.node.platform import cache_folders
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.supervisor.node_tasks import NodeTasks, TaskCommand

# --- records ---
#
# The records of the images that a node has built: in the cache, one folder for each storage of images.
#
# The image itself is in the container engine's storage. Locks, pins and the time of the last use work as for
# environments.


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


def record_folder(engine: ContainerEngine) -> str:
    """The folder of the records of this engine's images. Raises RefusedError."""
    parts = f"{socket.gethostname()} {engine.kind} {container_engine.storage(engine)}"
    return os.path.abspath(f"{cache_folders.folder('images')}/{hashlib.sha256(parts.encode()).hexdigest()[:12]}")


NODE_TASK = "image build"
_READ = 256 << 10
_TAIL_LINES = 60
_LOOK_S, _MAX_LOOK_S = 1.0, 15.0
"""How often the other nodes ask a registry for the image that node 0 builds."""
_REGISTRY_TIMEOUT_S = 120.0
"""How long a registry may fail otherwise than by not having the image."""


@dataclass(frozen=True)
class ImageBuildRequest:
    """An image to build on this node."""

    image: str
    build: ImageBuild
    access: container_engine.Access
    tell: Callable[[str], None]
    """Adds a line to the log."""


class ImageBuilder:
    """Builds the image of one attempt. progress: receives messages."""

    def __init__(
        self,
        enrolment: Enrolment,
        engine: ContainerEngine,
        log: NodeLog,
        node_tasks: NodeTasks,
        progress: Callable[[str], None],
    ) -> None:
        self._enrolment, self._root, self._engine = enrolment, enrolment.root, engine
        self._log, self._node_tasks, self._progress = log, node_tasks, progress
        self._earlier_failure: dict[str, Any] | None = None
        """The failure that was recorded before this build."""

    def provide(self, wanted: Container, access: container_engine.Access, tell: Callable[[str], None]) -> None:
        """Provides the image, pinned for this attempt. Raises RefusedError when it can't be built."""
        if wanted.build is None:
            raise ValueError("nothing is to be built")
        work = ImageBuildRequest(wanted.image, wanted.build, access, tell)
        folder = record_folder(self._engine)
        place = ImagePlace(f"{folder}/{work.build.key[:32]}", self._engine)
        self._earlier_failure = place.failed()
        try:
            self._await_push(place, work)
            while not self._use(place):
                with place.held(shared=False, waits=partial(self._waits, work.build)) as lock:
                    if place.made() is None and lock is not None:
                        self._make(place, work, lock)
            self._push(place, work)
        except OSError as error:
            raise StorageError(
                f"image {work.build.source} can't be built: {error.strerror or error}",
                where=str(error.filename or place.folder),
                fix="Free space or make the folder writable; DRUMBEAT_CACHE sets another folder.",
            ) from error

    def _use(self, place: EnvironmentFolder) -> bool:
        with place.held(shared=True, waits=lambda: None):
            if place.made() is None:
                return False
            place.use(self._root)
            return True

    def _waits(self, build: ImageBuild) -> None:
        self._progress(f"image {build.source}: another job on this machine is building it")

    # --- one node builds it, the others pull it -------------------------------------------------------------------
    def _await_push(self, place: ImagePlace, work: ImageBuildRequest) -> None:
        """Pulls the image after node 0 has built and pushed it. Raises RefusedError if the
        registry can't be reached.
        """
        pushed_as = work.build.pushed_as
        if not pushed_as or self._enrolment.node == 0:
            return
        backoff, failing_since = Backoff(_LOOK_S, _MAX_LOOK_S), 0.0
        while place.made() is None:
            answer = container_engine.pull(self._engine, pushed_as, work.access, lambda _: None)
            if not answer:
                with place.held(shared=False, waits=partial(self._waits, work.build)):
                    self._keep_pulled(place, work)
                return
            if container_engine.is_missing(answer):
                failing_since = 0.0
                self._progress(f"image {work.build.source}: node 0 is building it and pushes it as {pushed_as}")
            else:
                failing_since = failing_since or time.monotonic()
                self._progress(f"image {work.build.source}: {pushed_as} can't be pulled yet: {answer[:200]}")
                if time.monotonic() - failing_since > _REGISTRY_TIMEOUT_S:
                    container_engine.fetch(self._engine, pushed_as, work.access, work.tell)
            backoff.wait()

    def _keep_pulled(self, place: ImagePlace, work: ImageBuildRequest) -> None:
        """Records a pulled image like a built one. The caller holds the exclusive lock."""
        pushed_as = work.build.pushed_as
        if place.made() is None:
            place.unmake()
            container_engine.take_name(self._engine, pushed_as, work.image)
            self._mark(place, work, pushed_as)
            self._log.say(f"image {work.build.source} was pulled as {pushed_as}")

    def _push(self, place: ImagePlace, work: ImageBuildRequest) -> None:
        """Pushes node 0's image every time that other nodes wait for it, because registries may lose images. Raises
        RefusedError.
        """
        pushed_as, noted = work.build.pushed_as, place.record() or {}
        if not pushed_as or self._enrolment.node:
            return
        if self._enrolment.plan.nodes > 1 or noted.get("pushed_as") != pushed_as:
            self._progress(f"image {work.build.source}: pushing it as {pushed_as}")
            container_engine.push(self._engine, work.image, pushed_as, work.access, work.tell)
            with place.held(shared=False, waits=partial(self._waits, work.build)):
                place.mark_made({**noted, "pushed_as": pushed_as})

    # --- building it ----------------------------------------------------------------------------------------------
    def _make(self, place: ImagePlace, work: ImageBuildRequest, lock: int) -> None:
        """Builds the image. The caller holds the exclusive lock. The engine has cached the
        steps of interrupted builds.
        """
        self._share_failure(place)
        build, began = work.build, time.monotonic()
        if build.pushed_as and not container_engine.pull(self._engine, build.pushed_as, work.access, lambda _: None):
            self._keep_pulled(place, work)
            return
        self._progress(f"image {build.source}: building it with {self._engine.kind}")
        self._log.say(f"building image {build.source} with {self._engine.kind}, as {work.image}")
        place.unmake()
        context = self._context(build)
        try:
            text = _read(build, context)
            for base in build.bases:
                container_engine.fetch(self._engine, base, work.access, work.tell)
            self._build(work, context, text, lock)
        except RefusedError as error:
            place.mark_failed(error.what, self._log.tail(_TAIL_LINES))
            raise
        failpoint("image.built")
        image = self._mark(place, work)
        self._log.say(f"image {build.source} was built in {time.monotonic() - began:.1f} s: {image.digest}")
        self._collect(place)

    def _mark(self, place: ImagePlace, work: ImageBuildRequest, pushed_as: str = "") -> inspection.Image:
        """Records that the image exists. pushed_as: its name in a registry that has it."""
        image = inspection.look(self._engine, work.image)
        os.makedirs(place.folder, exist_ok=True)
        record = {"image": work.image, "source": work.build.source, "digest": image.digest, "size": image.size}
        place.mark_made(record | ({"pushed_as": pushed_as} if pushed_as else {}))
        return image

    def _share_failure(self, place: EnvironmentFolder) -> None:
        """Raises the failure of another agent's build that this one waited for, instead of trying the same again."""
        failure = place.failed()
        if failure and failure != self._earlier_failure:
            self._log.say("another job on this machine failed to build the same image:")
            self._log.add(failure["tail"])
            raise RefusedError(failure["what"])

    def _context(self, build: ImageBuild) -> str:
        """The folder with the Dockerfile, below the attempt's folder."""
        place = f"{self._root}/context"
        if not os.path.isdir(place):
            self._progress(f"image {build.source}: fetching its folder")
            bring(ServerLink(self._enrolment), build.context, place, self._progress)
        return place

    def _build(self, work: ImageBuildRequest, context: str, text: str, lock: int) -> None:
        at, began = self._log.size(), time.monotonic()

        def meanwhile() -> None:
            line = self._log.last_line(at)
            suffix = f": {line[:120]}" if line else ""
            self._progress(f"image {work.build.source}: {self._engine.kind}, {time.monotonic() - began:.0f} s{suffix}")

        line = build_line(self._engine, work.image, context, work.build)
        environment = {**os.environ, **_PLAIN, **work.access.variables()}
        command = TaskCommand(
            line, context, environment, self._log.path, kept=(lock,), confinement="subreaper", meanwhile=meanwhile
        )
        code = self._node_tasks.run(NODE_TASK, command)
        if code:
            output = self._log.read(at, _READ)
            what = build_errors.explain(work.build, text, self._engine.kind, output, code)
            raise RefusedError(what, fix=f"Full output: {self._log.told_by}")

    def _collect(self, place: EnvironmentFolder) -> None:
        made = partial(ImagePlace, engine=self._engine)
        for folder in collect(os.path.dirname(place.folder), time.time(), open_folder=made):
            self._log.say(f"removed image {os.path.basename(folder)[:12]}, which was unused")


_PLAIN: Mapping[str, str] = {"BUILDKIT_PROGRESS": "plain", "DOCKER_BUILDKIT": "1"}


def _read(build: ImageBuild, context: str) -> str:
    """The text of the Dockerfile. Raises RefusedError."""
    try:
        with open(f"{context}/{build.dockerfile}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        fix = "Is it named in an ignore file of its folder, .amlignore or .gitignore?"
        raise RefusedError(f"{build.source} is missing on the node", where="environment.build", fix=fix) from None
