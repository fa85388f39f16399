"""`parallel_run_function(...)`: a parallel step in Python, called with its inputs in a `@pipeline` function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drumbeat.jobfile.builders.bindings import as_table, named, port
from drumbeat.jobfile.builders.component import ComponentFunction, ComponentStep
from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.pipelines.parallel import ParallelComponent, ParallelTask
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import SpecError

RESOURCES = ("instance_count", "instance_type", "docker_args", "shm_size")
OF_A_USE = ("compute", "identity", "properties")
"""Keys of a step, which its component doesn't have."""
DROPPED = ("experiment_name",)
RETRIES = ("max_retries", "timeout")


class ParallelFunction(ComponentFunction):
    """A parallel component as a function of its inputs that gives a step. Inputs that were given first stay."""

    def __init__(self, component: ParallelComponent, given: Mapping[str, Any], use: Mapping[str, Any]) -> None:
        super().__init__(component)
        object.__setattr__(self, "_given", dict(given))
        object.__setattr__(self, "_use", dict(use))

    _given: dict[str, Any]
    _use: dict[str, Any]

    def __call__(self, **inputs: Any) -> ComponentStep:
        """Returns a step; in a `@pipeline` function it is one of that pipeline's. Optional inputs may be None."""
        step = super().__call__(**{**self._given, **inputs})
        for key, value in self._use.items():
            setattr(step, key, value)
        return step


def parallel_run_function(
    *, task: Any = None, inputs: Mapping[str, Any] | None = None, retry_settings: Any = None, **keys: Any
) -> ParallelFunction:
    """Returns a parallel step as a function of its inputs. Raises SpecError.

    task: a `ParallelTask` (Azure's `RunFunction`). keys: those of a parallel step, and `instance_count`,
    `instance_type`, `shm_size`, `docker_args`.
    """
    valid = [*ParallelComponent.model_fields, *RESOURCES, *OF_A_USE, *DROPPED]
    for key in keys:
        if key not in valid:
            raise SpecError(f"parallel_run_function() takes no `{key}`", fix=nearest(key, valid))
    given = {key: value for key, value in keys.items() if value is not None and key not in (*OF_A_USE, *DROPPED)}
    sizes = {key: given.pop(key) for key in RESOURCES if key in given}
    if sizes:
        given["resources"] = {**as_table(given.get("resources")), **sizes}
    if retry_settings is not None:
        given["retry_settings"] = _retries(retry_settings)
    written = dict(inputs or {})
    ports = {name: _port(value) for name, value in written.items()}
    component = ParallelComponent.made({**given, "task": task, "inputs": ports})
    use = {key: keys[key] for key in OF_A_USE if keys.get(key) is not None}
    literals = {name: value for name, value in written.items() if not isinstance(value, Input)}
    return ParallelFunction(component, literals, use)


def RunFunction(  # noqa: N802, PLR0913 - Azure's class
    *,
    code: Any = None,
    entry_script: str | None = None,
    program_arguments: str | None = None,
    model: Any = None,
    append_row_to: str | None = None,
    environment: Any = None,
    **keys: Any,
) -> ParallelTask:
    """Returns the task of a parallel step. Raises SpecError."""
    del keys  # `type` has one value.
    given = {
        "code": None if code is None else str(code), "entry_script": entry_script, "model": model,
        "program_arguments": program_arguments, "append_row_to": append_row_to, "environment": named(environment),
    }  # fmt: skip
    return ParallelTask.made({key: value for key, value in given.items() if value is not None})


def _port(value: Any) -> Input:
    return value if isinstance(value, Input) else port(value)


def _retries(given: Any) -> Any:
    """The settings of a dict, or of an object with these attributes, such as Azure's."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", given)
    return {key: value for key in RETRIES if (value := getattr(given, key, None)) is not None}
