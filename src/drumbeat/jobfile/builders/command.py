"""Jobs made in Python: `command(...)` gives an object that can be changed, called, swept and put into pipelines.

A `Command` is a draft: `to_job()` checks it and gives the `CommandJob`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from drumbeat.jobfile.builders.bindings import OPEN, Inputs, Outputs, apart, as_table, bound, named, port, step_value
from drumbeat.jobfile.builders.sweep import OF_THE_TRIAL, Sweepable, drawn_from
from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.job.distribution import KINDS
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.job_file import Job, load
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.step_types import CommandNode
from drumbeat.jobfile.reading.error_messages import fold, nearest
from drumbeat.jobfile.sweeping.search_space import SearchFunction
from drumbeat.model.errors import SpecError

IN_A_COMPONENT = ("command", "code", "environment", "environment_variables", "resources", "distribution")
OF_A_REGISTERED = ("name", "version", "display_name", "description", "tags")
APART = ("declared", "is_deterministic", "version")
"""Fields of a draft that aren't keys of a job file."""


@dataclass(kw_only=True, eq=False, slots=True)
class Command(Sweepable):
    """A draft of a command job: every key may be set or changed, and `to_job()` checks them all.

    Calling it gives a copy with other inputs: `job(lr=Uniform(0.1, 1))`. Attributes are the keys of the job file.
    """

    command: str
    code: str | Path | None = None
    environment: Any = None
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    distribution: Any = None
    environment_variables: dict[str, Any] = field(default_factory=dict[str, Any])
    resources: Any = None
    limits: Any = None
    queue_settings: Any = None
    compute: Any = None
    name: str | None = None
    display_name: str | None = None
    experiment_name: str | None = None
    description: str | None = None
    tags: dict[str, Any] = field(default_factory=dict[str, Any])
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    identity: Any = None
    services: dict[str, Any] = field(default_factory=dict[str, Any])
    parent_job_name: str | None = None
    drumbeat: Any = None
    is_deterministic: bool = True
    """Whether an earlier result of this step may be reused."""
    version: str | None = None
    """Of its component, where it is registered."""
    declared: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """The inputs as they were before the object was called with others: their types and modes stay."""

    def __post_init__(self) -> None:
        self.inputs = Inputs(self.inputs)
        self.outputs = Outputs(self, self.outputs or {})

    def __call__(self, **inputs: Any) -> Command:
        """Returns a copy with these inputs; optional ones may be None. In a `@pipeline` function the copy becomes a
        step.
        """
        unknown = [name for name in inputs if name not in self.inputs]
        if unknown:
            raise SpecError(f"the command has no input `{unknown[0]}`", fix=nearest(unknown[0], self.inputs))
        own: dict[str, Any] = {each.name: apart(getattr(self, each.name)) for each in fields(self)}
        ports = {**own["inputs"], **own["declared"]}
        given = {name: _absent(ports[name]) if value is None else value for name, value in inputs.items()}
        keys: dict[str, Any] = {**own, "inputs": {**own["inputs"], **given}, "declared": ports}
        made = Command(**keys)
        steps = OPEN.get()
        if steps is not None:
            steps.append(made)
        return made

    def ports(self) -> dict[str, Any]:
        """Returns the first declaration of each input."""
        return {**self.inputs, **self.declared}

    def set_resources(self, **resources: Any) -> None:
        """Changes `instance_count`, `instance_type`, `shm_size`, … and keeps the others."""
        self.resources = {**as_table(self.resources), **resources}

    def set_limits(self, *, timeout: float | None = None) -> None:
        """Seconds after which the job is ended."""
        self.limits = {**as_table(self.limits), "timeout": timeout}

    def set_queue_settings(self, *, job_tier: str | None = None, priority: str | None = None) -> None:
        """Settings of the job in the queue."""
        self.queue_settings = {"job_tier": job_tier, "priority": priority}

    def document(self) -> dict[str, Any]:
        """The keys that were set."""
        table = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in APART}
        table["distribution"] = lenient(self.distribution)
        table["environment"] = named(self.environment)
        table["code"] = str(self.code) if isinstance(self.code, Path) else self.code
        return {key: value for key, value in table.items() if value is not None and value != {}}

    def to_job(self) -> CommandJob:
        """Returns the checked job; raises `SpecError` with every problem."""
        open_ones = [name for name, value in self.inputs.items() if isinstance(value, SearchFunction)]
        if open_ones:
            raise SpecError(f"the input `{open_ones[0]}` is a search function", fix="Call `.sweep(...)` on the job.")
        return CommandJob.made(self.document())

    def to_node(self, names: Mapping[int, str]) -> CommandNode:
        """The step that this is in a pipeline."""
        keys = CommandNode.model_fields
        own = {key: step_value(value, names) for key, value in self.document().items()}
        document = {key: value for key, value in own.items() if key in keys and key != "name"}
        if not self.is_deterministic:
            document = {key: value for key, value in document.items() if key not in IN_A_COMPONENT}
            document["component"] = self.to_component(is_deterministic=False)
        return CommandNode.made(document | {"inputs": bound(self.inputs, self.ports(), names)})

    def to_component(self, **keys: Any) -> CommandComponent:
        """The command with its inputs as declarations, for trials in pipelines. keys: further ones of the component."""
        document = {key: value for key, value in self.document().items() if key in IN_A_COMPONENT}
        inputs = {name: port(self.declared.get(name, value)) for name, value in self.inputs.items()}
        return CommandComponent.made({**document, **keys, "inputs": inputs, "outputs": dict(self.outputs)})

    @property
    def component(self) -> CommandComponent:
        """The command as a component that can be registered, with its name and version."""
        keys = {key: getattr(self, key) for key in OF_A_REGISTERED if getattr(self, key)}
        return self.to_component(**keys, is_deterministic=self.is_deterministic)

    def as_trial(self, document: Mapping[str, Any], drawn: Collection[str]) -> dict[str, Any]:
        """The document of a sweep with this as its trial."""
        own = self.document()
        trial = {key: own[key] for key in OF_THE_TRIAL if key in own}
        return {**document, "trial": trial | {"command": drawn_from(self.command, drawn)}}


