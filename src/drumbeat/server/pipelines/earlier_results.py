"""Finds the earlier job whose result a step reuses: the newest completed one with its key (`core/pipelines/reuse.py`).

The key depends on the contents of the step's inputs, which are read here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.pipelines.graph import Graph
from drumbeat.core.pipelines.reuse import is_settled, may_be_reused, reuse_key
from drumbeat.model import folder_layout
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import DrumbeatError, NotFoundError, RefusedError
from drumbeat.model.plan import InputPlan, Plan
from drumbeat.model.states import State
from drumbeat.ports.data import DataAccess
from drumbeat.server.database import SqlStore
from drumbeat.server.jobs.jobs import Reuse
from drumbeat.server.outputs.output_places import has_its_places
from drumbeat.server.outputs.result_lookup import result_job

# Fingerprints of inputs that nodes use in place, if the server's machine has them, too.


def content_key(place: str, is_visible: Callable[[str], bool]) -> str:
    """Returns the SHA-256 of a path and of the paths, sizes, modification times and link targets of its files.

    The path is included, because sizes and times show that a file is unchanged, not that two files are equal.
    is_visible: whether a path is the same files on nodes and on this machine.
    Raises OSError if a file or folder is absent, unreadable, or not visible to nodes.
    """
    facts = hashlib.sha256()
    for fact in _facts(place, is_visible):
        facts.update(os.fsencode("\0".join(fact)) + b"\0\0")
    return facts.hexdigest()


def _facts(place: str, is_visible: Callable[[str], bool]) -> Iterator[tuple[str, ...]]:
    def require_visible(path: str) -> str:
        if not is_visible(path):
            raise FileNotFoundError(errno.ENOENT, "nodes don't see the server's files there", path)
        return path

    status = Path(require_visible(place)).stat()
    real = require_visible(os.path.realpath(place))
    if not stat.S_ISDIR(status.st_mode):
        yield *_file(place, status), real
        return
    yield (place, "folder", real)
    first_paths = {real: place}  # By resolved path, so that a folder with several links, or a cycle, is read once.
    folders = [(place, real)]
    while folders:
        folder, real = folders.pop()
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda one: one.name)
        for entry in entries:
            status = entry.stat()
            target = require_visible(os.path.realpath(entry.path)) if entry.is_symlink() else f"{real}/{entry.name}"
            if not stat.S_ISDIR(status.st_mode):
                yield *_file(entry.path, status), target
                continue
            first = first_paths.setdefault(target, entry.path)
            yield (entry.path, "folder", target, first)
            if first == entry.path:
                folders.append((entry.path, target))


def _file(path: str, status: os.stat_result) -> tuple[str, ...]:
    return path, str(status.st_size), str(status.st_mtime_ns)


class EarlierResults:
    """Finds the results that steps can reuse. Thread-safe.

    is_visible: whether a path on this machine is the same files as on the nodes of a compute.
    """

    def __init__(self, store: SqlStore, data: DataAccess, is_visible: Callable[[str, str], bool]) -> None:
        self._store, self._data, self._is_visible = store, data, is_visible

    def find(self, graph: Graph, path: str, asked: JobRequest, plan: Plan) -> Reuse:
        """Returns where a step's result may be reused from, and the key under which its own is found later."""
        step = graph.step(path)
        if not may_be_reused(step):
            return Reuse()
        contents = self._contents(plan)
        if contents is None:
            return Reuse()
        key = reuse_key(asked.document, plan, contents)
        return Reuse(key, "" if step.settings.is_forced else self._earlier(key))

    def _earlier(self, key: str) -> str:
        """Returns the newest completed job with this key whose outputs are still at their places; "" = none."""
        for name, _ in self._store.users("step", key, ""):
            try:
                job = self._store.load(name).job
                if job.state is State.COMPLETED and self._has_its_places(job):
                    return name
            except (NotFoundError, RefusedError):
                continue
        return ""

    def _has_its_places(self, job: Job) -> bool:
        """Whether a job's outputs, and for a sweep its best trial's, are still at their places."""
        result = result_job(job)
        jobs = [job] if result == job.name else [job, self._store.load(result).job]
        return all(has_its_places(self._store, one) for one in jobs)

    def _contents(self, plan: Plan) -> dict[str, str] | None:
        """Returns the fingerprint of each input whose URI doesn't identify its content; None if one can't be read."""
        unsettled = [one for one in plan.inputs if not is_settled(one)]
        try:
            return {one.name: self._content(one, plan.compute) for one in unsettled}
        except (DrumbeatError, OSError):
            return None  # The step runs, and reports what is wrong.

    def _content(self, planned: InputPlan, compute: str) -> str:
        if planned.uri.startswith("file:"):
            return content_key(folder_layout.file_path(planned.uri), lambda place: self._is_visible(place, compute))
        return self._data.listing(planned.uri, is_file=planned.type == "uri_file").key
