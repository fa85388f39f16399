"""What nodes ask of the inputs that lie in stores: their files, where to fetch them, and the bytes of what has no link.

An input is listed once per job. The list is kept among the job's files, so that every node and attempt, and a server
that starts again, sees the same content. In memory it is kept under the job's unique name: another server may delete
the job, and a new one may have its name.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from drumbeat.core.lifecycle.job import Job
from drumbeat.model import folder_layout, wire
from drumbeat.model.errors import DrumbeatError, ForbiddenError, NotFoundError, RefusedError, UnreachableError
from drumbeat.model.input_listing import Link, ListedFile, Listing
from drumbeat.model.plan import InputPlan
from drumbeat.ports.data import DataAccess
from drumbeat.server.data import mltables
from drumbeat.server.data.input_contents import content_path, describe_listing, local_content
from drumbeat.server.data.single_flight import Making, Makings
from drumbeat.server.home_folder import FolderArtifacts

LINK_S = 3600.0
"""How long a link works. A node asks again for one that has expired."""
MAX_LINKS = 1000
"""That are given at once."""
_REMEMBERED = 64
"""Listings in memory; more are read again from their files."""


@dataclass(frozen=True)
class Frozen:
    """An input as its job sees it for ever."""

    planned: InputPlan
    listing: Listing
    files: dict[str, ListedFile]

    def origin(self, file: ListedFile) -> tuple[str, ListedFile]:
        """The address that a file is below, and the file as it is known there."""
        there = self.listing.origins.get(file.path)
        if there is None:
            return self.planned.uri, file
        return there.uri, replace(file, path=there.path, alone=there.alone)


class JobInputs:
    """The inputs of all jobs. job_of: a job as it is now; raises NotFoundError. For any thread.

    require_registered: is asked with a job, `inputs.NAME` and its files; raises ConflictError for those of a version of
    data that has changed. is_visible: whether this machine has at a path what the nodes of a compute have there.
    """

    def __init__(
        self,
        artifacts: FolderArtifacts,
        data: DataAccess | None,
        job_of: Callable[[str], Job],
        require_registered: Callable[[str, str, Listing], None] | None = None,
        is_visible: Callable[[str, str], bool] = lambda _place, _compute: False,
    ) -> None:
        self._is_visible = is_visible
        self.job_of, self._artifacts, self._data = job_of, artifacts, data
        self._require_registered = require_registered
        self._frozen: OrderedDict[tuple[str, str], Frozen] = OrderedDict()
        self._makings: Makings[tuple[str, str], Frozen] = Makings()
        self._contents: Makings[tuple[str, str], str] = Makings()
        self._lock = threading.Lock()

    def listing(self, job: str, name: str) -> Listing:
        """All files of an input. The first call has the list made, and all who ask meanwhile wait for that one.

        Raises ForbiddenError for what is no input of the job's; what `DataAccess.listing` raises.
        """
        return replace(self._of(job, name).listing, origins={})

    def folder(self, job: str, name: str) -> str:
        """Where the input lies on this machine, for nodes that may see it too; "" = nowhere, or it isn't their way."""
        planned = self._of(job, name).planned
        if not planned.in_folder or planned.mode == "download":
            return ""
        with _naming(planned):
            return self._store().folder(planned.uri)

    def links(self, job: str, name: str, paths: Sequence[str]) -> list[Link | None]:
        """Where to fetch each of these files; None = from here, with `read`."""
        if len(paths) > MAX_LINKS:
            raise RefusedError(f"{len(paths):,} links are too many at once; at most {MAX_LINKS:,}", where="paths")
        one = self._of(job, name)
        files = [self._file(one, path) for path in paths]
        with _naming(one.planned):
            return self._links([one.origin(file) for file in files])

    def _links(self, origins: Sequence[tuple[str, ListedFile]]) -> list[Link | None]:
        found: list[Link | None] = []
        for uri, those in groupby(origins, lambda one: one[0]):
            found += self._store().links(uri, [file for _, file in those], LINK_S)
        return found

    def read(self, job: str, name: str, path: str, span: tuple[int, int | None]) -> tuple[int, Iterator[bytes]]:
        """How many bytes, and these; refusals come before the first. span: offset and length, None = to the end."""
        one = self._of(job, name)
        file = self._file(one, path)
        offset = min(span[0], file.size)
        length = min(file.size - offset, file.size if span[1] is None else span[1])
        with _naming(one.planned):
            pieces = iter(self._store().read(*one.origin(file), offset, length)) if length else iter(())
            first = next(pieces, b"")
        return length, _whole(first, pieces)

    def prepare(self, job: Job) -> None:
        """Lists what the job's nodes will ask for, while these are started; what goes wrong is said when they ask."""
        for one in job.plan.inputs:
            if one.is_remote:
                self._makings.begin(_key(job, one.name), partial(self._made, job, one.name))
            elif one.uri.startswith("file:"):
                self._contents.begin(_key(job, one.name), partial(self._keep_content, job, one))

    def contents(self, job: Job) -> dict[str, str]:
        """Returns what tells the content of each input that was listed, or looked at, as the job began."""
        contents: dict[str, str] = {}
        for planned in job.plan.inputs:
            with suppress(NotFoundError, OSError, ValueError):
                text = self._artifacts.open_file(job.name, content_path(planned)).read_text()
                contents[planned.name] = describe_listing(wire.loads(Listing, text)) if planned.is_remote else text
        return contents

    def asked(self, job: Job, name: str) -> AbstractContextManager[Making[Frozen]]:
        """The making of an input's list, for those who mustn't wait for as long as a store may take."""
        return self._makings.joined(_key(job, name), partial(self._made, job, name))

    def _keep_content(self, job: Job, planned: InputPlan) -> str:
        """Keeps what tells the content of an input that nodes use in place. Raises OSError, DrumbeatError."""
        place = folder_layout.file_path(planned.uri)
        content = local_content(place, lambda path: self._is_visible(path, job.plan.compute))
        return self._artifacts.keep_text(job.name, content_path(planned), content)

    # --- one input ----------------------------------------------------------------------------------------------
    def _of(self, job: str, name: str) -> Frozen:
        current = self.job_of(job)
        known = self._known(_key(current, name))
        if known is not None:
            return known
        with self.asked(current, name) as making:
            return making.result()

    def _known(self, key: tuple[str, str]) -> Frozen | None:
        with self._lock:
            if key in self._frozen:
                self._frozen.move_to_end(key)
            return self._frozen.get(key)

    def _made(self, job: Job, name: str) -> Frozen:
        """It may have been made since it was asked for."""
        key = _key(job, name)
        known = self._known(key)
        if known is None:
            known = self._freeze(job, _planned(job, name))
            self._remember(key, known)
        return known

    def _remember(self, key: tuple[str, str], made: Frozen) -> None:
        with self._lock:
            self._frozen[key] = made
            while len(self._frozen) > _REMEMBERED:
                self._frozen.popitem(last=False)

    def _freeze(self, job: Job, planned: InputPlan) -> Frozen:
        path = f"inputs/{planned.name}.json"
        try:
            text = self._artifacts.open_file(job.name, path).read_text()
        except NotFoundError:
            with _naming(planned):
                found = self._store().listing(planned.uri, is_file=planned.type == "uri_file")
                if self._require_registered is not None:
                    self._require_registered(job.name, f"inputs.{planned.name}", found)
                if planned.evaluated:
                    found = mltables.evaluate(self._store(), planned.uri, found)
            # A store may take long, and the folder of that name may be another job's by now.
            if self.job_of(job.name).unique_name != job.unique_name:
                raise NotFoundError(f"job {job.name} was deleted") from None
            text = self._artifacts.keep_text(job.name, path, wire.dumps(found))
        listing = wire.loads(Listing, text)
        return Frozen(planned, listing, {file.path: file for file in listing.files})

    def _file(self, one: Frozen, path: str) -> ListedFile:
        try:
            return one.files[path]
        except KeyError:
            what = f"input {one.planned.name} has no file of this name"
            raise ForbiddenError(what, where=ascii(path[:80])[1:-1]) from None

    def _store(self) -> DataAccess:
        if self._data is None:
            raise RefusedError("this server reads no stores", fix="Start it with the extra `data` installed.")
        return self._data


def _key(job: Job, name: str) -> tuple[str, str]:
    return job.unique_name, name


def _planned(job: Job, name: str) -> InputPlan:
    for planned in job.plan.inputs:
        if planned.name == name and planned.is_remote:
            return planned
    raise ForbiddenError("this isn't one of the job's inputs that are fetched from a store", where=name[:80])


@contextmanager
def _naming(planned: InputPlan) -> Generator[None]:
    """Puts the input's name into what a store refuses."""
    try:
        yield
    except DrumbeatError as error:
        what = f"input {planned.name}: {error.what}"
        raise type(error)(what, where=f"inputs.{planned.name}", fix=error.fix, fields=error.fields) from error
    except OSError as error:
        what = f"input {planned.name}: its store broke off: {error}"
        raise UnreachableError(what, where=f"inputs.{planned.name}") from error


def _whole(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
