"""`log_parameters` and `primary`: write what a run is known by through MLflow's REST protocol, without its client."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping

_TIMEOUT_S = 30.0
_BATCH = 100
"""The maximum number of parameters of one request, as in MLflow."""
_LOG_BATCH = "log-batch"
_SET_TAG = "set-tag"
_PRIMARY_TAG = "drumbeat.primary"
_GOALS = {"max": "maximize", "maximize": "maximize", "min": "minimize", "minimize": "minimize"}


def log_parameters(values: Mapping[str, object], variables: Mapping[str, str] = os.environ) -> bool:
    """Logs parameters of the run in MLFLOW_RUN_ID; returns whether they were stored.

    Does nothing outside of a run. A parameter keeps its first value. A server's refusal is printed, and never ends a
    training.
    """
    if not values:
        return False
    params = [{"key": name, "value": str(value)} for name, value in values.items()]
    batches = [params[start : start + _BATCH] for start in range(0, len(params), _BATCH)]
    # All batches are sent.
    answers = [_send(variables, _LOG_BATCH, {"params": batch}, "the parameters were") for batch in batches]
    return all(answers)


def primary(name: str, goal: str = "", variables: Mapping[str, str] = os.environ) -> bool:
    """Names the metric that counts in the run in MLFLOW_RUN_ID, as the script logs it; returns whether that was stored.

    goal: `max` or `min`; "" = as its name says, an `accuracy` high, a `loss` low. Only rank 0 sends it. Does nothing
    outside of a run. A server's refusal is printed, and never ends a training. Raises ValueError for another goal and
    for an empty name.
    """
    if not name.strip():
        raise ValueError("the primary metric has no name: drumbeat.primary('val/accuracy', 'max')")
    if goal and goal.lower() not in _GOALS:
        raise ValueError(f"the goal of {name!r} is 'max' or 'min', and this is {goal!r}")
    if variables.get("RANK", "0") != "0":
        return False
    tag = f"{name.strip()} {_GOALS[goal.lower()]}" if goal else name.strip()
    return _send(variables, _SET_TAG, {"key": _PRIMARY_TAG, "value": tag}, "the primary metric was")


def _send(variables: Mapping[str, str], call: str, body: Mapping[str, object], subject: str) -> bool:
    """Calls MLflow's API for the run. subject: of the sentence that says what was not kept."""
    address, run = variables.get("MLFLOW_TRACKING_URI", ""), variables.get("MLFLOW_RUN_ID", "")
    if not address.startswith(("http://", "https://")) or not run:
        return False
    headers = {"Content-Type": "application/json"}
    if token := variables.get("MLFLOW_TRACKING_TOKEN", ""):
        headers["Authorization"] = f"Bearer {token}"
    url = f"{address.rstrip('/')}/api/2.0/mlflow/runs/{call}"
    request = urllib.request.Request(url, json.dumps({"run_id": run, **body}).encode(), headers)  # noqa: S310 (http or https, above)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
            return True
    except urllib.error.HTTPError as error:
        _say(f"{subject} not kept: {error.code} {error.read(500).decode(errors='replace')}")
    except OSError as error:
        _say(f"{subject} not kept: {error}")
    return False


def _say(sentence: str) -> None:
    print(f"drumbeat: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 (a rank's log)
