"""Which earlier job a step's result is taken from: the newest that completed with its key (`core/pipelines/reuse.py`).

The key has the contents of the step's inputs, which are read here.
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
from drumbeat.server.outputs.result_lookup import result_of

# What tells the content of an input that nodes use in place, where the server's machine has it too.


def content_key(place: str, is_visible: Callable[[str], bool]) -> str:
    """Returns the SHA-256 of a path here and of the paths, sizes and times of change of its files, and of link targets.

    The path is a part of it: sizes and times tell that a file is still the same, not that two files are alike.
    is_visible: whether nodes have at a path what this machine has there.
    Raises OSError where a file or folder is absent, can't be read, or isn't visible.
    """
    facts = hashlib.sha256()
    for fact in _facts(place, is_visible):
        facts.update(os.fsencode("\0".join(fact)) + b"\0\0")
    return facts.hexdigest()


def _facts(place: str, is_visible: Callable[[str], bool]) -> Iterator[tuple[str, ...]]:
    def require_visible(path: str) -> str:
        if not is_visible(path):
            raise FileNotFoundError(errno.ENOENT, "nodes don't have what the server has there", path)
        return path

    status = Path(require_visible(place)).stat()
    real = require_visible(os.path.realpath(place))
    if not stat.S_ISDIR(status.st_mode):
        yield *_file(place, status), real
        return
    yield (place, "folder", real)
    first_paths = {real: place}  # By where links lead: a folder that several lead to, or around to, is read once.
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
    """Finds what steps need not run again. For any thread.

    is_visible: whether this machine has at a path what the nodes of a compute have there.
    """

    def __init__(self, store: SqlStore, data: DataAccess, is_visible: Callable[[str, str], bool]) -> None:
        self._store, self._data, self._is_visible = store, data, is_visible

    def of(self, graph: Graph, path: str, asked: JobRequest, plan: Plan) -> Reuse:
        """Returns what the step's result may be taken from, and the key under which its own is found later."""
        step = graph.step(path)
        if not may_be_reused(step):
            return Reuse()
        contents = self._contents(plan)
        if contents is None:
            return Reuse()
        key = reuse_key(asked.document, plan, contents)
        return Reuse(key, "" if step.settings.is_forced else self._earlier(key))

    def _earlier(self, key: str) -> str:
        """The newest job with this key that has completed, and whose outputs are in their places; "" = none."""
        for name, _ in self._store.users("step", key, ""):
            try:
                job = self._store.load(name).job
                if job.state is State.COMPLETED and self._has_its_places(job):
                    return name
            except (NotFoundError, RefusedError):
                continue
        return ""

    def _has_its_places(self, job: Job) -> bool:
        """Whether a job's outputs, of a sweep also its best trial's, are still what is in their places."""
        result = result_of(job)
        jobs = [job] if result == job.name else [job, self._store.load(result).job]
        return all(has_its_places(self._store, one) for one in jobs)

    def _contents(self, plan: Plan) -> dict[str, str] | None:
        """What tells the content of each input whose address does not; None where it can't be told."""
        unsettled = [one for one in plan.inputs if not is_settled(one)]
        try:
            return {one.name: self._content(one, plan.compute) for one in unsettled}
        except (DrumbeatError, OSError):
            return None  # The step is run, and says what is wrong.

    def _content(self, planned: InputPlan, compute: str) -> str:
        if planned.uri.startswith("file:"):
            return content_key(folder_layout.file_path(planned.uri), lambda place: self._is_visible(place, compute))
        return self._data.listing(planned.uri, is_file=planned.type == "uri_file").key
