"""The variables by which ranks find where metrics go: MLflow's, Azure ML's and drumbeat's own.

The address is that of the node's own endpoint, with the rank in it. Processes that a rank starts inherit the address,
so what they write counts as that rank's.
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
"""The address for `drumbeat.log`, which a job that names an MLflow server of its own keeps."""
LOOPBACK = "127.0.0.1"
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_EXPERIMENT = ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME")


def tracked(spec: ProcessSpec, plan: Plan, address: str, first: int) -> ProcessSpec:
    """Returns the process with the variables of its rank. What the job sets itself stays.

    address: of the node's endpoint without the rank, "" = it has none. first: the node's first rank, as which commands
    of the node's command server write; other processes beside the ranks write nothing.
    """
    if not address or (spec.rank < 0 and spec.role != COMMAND_SERVER):
        return spec
    return replace(spec, set={**variables(plan, address, spec.rank if spec.rank >= 0 else first), **spec.set})


def direct(spec: ProcessSpec, node: Mapping[str, str]) -> ProcessSpec:
    """Returns the process with a `no_proxy` for the node's endpoint, if it has a proxy. node: the node's variables."""
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
        # At a run's end MLflow's clients print a link made of the address: to no page, and with the token in it.
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        **_experiment(plan, plan.variables),
    }


def _experiment(plan: RankTable, given: Mapping[str, str]) -> dict[str, str]:
    """Returns both variables, or none of them: MLflow refuses a name and an id that don't belong together."""
    if any(name in given for name in _EXPERIMENT):
        return {}
    return dict(zip(_EXPERIMENT, (experiment_id(plan.experiment), plan.experiment), strict=True))
