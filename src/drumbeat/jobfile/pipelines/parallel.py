"""Parallel steps and components: a script's `run()` over the mini-batches of an input.

What runs for one is made in `core/pipelines/parallel_steps.py`; the runner is the room `parallel/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.environments.environment_keys import EnvironmentValue
from drumbeat.jobfile.job.resources_and_limits import Resources
from drumbeat.jobfile.pipelines.component import ComponentKeys
from drumbeat.jobfile.reading.error_messages import either, shown
from drumbeat.jobfile.reading.expressions import missing, references
from drumbeat.jobfile.reading.field_types import AsText, Count, Filled, Number, Text, TextOrList, Variable, Whole
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, model_or_text
from drumbeat.model.errors import SpecError

_BYTES = re.compile(r"([0-9]{1,12})\s*(b|kb|mb|gb|kib|mib|gib)", re.IGNORECASE)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
DEFAULT_FILES = 10
MAX_FILES = 1_000_000

Threshold = Annotated[Whole, Field(ge=-1, le=1_000_000_000)]


class RetrySettings(Model):
    """Retries of a mini-batch that failed."""

    max_retries: Annotated[Whole, Field(ge=0, le=1_000)] = Field(
        default=2, description="How many times a failed mini-batch is tried again."
    )
    timeout: Annotated[Number, Field(gt=0, le=259_200)] = Field(
        default=60.0, description="Seconds for one mini-batch; then its worker process is killed."
    )


class ParallelTask(Model):
    """The script of a parallel step."""

    type: Annotated[Literal["run_function"], AnyCase(function="run_function")] = Field(
        default="run_function", description="`run_function`; optional."
    )
    code: Filled | None = Field(default=None, description="Folder with the source code.")
    entry_script: Filled = Field(description="Script in it, with `run(mini_batch)`, and `init()` and `shutdown()`.")
    environment: EnvironmentValue | None = Field(default=None, description="Environment to run in.")
    program_arguments: Text | None = Field(
        default=None, description="Arguments of the script, with `${{inputs.x}}` and `${{outputs.x}}`."
    )
    append_row_to: Filled | None = Field(
        default=None, description="The output that gets all that `run()` returns: `${{outputs.x}}`."
    )
    model: Filled | None = Field(default=None, description="Not supported: give the model as an input.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.model is not None:
            fix = "Give it as an input of type custom_model or mlflow_model, and its path in program_arguments."
            yield Contradiction(("model",), "a task has no model here", fix)
        if not self.entry_script.endswith(".py"):
            fix = "Name a Python file in the folder `code`."
            yield Contradiction(("entry_script",), f"{shown(self.entry_script)} isn't a Python file", fix)


class ParallelKeys(Model):
    """The keys that a parallel step and a parallel component share."""

    task: ParallelTask | None = Field(default=None, description="The script and its environment.")
    input_data: Text | None = Field(default=None, description="The input that is divided: `${{inputs.x}}`.")
    mini_batch_size: AsText | None = Field(
        default=None,
        description="Files of a mini-batch; 10 when not set. A size such as `10kb`: so many bytes of rows of tables.",
    )
    partition_keys: TextOrList | None = Field(
        default=None,
        description="Instead of a size: one mini-batch for each combination of values, which folders `key=value` name.",
    )
    mini_batch_error_threshold: Threshold | None = Field(
        default=None, description="Failed mini-batches that are tolerated; any number when not set, or -1."
    )
    error_threshold: Threshold | None = Field(
        default=None, description="Items without a result that are tolerated; any number when not set, or -1."
    )
    max_concurrency_per_instance: Count | None = Field(
        default=None,
        description="Worker processes of each node; when not set one for each core, or one where the node has GPUs.",
    )
    retry_settings: RetrySettings | None = Field(default=None, description="Retries of a failed mini-batch.")
    logging_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], AnyCase()] | None = Field(
        default=None, description="Least level of messages in the log; `INFO` when not set."
    )
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Environment variables of every worker."
    )


class ParallelComponent(ParallelKeys, ComponentKeys):
    """A component that runs a script over the mini-batches of an input."""

    type: Annotated[Literal["parallel"], AnyCase()] = Field(default="parallel", description="Always `parallel`.")
    resources: Resources = Field(default_factory=Resources, description="Number and kind of nodes.")

    def contradictions(self) -> Iterator[Contradiction]:
        yield from parallel_contradictions(self, self.inputs, [*self.outputs])


ParallelComponentValue = Annotated[
    ParallelComponent | Filled,
    model_or_text(lambda: ParallelComponent, "a component's file or `azureml:name:version`"),
]


def parallel_contradictions(
    keys: ParallelKeys, inputs: Mapping[str, object], outputs: list[str]
) -> Iterator[Contradiction]:
    """What a step with a task of its own, or a component, lacks or says against itself."""
    if keys.task is None:
        yield Contradiction((), "a parallel step has no `task`", "Add `task:` with `code` and `entry_script`.")
        return
    yield from _input_contradictions(keys, inputs)
    names = {"inputs": [*inputs], "outputs": outputs, "name": []}
    for problem, near in missing(keys.task.program_arguments or "", names, _absent(inputs)):
        yield Contradiction(("task", "program_arguments"), problem.what, problem.fix, near)
    if keys.task.append_row_to is not None and named_port(keys.task.append_row_to, "outputs") not in outputs:
        near = either(keys.task.append_row_to, outputs, "Outputs")
        fix = near or "Declare one: `outputs: {scores: {type: uri_file}}`."
        what = f"{shown(keys.task.append_row_to)} names no output"
        yield Contradiction(("task", "append_row_to"), what, f"Write `${{{{outputs.x}}}}`. {fix}")
    yield from size_contradictions(keys)


def _absent(inputs: Mapping[str, object]) -> list[str]:
    return [name for name, one in inputs.items() if isinstance(one, Input) and one.is_absent]


def _input_contradictions(keys: ParallelKeys, inputs: Mapping[str, object]) -> Iterator[Contradiction]:
    fix = f"Write `input_data: ${{{{inputs.{next(iter(inputs), 'x')}}}}}`."
    if keys.input_data is None:
        yield Contradiction((), "a parallel step has no `input_data`", fix)
        return
    name = named_port(keys.input_data, "inputs")
    if name not in inputs:
        near = either(name, inputs, "Inputs")
        yield Contradiction(("input_data",), f"{shown(keys.input_data)} names no input", f"{fix} {near}".strip())
    elif isinstance(port := inputs[name], Input) and port.is_parameter:
        what = f"input `{name}` is a {port.type}, and a parallel step divides data"
        yield Contradiction(("input_data",), what, "Name an input of type uri_folder or mltable.")


def size_contradictions(keys: ParallelKeys) -> Iterator[Contradiction]:
    """What is wrong with the division."""
    if keys.mini_batch_size is None:
        return
    try:
        size_of_mini_batch(keys.mini_batch_size)
    except SpecError as error:
        yield Contradiction(("mini_batch_size",), error.what, error.fix)
    if keys.partition_keys is not None:
        yield Contradiction(("partition_keys",), "both `mini_batch_size` and `partition_keys`", "Keep one of them.")


def size_of_mini_batch(text: str) -> tuple[int, bool]:
    """Returns the files of a mini-batch, or the bytes of its rows; and whether it is bytes. Raises SpecError."""
    written = text.strip()
    if written.isdecimal() and 0 < int(written) <= MAX_FILES:
        return int(written), False
    if (match := _BYTES.fullmatch(written)) and int(match[1]):
        return int(match[1]) * _UNITS[match[2][0].lower()], True
    fix = f"Write a number of files, 1 to {MAX_FILES:,}, or bytes of rows, such as `10kb`."
    raise SpecError(f"{shown(text)} isn't the size of a mini-batch", fix=fix)


def partition_keys(keys: ParallelKeys) -> list[str]:
    """The partition keys as a list; a text has them between commas."""
    given = keys.partition_keys or []
    texts = given.split(",") if isinstance(given, str) else given
    return [one.strip() for one in texts if one.strip()]


def named_port(text: str, table: str) -> str:
    """Returns the input or output that an expression names; "" = it names none, or more than that."""
    try:
        asked = references(text)
    except SpecError:
        return ""
    is_whole = len(asked) == 1 and asked[0].text == text.strip()
    return asked[0].name if is_whole and asked[0].kind == table else ""
