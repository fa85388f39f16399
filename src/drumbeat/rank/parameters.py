"""`log_parameters`: writes the settings of a training to the run by MLflow's REST protocol, without its client."""

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
_PATH = "/api/2.0/mlflow/runs/log-batch"


def log_parameters(values: Mapping[str, object], variables: Mapping[str, str] = os.environ) -> bool:
    """Logs parameters of the run in MLFLOW_RUN_ID; returns whether they were stored.

    Does nothing outside of a run. A parameter keeps its first value. A server's refusal is printed, and never ends a
    training.
    """
    address, run = variables.get("MLFLOW_TRACKING_URI", ""), variables.get("MLFLOW_RUN_ID", "")
    if not address.startswith(("http://", "https://")) or not run or not values:
        return False
    params = [{"key": name, "value": str(value)} for name, value in values.items()]
    headers = {"Content-Type": "application/json"}
    if token := variables.get("MLFLOW_TRACKING_TOKEN", ""):
        headers["Authorization"] = f"Bearer {token}"
    batches = [params[start : start + _BATCH] for start in range(0, len(params), _BATCH)]
    answers = [_send(address, headers, {"run_id": run, "params": batch}) for batch in batches]  # All batches are sent.
    return all(answers)


def _send(address: str, headers: dict[str, str], batch: dict[str, object]) -> bool:
    body = json.dumps(batch).encode()
    request = urllib.request.Request(address.rstrip("/") + _PATH, body, headers)  # noqa: S310 (http or https, above)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
            return True
    except urllib.error.HTTPError as error:
        _say(f"{error.code} {error.read(500).decode(errors='replace')}")
    except OSError as error:
        _say(str(error))
    return False


def _say(reason: str) -> None:
    print(f"drumbeat: the parameters were not kept: {reason}", file=sys.stderr, flush=True)  # noqa: T201 (a rank's log)
