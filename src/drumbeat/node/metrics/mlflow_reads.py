"""Answers reads of MLflow's clients from the server, or from the node alone while the server is away.

Before the server is asked, it gets the records of this node's ranks, so that a rank reads its own writes. While it is
away, a rank reads what its node knows: its own runs, their latest values and the histories on the node.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from drumbeat.model.errors import DrumbeatError, UnreachableError
from drumbeat.model.metrics import JsonObject, PointsLogged, experiment_id
from drumbeat.model.mlflow_calls import AWAY, LATE, MlflowRefusal, missing
from drumbeat.model.mlflow_runs import metric_view
from drumbeat.node.metrics.forwarder import Forwarder
from drumbeat.node.metrics.http_messages import HttpAnswer, Read, json_answer
from drumbeat.node.metrics.node_runs import NodeRuns
from drumbeat.node.metrics.spool import Spool
from drumbeat.node.platform.server_link import RANK_HEADER, NoAnswerError, ServerLink

FLUSH_S = 2.0
"""How long a reader waits for the server to receive this node's records."""
MODEL_METRICS = "/api/2.0/mlflow/logged-models/metrics"
"""A route that only nodes call."""
MAKE_TIMEOUT_S = 30.0
"""How long the server may take to create something: its database alone may wait 10 s for a lock."""
_AWAY_S = 5.0
"""How long readers don't call a server that did not answer."""


class Reads:
    """Answers requests of the ranks, except writes to runs of this node. Thread-safe."""

    def __init__(
        self,
        runs: NodeRuns,
        spool: Spool,
        forwarder: Forwarder,
        open_link: Callable[[], ServerLink],
        experiment: str,
    ) -> None:
        self._runs, self._spool, self._forwarder = runs, spool, forwarder
        self._open_link, self._experiment = open_link, experiment
        self._links = threading.local()
        self._away_until = 0.0
        self._alone: dict[str, Callable[[Read], JsonObject]] = {
            "runs/get": self._run,
            "runs/search": self._search,
            "metrics/get-history": self._history,
            "experiments/get": self._find_experiment,
            "experiments/get-by-name": self._find_experiment,
            "logged-models/search": lambda _: {"models": []},
        }

    def answer(self, read: Read) -> HttpAnswer:
        """Returns the server's answer, else the node's. Raises MlflowRefusal where only the server knows one."""
        why = "it has not received this node's records yet"
        if self._can_ask():
            try:
                return self._ask(read)
            except NoAnswerError as error:
                what = f"drumbeat's server did not answer in time, and may have carried out {read.route}"
                raise MlflowRefusal(LATE, f"{what}: check before you try again ({error})") from None
            except DrumbeatError as error:
                self._away_until, why = time.monotonic() + _AWAY_S, str(error)
        alone = self._alone.get(read.route)
        if alone is None:
            raise MlflowRefusal(AWAY, f"drumbeat's server doesn't answer, and only it knows {read.route}: {why}")
        return json_answer(alone(read))

    def keep_with_models(self, run: str, metrics: list[JsonObject], rank: int) -> None:
        """Stores metrics with the logged models that they name; the points themselves are in the spool.

        While the server is away they are stored with the run only.
        """
        body = json.dumps({"run_id": run, "metrics": metrics}).encode()
        try:
            if time.monotonic() < self._away_until:
                raise UnreachableError("the server is away")
            answer = self._ask(Read("POST", MODEL_METRICS, body, "application/json", rank))
        except DrumbeatError as error:
            self._forwarder.note(f"metrics of logged models are only kept with run {run}: {error}")
        else:
            if answer.status != 200:
                self._forwarder.note(f"metrics of logged models are only kept with run {run}: {answer.body[:300]!r}")

    def _can_ask(self) -> bool:
        if time.monotonic() < self._away_until or self._forwarder.is_over:
            return False
        return self._forwarder.flush(FLUSH_S)

    def _ask(self, read: Read) -> HttpAnswer:
        link = getattr(self._links, "link", None)
        if link is None:
            link = self._links.link = self._open_link()
        headers = {RANK_HEADER: str(read.rank), "Content-Type": read.content_type}
        once_within_s = MAKE_TIMEOUT_S if read.makes else 0.0
        status, kind, body = link.mlflow(read.method, read.path, read.body, headers, once_within_s)
        return HttpAnswer(status, body, kind or "application/json")

    # --- the node alone -------------------------------------------------------------------------------------------
    def _run(self, read: Read) -> JsonObject:
        run = str(read.fields.get("run_id") or read.fields.get("run_uuid") or "")
        if run not in self._runs:
            raise missing(f"Run with id={run} not found: drumbeat's server is away.")
        return {"run": self._runs.view(run, read.rank)}

    def _search(self, read: Read) -> JsonObject:
        self._forwarder.note("a search was answered by this node alone, unfiltered: the server is away")
        experiments = [str(one) for one in cast("list[Any]", read.fields.get("experiment_ids") or [])]
        return {"runs": self._runs.search(experiments, read.rank)}

    def _history(self, read: Read) -> JsonObject:
        run, name = str(read.fields.get("run_id") or read.fields.get("run_uuid") or ""), read.fields.get("metric_key")
        rank = self._runs.rank_in(run, read.rank)
        metrics: list[JsonObject] = []
        for _, record in self._spool.records():
            if isinstance(record, PointsLogged) and (record.run, record.rank) == (run, rank):
                metrics += [metric_view(one) for one in record.points if one.name == name]
        return {"metrics": metrics}

    def _find_experiment(self, read: Read) -> JsonObject:
        own = experiment_id(self._experiment)
        wanted = str(read.fields.get("experiment_id") or read.fields.get("experiment_name") or "")
        if wanted not in ("0", own, self._experiment):
            raise missing(f"No experiment {wanted!r} is known to this node: drumbeat's server is away.")
        location = f"mlflow-artifacts:/{own}"
        return {
            "experiment": {
                "experiment_id": own,
                "name": self._experiment,
                "artifact_location": location,
                "lifecycle_stage": "active",
            }
        }