def command(  # noqa: PLR0913 - azure-ai-ml's own signature
    *,
    command: str,
    code: str | Path | None = None,
    environment: Any = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    distribution: Any = None,
    instance_count: int | None = None,
    instance_type: str | None = None,
    max_instance_count: int | None = None,
    shm_size: str | None = None,
    docker_args: str | list[str] | None = None,
    locations: list[str] | None = None,
    timeout: float | None = None,
    job_tier: str | None = None,
    priority: str | None = None,
    **keys: Any,
) -> Command:
    """Drafts a command job. `keys` are the further keys of a job file, like `compute` and `display_name`."""
    names = [each.name for each in fields(Command)]
    for key in keys:
        if key not in names:
            raise SpecError(f"command() takes no `{key}`", fix=nearest(key, [*names, "instance_count", "timeout"]))
    draft = Command(command=command, code=code, environment=environment, **keys)
    draft.inputs = Inputs(inputs)
    draft.outputs = Outputs(draft, outputs or {})
    draft.distribution = distribution
    resources = {
        "instance_count": instance_count,
        "instance_type": instance_type,
        "max_instance_count": max_instance_count,
        "shm_size": shm_size,
        "docker_args": docker_args,
        "locations": locations,
    }
    given = {key: value for key, value in resources.items() if value is not None}
    if given:
        draft.set_resources(**given)
    if timeout is not None:
        draft.set_limits(timeout=timeout)
    if job_tier or priority:
        draft.set_queue_settings(job_tier=job_tier, priority=priority)
    return draft


def load_job(source: str | Path) -> Job:
    """The job in a YAML file, as Azure's function of this name gives it.

    The job doesn't remember its file: its paths are relative to the current folder, which names its experiment. Submit
    the file's path to make them relative to the file's folder.
    """
    return load(source)


def _absent(declared: Any) -> Any:
    """An input that is given None: absent, where it is declared as optional."""
    return declared if isinstance(declared, Input) and declared.is_absent else None


def lenient(distribution: Any) -> Any:
    """Returns a dict without its unknown keys, with a warning for each; other values unchanged."""
    if not isinstance(distribution, Mapping):
        return distribution
    written = dict(cast("Mapping[str, Any]", distribution))
    cls = KINDS.get(fold(str(written.get("type"))))
    for key in [key for key in written if cls and key not in cls.model_fields] if cls else []:
        near = nearest(key, cls.model_fields) if cls else ""
        warnings.warn(f"distribution has no `{key}`; it is left out. {near}".strip(), UserWarning, stacklevel=4)
        del written[key]
    return written
