"""Outputs of a job that has ended: put where the job says, and given a name; resumed where it was broken off.

What is in place already, by the folder's own manifest, isn't sent again. The manifest that says that the folder is
whole comes last.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from drumbeat.control.catalog.data_assets import DataAssets
from drumbeat.control.data import manifests
from drumbeat.control.data.manifests import Manifest
from drumbeat.core.life.job import Job, Published
from drumbeat.core.planning.outputs import MANIFEST, is_published, is_registered
from drumbeat.dialect.data.assets import DataAsset
from drumbeat.dialect.data.paths import OfJob
from drumbeat.ports import DataAccess
from drumbeat.protocol.errors import (
    CertificateError,
    ConflictError,
    DrumbeatError,
    NotFoundError,
    StaleError,
    StorageError,
    UnreachableError,
)
from drumbeat.protocol.fault_points import faultpoint
from drumbeat.protocol.input_listing import ListedFile, Listing
from drumbeat.protocol.plan import OutputPlan
from drumbeat.protocol.states import State

log = logging.getLogger(__name__)

MODEL_TYPE = "model_type"
"""The tag of data that a job has made as a model: `custom_model`, `mlflow_model` or `triton_model`."""
AT_ONCE = 4
TELL_EVERY = 64
"""Files after which the manifest says what is in place already."""
LONGEST_WAIT_S = 300.0
MAX_TRIES = 300
"""A day, about: then the job's page says that its outputs could not be put there."""
PASSING = (UnreachableError, StorageError, CertificateError)
"""Troubles that may be over later: a certificate is renewed, a clock set right."""


def said(error: DrumbeatError) -> str:
    """A store's refusal for who never heard of a manifest: which datastore, and what is wrong with it."""
    what = error.what
    if MANIFEST in what:
        what = what.partition("can't be ")[2].partition(": ")[2] or what
    return f"{error.where}: {what}" if error.where.startswith("datastore ") else what


class _NotWantedError(Exception):
    """A person has given up what is being put in its place."""


def _always() -> bool:
    return True


