"""The thread that copies runs to the external MLflow server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from drumbeat.model.errors import DrumbeatError, NotFoundError, UnreachableError
from drumbeat.model.metrics import Run
from drumbeat.server.home_folder import FolderRunFiles
from drumbeat.server.metrics.metric_records import RunSearch
from drumbeat.server.metrics.run_copy import RunCopy

if TYPE_CHECKING:
    from drumbeat.server.metrics.mlflow_server import HttpMlflowServer
    from drumbeat.server.metrics.tables import SqlMetricStore

log = logging.getLogger(__name__)

INTERVAL_S = 2.0
"""How often running runs are copied."""
_FULL_EVERY = 30
"""One of so many rounds checks all runs, also those that changed after their end or before this server started."""
_LATEST = 100
"""Number of the latest ended runs that each round checks."""
_RUNNING = ({"type": "attribute", "key": "status", "comparator": "=", "value": "RUNNING"},)


class RunCopies:
    """Keeps the copies of all runs current. settle: ends the runs of ended jobs."""

    def __init__(
        self,
        store: Callable[[], SqlMetricStore],
        files: FolderRunFiles,
        server: HttpMlflowServer,
        settle: Callable[[], None],
    ) -> None:
        self._store, self._files, self._server, self._settle = store, files, server, settle
        self._running: set[str] = set()
        self._seen: dict[str, Run] = {}
        """The last copied state of the latest runs."""
        self._rounds, self._trouble = 0, ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run-copies", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and closes the connections to the server."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._server.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.copy()
            except DrumbeatError as error:
                self._warn(str(error))
            except Exception:  # The thread must go on.
                if not self._stopping.is_set():
                    log.exception("runs can't be copied; trying again")
            self._stopping.wait(INTERVAL_S)

    def copy(self) -> None:
        """Copies changes. Raises UnreachableError while the MLflow server is away, and the store's errors."""
        store = self._store()
        self._settle()
        is_full, self._rounds = self._rounds % _FULL_EVERY == 0, self._rounds + 1
        running = list(_all(store, RunSearch(comparisons=_RUNNING)))
        others = _all(store, RunSearch(view="all")) if is_full else self._others(store, {run.id for run in running})
        for run in (*running, *others):
            if self._stopping.is_set():
                return
            self._copy(store, run)
        self._running = {run.id for run in running}
        self._warn("")

    def _others(self, store: SqlMetricStore, running: set[str]) -> Iterator[Run]:
        """Yields the runs that were running in the previous round, and those that have begun and ended since."""
        for run in store.search_runs(RunSearch(view="all", limit=_LATEST)).runs:
            if run.id not in running and run.id not in self._running and self._seen.get(run.id) != run:
                yield run
        for ended in self._running - running:
            try:
                yield store.run(ended)
            except NotFoundError:  # The run was deleted with its job.
                continue

    def _copy(self, store: SqlMetricStore, run: Run) -> None:
        try:
            RunCopy.open(store, self._files, self._server, run).update()
            self._seen.pop(run.id, None)
            self._seen[run.id] = run
            if len(self._seen) > 2 * _LATEST:
                self._seen.pop(next(iter(self._seen)))
        except UnreachableError:
            raise
        except DrumbeatError as error:  # A refused run mustn't block the others.
            log.warning("run %s was copied only in part: %s", run.id, error)
        except Exception:
            log.exception("run %s was copied only in part", run.id)

    def _warn(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("copying runs is delayed: %s", trouble) if trouble else log.info("copying runs works again")
        self._trouble = trouble


def _all(store: SqlMetricStore, search: RunSearch) -> Iterator[Run]:
    page = store.search_runs(search)
    yield from page.runs
    while page.token:
        page = store.search_runs(replace(search, token=page.token))
        yield from page.runs
