"""The places and names of published outputs, and which job's output each one holds now."""

from __future__ import annotations

from drumbeat.core.lifecycle.job import Job, Published
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.model.plan import OutputPlan, Plan
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Use


def place_uses(plan: Plan) -> tuple[Use, ...]:
    """Returns the places and names that a job's outputs get, for the catalog."""
    return tuple(Use("place", key, "", f"outputs.{one.name}") for one in plan.outputs for key in _keys(one))


def has_its_places(store: SqlStore, job: Job) -> bool:
    """Whether each output of a job was published, and no later job has replaced it.

    Raises NotFoundError if its registered version was removed.
    """
    done = {one.output: one for one in job.published}
    wanted = [one for one in job.plan.outputs if one.uri or one.asset]
    return not outputs_left(job) and all(_is_current(store, job, one, done.get(one.name)) for one in wanted)


def _is_current(store: SqlStore, job: Job, output: OutputPlan, published: Published | None) -> bool:
    for key in _keys(output):
        latest = next((name for name, _ in store.users("place", key, "")), None)
        if latest != job.name:
            return False
    if published is None:
        return output.mode == "direct"  # Its ranks have written it.
    if published.problem:
        return False
    if not output.asset:
        return True
    # Users register versions, too.
    return published.asset == f"{output.asset}:{store.resource('data', output.asset, output.version).version}"


def _keys(output: OutputPlan) -> list[str]:
    return [key for key in (output.uri.rstrip("/"), f"azureml:{output.asset}" if output.asset else "") if key]
