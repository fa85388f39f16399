"""The MLflow experiments that scripts choose by MLflow's `set_experiment`, which the job's own run doesn't move to.

MLflow's clients refuse to begin a run that they find in another experiment than the one that was set. To each rank the
job's run is therefore shown in the experiment that it asked for last; where the run is kept stays as it is.
"""

from __future__ import annotations

import json
import threading
from typing import Any, cast

from drumbeat.model.metrics import JsonObject
from drumbeat.node.metrics.http_messages import HttpAnswer, json_answer

ROUTES = ("experiments/get-by-name", "experiments/create", "experiments/get")
"""What `set_experiment` asks for."""


class ChosenExperiments:
    """own: the id of the job's experiment. Thread-safe."""

    def __init__(self, own: str) -> None:
        self._own, self._lock = own, threading.Lock()
        self._names: dict[str, str] = {}
        self._chosen: dict[int, str] = {}

    def note(self, rank: int, asked: JsonObject, answer: HttpAnswer) -> None:
        """Takes note of the experiment that a rank has asked for, or created."""
        body = _object(answer)
        experiment = body.get("experiment") or {"experiment_id": body.get("experiment_id"), "name": asked.get("name")}
        key = experiment.get("experiment_id")
        if answer.status == 200 and isinstance(key, str):
            with self._lock:
                self._names[key] = str(experiment.get("name") or self._names.get(key, key))
                self._chosen[rank] = key

    def shown(self, rank: int, answer: HttpAnswer) -> tuple[HttpAnswer, str]:
        """Returns the answer with the job's run as the rank is to see it, and the experiment's name; "" = unchanged."""
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
