"""Copies the files of an output to a store, and resumes interrupted copies.

Files in the folder's manifest aren't sent again. The manifest that marks the folder as complete is written last.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import StandbyError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.folder_layout import MANIFEST
from drumbeat.model.input_listing import ListedFile, Listing
from drumbeat.model.manifest_pace import ManifestPace
from drumbeat.model.states import State
from drumbeat.ports.data import DataAccess
from drumbeat.server.data import manifests
from drumbeat.server.data.manifests import Manifest

AT_ONCE = 4


class NotWantedError(Exception):
    """A user has discarded the output during the copy."""


def require(is_wanted: Callable[[], bool]) -> None:
    """Raises NotWantedError if the output was discarded."""
    if not is_wanted():
        raise NotWantedError


@dataclass
class Copy:
    """Copies one output to a store. data, stores: as in `Publisher`."""

    data: DataAccess
    stores: DataAccess | None
    job: Job
    source: str
    uri: str
    listed: Listing
    is_wanted: Callable[[], bool]
    _kept: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pace: ManifestPace = field(default_factory=ManifestPace)

    def run(self) -> None:
        """Copies all files and the manifest."""
        if self.listed.is_file:
            require(self.is_wanted)
            folder, _, name = self.uri.rpartition("/")
            self._write(folder, self.listed.files[0], name)
            return
        manifest = self._earlier_manifest()
        before = self._in_place(manifest) if manifest else {}
        self._kept = {
            one.path: before[one.path] for one in self.listed.files if before.get(one.path) == (one.size, one.sha256)
        }
        missing = [one for one in self.listed.files if one.path not in self._kept]
        if not missing and manifest == Manifest(self._by, is_complete=True, files=self._kept):
            return  # An earlier try has completed it, so readers can see it already.
        require(self.is_wanted)
        self._tell(is_complete=False)
        self._copy(missing)
        failpoint("publish.copied")
        self._require_still()
        self._tell(is_complete=True)

    def _require_still(self) -> None:
        """Checks that this server is still active or began the copy, so that it may complete the folder.

        If this server was stopped meanwhile, the other one may have completed it.
        """
        with contextlib.suppress(StandbyError):
            require(self.is_wanted)

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
            is_time = self._pace.take_turn()
        if is_time:
            with contextlib.suppress(StandbyError):  # The active server may have completed the folder already.
                require(self.is_wanted)
                self._tell(is_complete=False)

    def _write(self, folder: str, file: ListedFile, path: str) -> str:
        failpoint("publish.file")
        pieces = self.data.read(self.source, file)
        if self.listed.is_file:
            written = manifests.replace_file(self.data, folder, path, pieces, file.size)
        else:
            written = self.data.write(folder, path, pieces, file.size)
        if file.sha256 and written.sha256 != file.sha256:
            self.data.remove(folder, path)
            raise StorageError(f"{file.path} has changed since the job wrote it", where=self.source)
        return written.sha256

    def _earlier_manifest(self) -> Manifest | None:
        """Returns the manifest of an earlier try."""
        return manifests.read_current(self.stores, self.uri) if self.stores else None

    def _in_place(self, manifest: Manifest) -> dict[str, tuple[int, str]]:
        """Returns the files of an earlier try that are really in the folder."""
        if self.stores is None or not manifest.files:
            return {}
        sizes = {one.path: one.size for one in self.stores.listing(self.uri, is_file=False).files}
        return {path: one for path, one in manifest.files.items() if path != MANIFEST and sizes.get(path) == one[0]}

    def _tell(self, *, is_complete: bool) -> None:
        with self._lock:
            files = dict(self._kept)
        with self._pace.measured():
            manifests.put(self.data, self.uri, Manifest(self._by, is_complete, files))

    @property
    def _by(self) -> str:
        ended = "" if self.job.state is State.COMPLETED else f", which ended {self.job.state}"
        return f"job {self.job.name}{ended}"
