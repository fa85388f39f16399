"""Takes an environment over from the node that has made it, and hands on what this node makes."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.environment_manifest import (
    MADE,
    MAKE,
    RENEWAL_S,
    EnvironmentAnswer,
)
from drumbeat.model.errors import DrumbeatError, NotFoundError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.small_file_bundles import MOST, PIECE, SMALL
from drumbeat.node.environments import interpreters, manifest
from drumbeat.node.environments.folders import EnvironmentFolder
from drumbeat.node.environments.manifest import MadeEnvironment, OwnFile
from drumbeat.node.environments.relocation import NotRelocatableError
from drumbeat.node.inputs.cache.eviction import in_words
from drumbeat.node.inputs.fetching.peer_server import DataServer
from drumbeat.node.inputs.handed import contents, layout, own_environments
from drumbeat.node.inputs.handed.environment_link import EnvironmentLink

_LOOK_S = 0.5
"""How often a node that waits asks."""
_ASKS_PER_S = 200
"""Of all nodes of an attempt together, while they wait."""
_OTHERS_S = 1.5
"""How long a node waits for another one of its attempt to say that it has the environment, before it makes it."""
_MAX_AFTER_S = 120.0
"""How long the end of an attempt may wait until the server has what was made in it, and no longer than making it took.
"""
_NO_SERVER_S = 20.0
"""How long a server that doesn't answer is asked, before the node makes the environment itself."""


class EnvironmentExchange:
    """The environment of one attempt, among the nodes of its platform. serving: passes files on within the attempt.

    The server says which node makes it. Whatever fails here, the node can still make the environment itself.
    """

    def __init__(self, enrolment: Enrolment, serving: DataServer | None, say: Callable[[str], None]) -> None:
        self._enrolment, self._serving, self._say = enrolment, serving, say
        self._renewal: _Renewal | None = None
        self._handing: threading.Thread | None = None
        self._began, self._made_s = 0.0, 0.0

    # --- taking over --------------------------------------------------------------------------------------------------
    def receive(self, place: EnvironmentFolder, name: str, progress: Callable[[str], None]) -> dict[str, Any] | None:
        """Brings the environment; returns the record with which it is to be marked as made. None = this node makes it,
        and then calls `hand_on` or `give_up`. The folder isn't there before, and with None not afterwards.
        """
        key, rejected, is_first = _key(place), "", self._enrolment.plan.nodes > 1
        link = EnvironmentLink(self._enrolment, key)
        while True:
            answer = self._ask(link, rejected)
            if answer is None:
                return None
            if answer.state == MAKE and is_first:
                is_first = False
                time.sleep(_OTHERS_S)
                continue
            if answer.state == MAKE:
                self._began = time.monotonic()
                self._renewal = _Renewal(self._enrolment, key)
                return None
            if answer.state != MADE:
                progress(f"environment {name}: {answer.by} is making it{_in_words(answer.progress)}")
                time.sleep(max(_LOOK_S, self._enrolment.plan.nodes / _ASKS_PER_S))
                continue
            try:
                return self._take_over(link, place, name, answer, progress)
            except (DrumbeatError, OSError, NotRelocatableError) as error:
                place.unmake()
                self._say(f"environment {name} can't be taken over from another node: {error}")
                if answer.digest == rejected:
                    return None
                rejected = answer.digest

    def _ask(self, link: EnvironmentLink, rejected: str) -> EnvironmentAnswer | None:
        """The server's answer; None = it has none, such as one of an earlier version."""
        since = time.monotonic()
        while True:
            try:
                return link.ask("", rejected)
            except UnreachableError as error:
                if time.monotonic() - since > _NO_SERVER_S:
                    self._say(f"other nodes aren't asked for the environment: {error.what}")
                    return None
                time.sleep(_LOOK_S)
            except NotFoundError:  # A server of an earlier version.
                return None
            except DrumbeatError as error:
                self._say(f"other nodes aren't asked for the environment: {error.what}")
                return None

    def _take_over(
        self,
        link: EnvironmentLink,
        place: EnvironmentFolder,
        name: str,
        answer: EnvironmentAnswer,
        progress: Callable[[str], None],
    ) -> dict[str, Any]:
        began = time.monotonic()
        progress(f"environment {name}: taking it over")
        packed = link.manifest(answer.digest)
        if hashlib.sha256(packed).hexdigest() != answer.digest:
            raise UnreachableError("its manifest came with other bytes")
        made = own_environments.unpacked(packed)
        layout.check(made)
        sources = contents.ContentSources(self._enrolment, _key(place), self._serving)
        fetched = contents.fetch(sources, made, answer.holder, name, progress)
        try:
            layout.build(fetched.files, made, place.folder)
            failpoint("environment.laid_out")
            fetched.files.settle(made.contents)
        finally:
            fetched.release()
        own_environments.keep(place, packed)
        python = interpreters.ask(place.python)
        if python is None or python.version != made.record.get("python"):
            raise NotRelocatableError("its Python doesn't run here")
        by = f" from {answer.by}" if answer.by else ""
        size = f"{in_words(fetched.size)} of {in_words(sum(made.contents.values()))} were fetched"
        self._say(f"environment {name} was taken over{by} in {time.monotonic() - began:.1f} s: {size}")
        return made.record

    # --- making and handing on ----------------------------------------------------------------------------------------
    def report(self, progress: str) -> None:
        """How far this node is, for those that wait."""
        if self._renewal is not None:
            self._renewal.progress = progress

    def give_up(self) -> None:
        """Lets another node make it, because this one couldn't."""
        if self._renewal is not None:
            self._renewal.end(is_given_up=True)
            self._renewal = None

    def hand_on(self, place: EnvironmentFolder, record: dict[str, Any]) -> None:
        """Hands on what this node has made, while its job goes on."""
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            self._made_s = time.monotonic() - self._began
            self._beside(lambda: self._hand_on(place, record, renewal))

    def finish(self, progress: Callable[[str], None]) -> None:
        """Waits until the server has what this node has made: the jobs that come later shouldn't make it again."""
        end = time.monotonic() + min(self._made_s, _MAX_AFTER_S)
        while self._handing is not None and self._handing.is_alive() and time.monotonic() < end:
            progress("its environment is being sent, for other nodes")
            self._handing.join(_LOOK_S)

    def offer_again(self, place: EnvironmentFolder, record: dict[str, Any]) -> None:
        """Hands on an environment that was made here before, if no other node can have it from the server yet."""

        def look() -> None:
            if self._serving is not None and (made := own_environments.kept(place)):
                self._serve(made)
            if EnvironmentLink(self._enrolment, _key(place)).ask(has_it=True).state == MAKE:
                self._hand_on(place, record, _Renewal(self._enrolment, _key(place)))

        self._beside(look)

    def _serve(self, made: MadeEnvironment) -> None:
        if self._serving is not None:
            self._serving.add_own({digest: own.read for digest, own in made.own.items()})

    def _beside(self, work: Callable[[], None]) -> None:
        def run() -> None:
            with suppress(DrumbeatError, OSError, NotRelocatableError):  # The next job that uses it tries again.
                work()

        self._handing = threading.Thread(target=run, name="handing on", daemon=True)
        self._handing.start()

    def _hand_on(self, place: EnvironmentFolder, record: dict[str, Any], renewal: _Renewal) -> None:
        try:
            renewal.progress = "made; its files are read"
            made = own_environments.kept(place) or manifest.describe(place.folder, record)
            self._serve(made)
            packed = zlib.compress(wire.dumps(made.manifest).encode(), 1)
            own_environments.keep(place, packed)
            failpoint("environment.described")
            link = EnvironmentLink(self._enrolment, _key(place))
            missing = link.offer(packed)
            failpoint("environment.offered")
            EnvironmentUpload(link, made, renewal).send(missing)
            renewal.end(is_given_up=False)
        except BaseException:
            renewal.end(is_given_up=True)
            raise


