"""The variables with the address for metrics: MLflow's, Azure ML's and drumbeat's own.

It is the address of the node's own endpoint, including the rank. Processes that a rank starts inherit it, so their
metrics count as that rank's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from drumbeat.model.metrics import experiment_id, run_id
from drumbeat.model.plan import Plan, RankTable
from drumbeat.model.process import COMMAND_SERVER, ProcessSpec

URI = "MLFLOW_TRACKING_URI"
ENDPOINT = "DRUMBEAT_METRICS"
"""The variable with the address for `drumbeat.log`; it stays for jobs with their own MLflow server."""
LOOPBACK = "127.0.0.1"
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_EXPERIMENT = ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME")


def tracked(spec: ProcessSpec, plan: Plan, address: str, first: int) -> ProcessSpec:
    """Returns the process with the tracking variables of its rank. Variables that the job sets stay.

    address: of the node's endpoint without the rank, "" = none. first: the node's first rank, under which commands of
    the node's command server report; other processes beside the ranks report nothing.
    """
    if not address or (spec.rank < 0 and spec.role != COMMAND_SERVER):
        return spec
    return replace(spec, set={**variables(plan, address, spec.rank if spec.rank >= 0 else first), **spec.set})


def direct(spec: ProcessSpec, node: Mapping[str, str]) -> ProcessSpec:
    """Returns the process with a `no_proxy` for the node's endpoint if it has a proxy. node: the node's variables."""
    seen = {**node, **spec.set}
    if ENDPOINT not in spec.set or not any(seen.get(name) for name in _PROXIES):
        return spec
    spared = seen.get("no_proxy") or seen.get("NO_PROXY") or ""
    spared = spared if spared == "*" else ",".join(part for part in (spared, LOOPBACK) if part)
    return replace(spec, set={**spec.set, "no_proxy": spared, "NO_PROXY": spared})


def variables(plan: Plan, address: str, rank: int) -> dict[str, str]:
    """Returns the variables of one rank."""
    own = {ENDPOINT: f"{address}/{rank}", "AZUREML_EXPERIMENT_ID": experiment_id(plan.experiment)}
    if URI in plan.variables:
        return own
    return {
        **own,
        URI: own[ENDPOINT],
        "MLFLOW_TRACKING_TOKEN": urlsplit(address).path.strip("/"),
        "MLFLOW_RUN_ID": run_id(plan.job),
        # At the end of a run MLflow's clients print a link from the address, which leads nowhere and contains the
        # token.
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        **_experiment(plan, plan.variables),
    }


def _experiment(plan: RankTable, given: Mapping[str, str]) -> dict[str, str]:
    """Returns both variables or neither: MLflow refuses a name and an id that don't match."""
    if any(name in given for name in _EXPERIMENT):
        return {}
    return dict(zip(_EXPERIMENT, (experiment_id(plan.experiment), plan.experiment), strict=True))
