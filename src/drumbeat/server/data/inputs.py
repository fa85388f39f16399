"""Serves nodes the inputs in stores: lists of files, links, and the bytes of files without a link.

An input is listed once per job. The listing is stored among the job's files, so that every node and attempt, and a
restarted server, sees the same content. In memory it has the job's unique name, because the job may be deleted and
another one get its name.
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
from drumbeat.server.data.single_flight import Flight, SingleFlight
from drumbeat.server.home_folder import FolderArtifacts

LINK_S = 3600.0
"""Lifetime of a link. A node asks again when one has expired."""
MAX_LINKS = 1000
"""Maximum number of links in one request."""
_REMEMBERED = 64
"""Number of listings in memory; others are read from their files."""


@dataclass(frozen=True)
class Frozen:
    """The fixed listing of an input in one job."""

    planned: InputPlan
    listing: Listing
    files: dict[str, ListedFile]

    def origin(self, file: ListedFile) -> tuple[str, ListedFile]:
        """Returns the URI that a file is below, and the file as it is listed there."""
        origin = self.listing.origins.get(file.path)
        if origin is None:
            return self.planned.uri, file
        return origin.uri, replace(file, path=origin.path, alone=origin.alone)


class JobInputs:
    """The inputs of all jobs. Thread-safe. job_of: returns the current state of a job; raises NotFoundError.

    require_registered: given a job, `inputs.NAME` and its files, raises ConflictError if they are a changed version of
    data. is_visible: whether a path on this machine is the same files as on the nodes of a compute.
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
        self._makings: SingleFlight[tuple[str, str], Frozen] = SingleFlight()
        self._contents: SingleFlight[tuple[str, str], str] = SingleFlight()
        self._lock = threading.Lock()

    def listing(self, job: str, name: str) -> Listing:
        """Returns all files of an input. The first call lists them, and concurrent calls wait for it.

        Raises ForbiddenError if the job has no such input in a store; what `DataAccess.listing` raises.
        """
        return replace(self._frozen_input(job, name).listing, origins={})

    def folder(self, job: str, name: str) -> str:
        """Returns the input's path on this machine, which nodes may see, too; "" = it has none or is downloaded."""
        planned = self._frozen_input(job, name).planned
        if not planned.in_folder or planned.mode == "download":
            return ""
        with _naming(planned):
            return self._store().folder(planned.uri)

    def links(self, job: str, name: str, paths: Sequence[str]) -> list[Link | None]:
        """Returns a link to each of these files; None = it has to be fetched with `read`."""
        if len(paths) > MAX_LINKS:
            raise RefusedError(f"{len(paths):,} links in one request; the maximum is {MAX_LINKS:,}", where="paths")
        one = self._frozen_input(job, name)
        files = [self._file(one, path) for path in paths]
        with _naming(one.planned):
            return self._links([one.origin(file) for file in files])

    def _links(self, origins: Sequence[tuple[str, ListedFile]]) -> list[Link | None]:
        links: list[Link | None] = []
        for uri, those in groupby(origins, lambda one: one[0]):
            links += self._store().links(uri, [file for _, file in those], LINK_S)
        return links

    def read(self, job: str, name: str, path: str, span: tuple[int, int | None]) -> tuple[int, Iterator[bytes]]:
        """Returns a number of bytes, and the bytes. Raises refusals at once. span: offset, length (None = the rest)."""
        one = self._frozen_input(job, name)
        file = self._file(one, path)
        offset = min(span[0], file.size)
        length = min(file.size - offset, file.size if span[1] is None else span[1])
        with _naming(one.planned):
            pieces = iter(self._store().read(*one.origin(file), offset, length)) if length else iter(())
            first = next(pieces, b"")
        return length, _whole(first, pieces)

    def prepare(self, job: Job) -> None:
        """Lists the job's inputs while its nodes are being started. Errors are raised when a node asks."""
        for one in job.plan.inputs:
            if one.is_remote:
                self._makings.start(_key(job, one.name), partial(self._made, job, one.name))
            elif one.uri.startswith("file:"):
                self._contents.start(_key(job, one.name), partial(self._keep_content, job, one))

    def contents(self, job: Job) -> dict[str, str]:
        """Returns the fingerprint of each input that was listed or read at the start of the job."""
        contents: dict[str, str] = {}
        for planned in job.plan.inputs:
            with suppress(NotFoundError, OSError, ValueError):
                text = self._artifacts.open_file(job.name, content_path(planned)).read_text()
                contents[planned.name] = describe_listing(wire.loads(Listing, text)) if planned.is_remote else text
        return contents

    def asked(self, job: Job, name: str) -> AbstractContextManager[Flight[Frozen]]:
        """Returns the listing in progress of an input, for callers that mustn't wait for a slow store."""
        return self._makings.join(_key(job, name), partial(self._made, job, name))

    def _keep_content(self, job: Job, planned: InputPlan) -> str:
        """Stores the fingerprint of an input that nodes use in place. Raises OSError, DrumbeatError."""
        place = folder_layout.file_path(planned.uri)
        content = local_content(place, lambda path: self._is_visible(path, job.plan.compute))
        return self._artifacts.keep_text(job.name, content_path(planned), content)

    # --- one input ----------------------------------------------------------------------------------------------
    def _frozen_input(self, job: str, name: str) -> Frozen:
        current = self.job_of(job)
        frozen = self._cached(_key(current, name))
        if frozen is not None:
            return frozen
        with self.asked(current, name) as making:
            return making.result()

    def _cached(self, key: tuple[str, str]) -> Frozen | None:
        with self._lock:
            if key in self._frozen:
                self._frozen.move_to_end(key)
            return self._frozen.get(key)

    def _made(self, job: Job, name: str) -> Frozen:
        """Lists an input, unless that was done since the request."""
        key = _key(job, name)
        frozen = self._cached(key)
        if frozen is None:
            frozen = self._freeze(job, _planned(job, name))
            self._remember(key, frozen)
        return frozen

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
                listed = self._store().listing(planned.uri, is_file=planned.type == "uri_file")
                if self._require_registered is not None:
                    self._require_registered(job.name, f"inputs.{planned.name}", listed)
                if planned.evaluated:
                    listed = mltables.evaluate(self._store(), planned.uri, listed)
            # Listing a store may take long, and by now the folder may belong to another job of that name.
            if self.job_of(job.name).unique_name != job.unique_name:
                raise NotFoundError(f"job {job.name} was deleted") from None
            text = self._artifacts.keep_text(job.name, path, wire.dumps(listed))
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
            raise RefusedError("this server can't read stores", fix="Install the extra `data` where it runs.")
        return self._data


def _key(job: Job, name: str) -> tuple[str, str]:
    return job.unique_name, name


def _planned(job: Job, name: str) -> InputPlan:
    for planned in job.plan.inputs:
        if planned.name == name and planned.is_remote:
            return planned
    raise ForbiddenError("the job has no input of this name in a store", where=name[:80])


@contextmanager
def _naming(planned: InputPlan) -> Generator[None]:
    """Adds the input's name to errors of a store."""
    try:
        yield
    except DrumbeatError as error:
        what = f"input {planned.name}: {error.what}"
        raise type(error)(what, where=f"inputs.{planned.name}", fix=error.fix, fields=error.fields) from error
    except OSError as error:
        what = f"input {planned.name}: reading from its store failed: {error}"
        raise UnreachableError(what, where=f"inputs.{planned.name}") from error


def _whole(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