def _require(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise _NotWantedError


def wait_after(tries: int) -> float:
    """How long a store that was down is left alone, in seconds."""
    return min(LONGEST_WAIT_S, 2.0 ** min(tries, 20))


@dataclass(frozen=True)
class Publishing:
    """data: every place that can be read and written. stores: the same without what manifests say; None = none."""

    data: DataAccess
    stores: DataAccess | None
    assets: DataAssets

    def publish(
        self, job: Job, output: OutputPlan, is_wanted: Callable[[], bool] = _always, *, is_last: bool
    ) -> Published | None:
        """What has become of an output; None: it isn't wanted any more. is_wanted: asked now and then.

        A passing trouble is raised, unless it is the last try: then it is told. One that nobody has thought of counts
        as passing: StorageError.
        """
        try:
            return self._publish(job, output, is_wanted)
        except _NotWantedError:
            return None
        except StaleError:
            raise
        except DrumbeatError as error:
            trouble = error
        except Exception as error:
            log.exception("output %s of job %s can't be published", output.name, job.name)
            what = f"an error that wasn't foreseen, {type(error).__name__}: {error}"
            trouble = StorageError(what, fix="More about it is in the server's log.")
        if isinstance(trouble, PASSING) and not is_last:
            raise trouble
        log.warning("output %s of job %s isn't published: %s", output.name, job.name, trouble)
        return Published(output.name, output.uri, problem=f"{said(trouble)}. {trouble.fix}".removesuffix(". "))

    def _publish(self, job: Job, output: OutputPlan, is_wanted: Callable[[], bool]) -> Published:
        source = output.uri if output.mode == "direct" else OfJob(job.name, output.name).uri
        try:
            listed = self.data.listing(source, is_file=output.type == "uri_file")
        except NotFoundError as error:
            if job.state is not State.COMPLETED:  # It didn't come to write anything.
                return Published(output.name, "")
            raise NotFoundError(f"the job wrote nothing to output {output.name}") from error
        uri = output.uri if is_published(output, job.state) else ""
        if uri:
            Copy(self, job, source, uri, listed, is_wanted).run()
        asset = self._register(job, output, uri or source, is_wanted) if is_registered(output, job.state) else ""
        return Published(output.name, uri, len(listed.files), listed.size, asset)

    def _register(self, job: Job, output: OutputPlan, uri: str, is_wanted: Callable[[], bool]) -> str:
        _require(is_wanted)
        known = self.assets.made_by(job.name, output.asset, uri)
        if known is None:
            # A model is a folder to those who read it as data; the tag says which kind of model.
            kind = output.type if output.type in ("uri_file", "mltable") else "uri_folder"
            tags = {MODEL_TYPE: output.type} if output.type.endswith("_model") else {}
            asked = DataAsset(name=output.asset, version=output.version or None, type=kind, path=uri, tags=tags)
            try:
                known = self.assets.register(asked, uri, job.name)[0].version
            except ConflictError as error:  # Another has taken the version since the job began.
                fix = f"To name them: drumbeat data create {output.asset} --path {uri}"
                raise ConflictError(f"its files are in {uri}, and {error.what}", fix=fix) from error
        faultpoint("publish.registered")
        return f"{output.asset}:{known}"


@dataclass
class Copy:
    """One output on its way into a store."""

    room: Publishing
    job: Job
    source: str
    uri: str
    listed: Listing
    is_wanted: Callable[[], bool]
    _kept: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Returns when all is in place."""
        if self.listed.is_file:
            _require(self.is_wanted)
            folder, _, name = self.uri.rpartition("/")
            self._write(folder, self.listed.files[0], name)
            return
        told = self._told()
        before = self._in_place(told) if told else {}
        self._kept = {
            one.path: before[one.path] for one in self.listed.files if before.get(one.path) == (one.size, one.sha256)
        }
        missing = [one for one in self.listed.files if one.path not in self._kept]
        if not missing and told == Manifest(self._by, is_complete=True, files=self._kept):
            return  # An earlier try came so far, and readers have it as whole already.
        _require(self.is_wanted)
        self._tell(is_complete=False)
        self._copy(missing)
        faultpoint("publish.copied")
        self._require_still()
        self._tell(is_complete=True)

    def _require_still(self) -> None:
        """Whoever has said that the folder isn't whole says when it is, also where the job is another server's by then.

        That one may have finished it just before, if this one stood still since it looked.
        """
        with contextlib.suppress(StaleError):
            _require(self.is_wanted)

    def _copy(self, files: Sequence[ListedFile]) -> None:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="publish") as pool:
            running = [pool.submit(self._one, file) for file in files]
            try:
                for one in running:
                    one.result()
            finally:
                for one in running:
                    one.cancel()

    def _one(self, file: ListedFile) -> None:
        sha256 = self._write(self.uri, file, file.path)
        with self._lock:
            self._kept[file.path] = (file.size, sha256)
            is_time = len(self._kept) % TELL_EVERY == 0
        if is_time:
            with contextlib.suppress(StaleError):  # Whoever has the job now may have said already that it is whole.
                _require(self.is_wanted)
                self._tell(is_complete=False)

    def _write(self, folder: str, file: ListedFile, path: str) -> str:
        faultpoint("publish.file")
        pieces = self.room.data.read(self.source, file)
        written = self.room.data.write(folder, path, pieces, file.size)
        if file.sha256 and written.sha256 != file.sha256:
            self.room.data.remove(folder, path)
            raise StorageError(f"{file.path} isn't what the job wrote any more", where=self.source)
        return written.sha256

    def _told(self) -> Manifest | None:
        """What an earlier try has said."""
        return manifests.find(self.room.stores, self.uri) if self.room.stores else None

    def _in_place(self, told: Manifest) -> dict[str, tuple[int, str]]:
        """What an earlier try has put there, as far as the folder bears it out."""
        if self.room.stores is None or not told.files:
            return {}
        sizes = {one.path: one.size for one in self.room.stores.listing(self.uri, is_file=False).files}
        return {path: one for path, one in told.files.items() if path != MANIFEST and sizes.get(path) == one[0]}

    def _tell(self, *, is_complete: bool) -> None:
        with self._lock:
            files = dict(self._kept)
        manifests.put(self.room.data, self.uri, Manifest(self._by, is_complete, files))

    @property
    def _by(self) -> str:
        ended = "" if self.job.state is State.COMPLETED else f", which ended {self.job.state}"
        return f"job {self.job.name}{ended}"
