"""The user's own job on fewer nodes, as `plan --predict` runs it to measure its steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Job = Path | dict[str, object]


def measured_job(job: Job, sets: Sequence[str], nodes: int) -> tuple[Job, list[str]]:
    """Returns the job and its overrides for so many nodes. The pre-flight measures the network between them."""
    changes: dict[str, Any] = {
        "resources.instance_count": nodes,
        "drumbeat.max_retries": 0,
        "drumbeat.preflight": nodes > 1,
        "drumbeat.system_metrics": True,
    }
    if isinstance(job, Path):
        return job, [*sets, *(f"{key}={str(value).lower()}" for key, value in changes.items())]
    changed = copy.deepcopy(job)
    for key, value in changes.items():
        table, _, name = key.partition(".")
        inner = changed.get(table)
        changed[table] = {**(inner if isinstance(inner, Mapping) else {}), name: value}
    return changed, list(sets)
