"""How busy the GPUs of a job's nodes were, from the metrics that nodes record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumbeat.core.resource_use import is_busy_share
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import SYSTEM, run_id

if TYPE_CHECKING:
    from drumbeat.server.metrics.tables import SqlMetricStore


def mean_gpu_use(store: SqlMetricStore, job: str) -> float | None:
    """Returns how busy the GPUs of a job were, from 0 to 1, over time and GPUs; None = nothing was recorded."""
    try:
        nodes = [one for one in store.series(run_id(job)) if one.rank < 0 and one.name.startswith(SYSTEM)]
    except NotFoundError:
        return None
    names = {one.name for one in nodes if is_busy_share(one.name.removeprefix(SYSTEM))}
    by_series = store.means(run_id(job), names) if names else {}
    means = [mean for (_, rank), mean in by_series.items() if rank < 0]
    return min(max(sum(means) / len(means) / 100, 0.0), 1.0) if means else None
