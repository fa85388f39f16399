"""What a parallel step says to its runner, and the arguments of the script that are meant for the runner."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

IGNORED_ARGUMENTS = ("--task_overhead_timeout", "--copy_logs_to_parent", "--resource_monitor_interval")
"""Arguments of Azure's runner that have no meaning here: the script doesn't see them."""
OWN_ARGUMENTS = {
    "--error_threshold": ("error_threshold", int),
    "--allowed_failed_percent": ("allowed_failed_percent", float),
    "--progress_update_timeout": ("progress_update_timeout_s", float),
    "--first_task_creation_timeout": ("first_task_creation_timeout_s", float),
}


class RunnerError(Exception):
    """The step can't run, or has failed: the sentence is what the job's log ends with."""


@dataclass(frozen=True)
class ParallelSettings:
    """The settings of one step."""

    mini_batch_size: int = 10
    """Files of a mini-batch."""
    mini_batch_bytes: int = 0
    """About so many bytes of rows of a table instead, never across files; 0 = files."""
    partition_keys: tuple[str, ...] = ()
    """One mini-batch for each combination of values of these keys, whatever its size."""
    workers: int = 0
    """Worker processes of a node; 0 = one for each core, or one where the node has GPUs."""
    max_retries: int = 2
    timeout_s: float = 60.0
    """Seconds for one mini-batch."""
    mini_batch_error_threshold: int = -1
    """Failed mini-batches that are tolerated; -1 = any number."""
    error_threshold: int = -1
    """Lost items that are tolerated; -1 = any number."""
    allowed_failed_percent: float = 100.0
    """Failed mini-batches that are tolerated, in percent of all."""
    progress_update_timeout_s: float = 0.0
    """Seconds in which some mini-batch must end; 0 = no limit."""
    first_task_creation_timeout_s: float = 600.0
    """Seconds from the start until some worker takes its first mini-batch."""
    logging_level: str = "INFO"
    entry_script: str = ""
    arguments: tuple[str, ...] = ()
    input: str = ""
    append_to: str = ""
    """The file that gets all results, or its folder; "" = results are only counted."""
    file_name: str = "predictions.csv"
    """Name of the file where `append_to` is a folder."""
    is_appending: bool = True
    """Whether results go into that file, rather than only being counted."""
    model_name: str = ""
    """Name of the model in a folder that is AZUREML_MODEL_DIR; "" = the model itself is that folder."""
    model: str = ""
    """The model's folder or file, AZUREML_MODEL_DIR of the script; without a script, an MLflow model that answers."""

    def taking_own_arguments(self) -> ParallelSettings:
        """Returns the settings without the arguments that are the runner's. Raises RunnerError."""
        taken, left = _split(self.arguments)
        own: dict[str, Any] = {}
        for name, text in taken.items():
            if name in OWN_ARGUMENTS:
                key, kind = OWN_ARGUMENTS[name]
                own[key] = _number(name, text, kind)
        return replace(self, arguments=tuple(left), **own)


def from_json(text: str, **own: Any) -> ParallelSettings:
    """Returns the settings of a JSON object, with `own` over it. Raises RunnerError."""
    given: dict[str, Any] = json.loads(text)
    names = {one.name for one in fields(ParallelSettings)}
    if unknown := sorted(set(given) - names):
        raise RunnerError(f"this version of drumbeat knows no setting {', '.join(unknown)} of a parallel step")
    lists: dict[str, Any] = {key: tuple(given[key]) for key in ("partition_keys", "arguments") if key in given}
    return ParallelSettings(**{**given, **lists, **own})


def _split(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Separates the runner's arguments, written as `--name value` or `--name=value`, from the script's."""
    taken: dict[str, str] = {}
    left: list[str] = []
    rest = iter(arguments)
    for one in rest:
        name, mark, value = one.partition("=")
        if name in OWN_ARGUMENTS or name in IGNORED_ARGUMENTS:
            taken[name] = value if mark else next(rest, "")
        else:
            left.append(one)
    return taken, left


def _number(name: str, text: str, kind: type[int | float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise RunnerError(f"program_arguments: {name} takes a number, not {text!r}") from None


def gpus(environment: Mapping[str, str]) -> list[str]:
    """The GPUs of this node, as CUDA_VISIBLE_DEVICES names them."""
    return [one for one in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]


def worker_count(settings: ParallelSettings, environment: Mapping[str, str]) -> int:
    """Worker processes of this node."""
    if settings.workers:
        return settings.workers
    return 1 if gpus(environment) else len(os.sched_getaffinity(0))


def worker_gpus(number: int, workers: int, environment: Mapping[str, str]) -> str | None:
    """CUDA_VISIBLE_DEVICES of a worker; None = as the node has it, where there aren't GPUs enough for all."""
    given = gpus(environment)
    if len(given) < workers:
        return None
    share = len(given) // workers
    return ",".join(given[number * share : (number + 1) * share])