class EnvironmentUpload:
    """Sends the contents that the server lacks."""

    def __init__(self, link: EnvironmentLink, made: MadeEnvironment, renewal: _Renewal) -> None:
        self._link, self._made, self._renewal = link, made, renewal
        self._sizes = made.manifest.contents
        self._sent = 0

    def send(self, missing: list[str]) -> None:
        """Until the server vouches for the environment. Raises DrumbeatError, OSError."""
        self._total = len(missing)
        small = [digest for digest in missing if self._sizes[digest] <= SMALL]
        for batch in _batches(small, self._sizes):
            self._link.send_some({digest: self._own(digest).read(0, self._sizes[digest]) for digest in batch})
            self._count(len(batch))
            failpoint("environment.sent_some")
        for digest in missing:
            if self._sizes[digest] > SMALL:
                self._send_large(digest)
                self._count(1)
        self._link.commit_contents()

    def _own(self, digest: str) -> OwnFile:
        return self._made.own[digest]

    def _send_large(self, digest: str) -> None:
        offset, size = self._link.send_piece(digest, 0, b""), self._sizes[digest]
        while offset < size:
            data = self._own(digest).read(offset, min(PIECE, size - offset))
            if not data:
                raise OSError(f"{self._own(digest).path} has changed")
            offset = self._link.send_piece(digest, offset, data)

    def _count(self, files: int) -> None:
        self._sent += files
        self._renewal.progress = f"made; {self._sent} of {self._total} files are sent"


class _Renewal:
    """Renews this node's lease in a thread, with how far it is."""

    def __init__(self, enrolment: Enrolment, key: str) -> None:
        self._link = EnvironmentLink(enrolment, key)
        self.progress = ""
        self._is_over = threading.Event()
        self._is_given_up = False
        threading.Thread(target=self._run, name="environment", daemon=True).start()

    def end(self, *, is_given_up: bool) -> None:
        """Renews no more. is_given_up: another node may begin at once."""
        self._is_given_up = is_given_up
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(RENEWAL_S):
            with suppress(DrumbeatError):
                self._link.ask(self.progress)
        if self._is_given_up:
            with suppress(DrumbeatError):
                self._link.give_up()
        self._link.close()


def _key(place: EnvironmentFolder) -> str:
    return os.path.basename(place.folder)


def _in_words(progress: str) -> str:
    return f": {progress}" if progress else ""


def _batches(digests: list[str], sizes: dict[str, int]) -> list[list[str]]:
    """Groups as large as one request may be."""
    groups: list[list[str]] = []
    size = 0
    for digest in digests:
        if not groups or len(groups[-1]) == MOST or size + sizes[digest] > PIECE:
            groups.append([])
            size = 0
        groups[-1].append(digest)
        size += sizes[digest]
    return groups
