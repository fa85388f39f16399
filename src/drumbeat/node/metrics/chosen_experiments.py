"""The MLflow experiments that scripts choose by MLflow's `set_experiment`, which doesn't move the job's own run.

MLflow's clients refuse to begin a run that is in another experiment than the one that was set. So each rank sees the
job's run in the experiment that it requested last; the run stays where it is stored.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlencode

from drumbeat.model.metrics import JsonObject
from drumbeat.model.mlflow_calls import EXISTS
from drumbeat.node.metrics.http_messages import HttpAnswer, Read, json_answer

ROUTES = ("experiments/get-by-name", "experiments/create", "experiments/get")
"""The routes that `set_experiment` calls."""


class ChosenExperiments:
    """The experiment that each rank has chosen. own: the id of the job's experiment. Thread-safe."""

    def __init__(self, own: str) -> None:
        self._own, self._lock = own, threading.Lock()
        self._names: dict[str, str] = {}
        self._chosen: dict[int, str] = {}
        self._missed: set[tuple[int, str]] = set()

    def answer(self, read: Read, ask: Callable[[Read], HttpAnswer]) -> HttpAnswer:
        """Answers one of the requests that `set_experiment` makes, and records what it chose.

        All ranks of a job set the same experiment at once. A rank that found none, and whose creation comes behind that
        of another rank, gets the other's: MLflow's client would return that one, too, but not set it.
        """
        answer = ask(read)
        name = str(read.fields.get("experiment_name") or read.fields.get("name") or "")
        with self._lock:
            is_late = (read.rank, name) in self._missed and _object(answer).get("error_code") == EXISTS
            if read.route == "experiments/get-by-name" and answer.status == HTTPStatus.NOT_FOUND:
                self._missed.add((read.rank, name))
        if is_late:
            path = f"{read.path.rpartition('/create')[0]}/get-by-name?{urlencode({'experiment_name': name})}"
            first = _object(ask(replace(read, method="GET", path=path, body=b""))).get("experiment")
            answer = json_answer({"experiment_id": first["experiment_id"]}) if first else answer
        self.note(read.rank, read.fields, answer)
        return answer

    def note(self, rank: int, asked: JsonObject, answer: HttpAnswer) -> None:
        """Records the experiment that a rank has requested or created."""
        body = _object(answer)
        experiment = body.get("experiment") or {"experiment_id": body.get("experiment_id"), "name": asked.get("name")}
        key = experiment.get("experiment_id")
        if answer.status == 200 and isinstance(key, str):
            with self._lock:
                self._names[key] = str(experiment.get("name") or self._names.get(key, key))
                self._chosen[rank] = key

    def shown(self, rank: int, answer: HttpAnswer) -> tuple[HttpAnswer, str]:
        """Returns the answer with the job's run as the rank should see it, and the experiment's
        name; "" = unchanged.
        """
        with self._lock:
            chosen = self._chosen.get(rank, self._own)
        body = _object(answer)
        info = body.get("run", {}).get("info")
        if answer.status != 200 or not isinstance(info, dict) or chosen == self._own:
            return answer, ""
        info["experiment_id"] = chosen
        return json_answer(body), self._names[chosen]


def _object(answer: HttpAnswer) -> dict[str, Any]:
    try:
        body: object = json.loads(answer.body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}
