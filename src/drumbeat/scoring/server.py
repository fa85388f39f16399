"""One process of a scoring server: loads the model, then answers requests until SIGTERM."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys

from drumbeat.scoring.connection import LoopCalls, ScoringConnection
from drumbeat.scoring.mlflow_model import MlflowModel, is_mlflow_model
from drumbeat.scoring.program_behind import PassedOn
from drumbeat.scoring.router_links import RouterLinks
from drumbeat.scoring.scorer import Scorer, ScorerError
from drumbeat.scoring.script import ScoringScript, ScriptPlace
from drumbeat.scoring.settings import ScoringSettings
from drumbeat.scoring.worker_threads import WorkerThreads, WorkRules

log = logging.getLogger("drumbeat.scoring")
STUCK_EXIT = 70
"""The exit code of a process whose run didn't end long after its time limit."""
LOOK_S = 0.05
"""How often time limits are looked at."""


def make_scorer(settings: ScoringSettings) -> Scorer:
    """What the settings name. Raises ScorerError."""
    if settings.behind is not None:
        return PassedOn(settings.behind, settings.timeout_ms / 1e3)
    if settings.entry_script:
        return ScoringScript(ScriptPlace(os.path.abspath(settings.app_root), settings.entry_script))
    if settings.model_dir:
        folder = _model_folder(settings.model_dir)
        if folder:
            return MlflowModel(folder)
        raise ScorerError(
            f"{settings.model_dir} has no file MLmodel, so it isn't an MLflow model. Name a scoring_script for it."
        )
    raise ScorerError("There is nothing to serve: name a scoring script, an MLflow model, or a port behind.")


def _model_folder(folder: str) -> str:
    """The folder with MLmodel: the one named, or the only one in it that has one. "" = none."""
    if is_mlflow_model(folder):
        return folder
    try:
        inner = [f"{folder}/{name}" for name in sorted(os.listdir(folder))]
    except OSError:
        return ""
    models = [one for one in inner if is_mlflow_model(one)]
    return models[0] if len(models) == 1 else ""


class ScoringProcess:
    """Serves one model in this process."""

    def __init__(self, settings: ScoringSettings, scorer: Scorer) -> None:
        self._settings, self._scorer = settings, scorer
        threads = max(settings.threads, _permits(settings)) if settings.behind else settings.threads
        rules = WorkRules(threads, settings.timeout_ms, settings.max_batch_size, settings.max_wait_ms)
        self._threads = WorkerThreads(scorer, rules)
        self._connections: set[ScoringConnection] = set()

    async def serve(self) -> int:
        """Answers requests until SIGTERM or SIGINT; returns the exit code."""
        loop = asyncio.get_running_loop()
        calls, stop = LoopCalls(loop), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        links = None
        listener = None
        if self._settings.router is not None:
            links = RouterLinks(self._settings.router, lambda: self._connection(calls))
            links.start()
        if self._settings.listen:
            listener = await self._listen(calls)
        watch = loop.create_task(self._watch(stop))
        await stop.wait()
        if listener is not None:
            listener.close()
        if links is not None:
            links.drain()
        for one in list(self._connections):
            one.drain()
        await self._drained()
        watch.cancel()
        return self._code

    _code = 0

    def _connection(self, calls: LoopCalls) -> ScoringConnection:
        made = ScoringConnection(self._scorer, self._threads, calls)
        self._connections = {one for one in self._connections if not one.is_lost.is_set()} | {made}
        return made

    async def _listen(self, calls: LoopCalls) -> asyncio.Server:
        host, _, port = self._settings.listen.rpartition(":")
        server = await asyncio.get_running_loop().create_server(
            lambda: self._connection(calls), host, int(port), backlog=1024, reuse_port=self._settings.worker_count > 1
        )
        bound = server.sockets[0].getsockname()
        log.info("listening on http://%s:%d/score", bound[0], bound[1])
        return server

    async def _watch(self, stop: asyncio.Event) -> None:
        """Holds time limits, and looks after a program behind."""
        count = 0
        failures = 0
        while True:
            await asyncio.sleep(LOOK_S)
            if self._threads.end_overdue() > self._settings.stuck_after_s:
                log.error("a run goes on %.0f s after its time limit: the process ends", self._settings.stuck_after_s)
                faulthandler.dump_traceback(sys.stderr)
                os._exit(STUCK_EXIT)
            count += 1
            behind = self._settings.behind
            if not isinstance(self._scorer, PassedOn) or behind is None:
                continue
            process = self._scorer.process
            if process is not None and (code := process.poll()) is not None:
                log.error("the program behind ended with %d", code)
                self._code = code if 0 < code < 256 else 1
                stop.set()
            elif count % max(1, int(behind.liveness.period / LOOK_S)) == 0:
                is_alive = await asyncio.get_running_loop().run_in_executor(
                    None, self._scorer.is_answering, behind.liveness
                )
                failures = 0 if is_alive else failures + 1
                if failures >= behind.liveness.failure_threshold:
                    log.error("the program behind has failed %d liveness probes: the process ends", failures)
                    self._code = STUCK_EXIT
                    stop.set()

    async def _drained(self) -> None:
        """Waits until requests under way are answered, and idle connections have been closed by their other end."""
        end = asyncio.get_running_loop().time() + self._settings.drain_s
        quiet_end = asyncio.get_running_loop().time() + 2.0
        while (now := asyncio.get_running_loop().time()) < end:
            left = [one for one in self._connections if not one.is_lost.is_set()]
            is_busy = any(one.is_busy for one in left) or not self._threads.is_idle
            if not is_busy and (not left or now > quiet_end):
                break
            await asyncio.sleep(0.01)
        if isinstance(self._scorer, PassedOn):
            await asyncio.get_running_loop().run_in_executor(None, self._scorer.stop)


def _permits(settings: ScoringSettings) -> int:
    return settings.router.connections if settings.router is not None else settings.threads
