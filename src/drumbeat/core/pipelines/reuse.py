"""Decides when an earlier result of a step is reused: by the key of everything that its result depends on.

Which earlier job with that key is taken is decided in `server/pipelines/earlier_results.py`. The keys that rule it out
are `is_deterministic` in `jobfile/pipelines/component.py` and `force_rerun` in `jobfile/pipelines/pipeline_job.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from drumbeat.core.pipelines.graph import PipelineStep
from drumbeat.model.plan import InputPlan, Plan, RankRuntime

SETTLED = ("snapshot:", "azureml://jobs/")
"""How the addresses of inputs begin whose content never changes."""
OF_THE_DOCUMENT = ("type", "command", "environment_variables", "distribution", "outputs", "drumbeat")
"""The keys of a step's document that decide its result; code, environment and inputs are taken from its plan."""
DECISIVE_EXTENSIONS = (
    "environment", "prepare", "mpi_options", "tensorflow_chief", "mesh", "min_nodes", "max_nodes", "grow",
    "clean_rounds", "stop_when", "idle_after",
    "fresh_nodes",
)  # fmt: skip
"""The keys of the `drumbeat:` table on which a result may depend: what runs, in what, and on how many nodes."""
OTHER_EXTENSIONS = (
    "warm_start", "network", "preflight", "system_metrics", "max_log_mib", "primary_metric", "notify", "notify_on",
    "notify_when", "checkpoints", "max_retries", "retry_delay_s", "max_retry_delay_s", "grace_s", "lost_after_s",
    "hang_after_s", "on_hang", "rendezvous_timeout_s",
)  # fmt: skip
"""Those that decide only how the result is computed, and who is notified."""
OF_A_SWEEP = ("trial", "sampling_algorithm", "search_space", "objective", "early_termination", "limits")


def may_be_reused(step: PipelineStep) -> bool:
    """Whether an earlier result of a step would be its result now."""
    return step.component.is_deterministic


def is_settled(planned: InputPlan) -> bool:
    """Whether an input's address says what its content is."""
    return planned.uri.startswith(SETTLED)


def reuse_key(document: Mapping[str, Any], plan: Plan, contents: Mapping[str, str]) -> str:
    """Returns the SHA-256 of what a step's result depends on.

    document: of its job. plan: of its job, or of a sweep's example trial. contents: by the name of an input, what
    tells its content, where its address does not.
    """
    of_kind = (*OF_THE_DOCUMENT, *(OF_A_SWEEP if document.get("type") == "sweep" else ()))
    kept = {key: document[key] for key in of_kind if key in document}
    if extensions := kept.pop("drumbeat", None):
        decisive = {name: value for name, value in extensions.items() if name not in OTHER_EXTENSIONS}
        kept |= {"drumbeat": decisive} if decisive else {}
    if "trial" in kept:
        kept["trial"] = {key: value for key, value in kept["trial"].items() if key not in ("code", "environment")}
    given: Mapping[str, Any] = document.get("inputs") or {}
    inputs = sorted(
        [one.name, one.type, one.mode, one.file, str(one.evaluated), contents.get(one.name, one.uri)]
        for one in plan.inputs
    )
    facts = {
        "document": kept,
        "literals": {name: value for name, value in given.items() if not isinstance(value, dict)},
        "inputs": inputs,
        "nodes": plan.nodes,
        "code": plan.code,
        "environment": environment_key(plan),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def environment_key(plan: RankRuntime) -> str:
    """Returns what tells an environment's content."""
    if plan.container is not None:
        return f"image {plan.container.image}" + (f" {plan.container.build.key}" if plan.container.build else "")
    return plan.python.key if plan.python is not None else plan.environment
