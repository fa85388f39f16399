"""A sweep made in Python, from a command or a component whose inputs are search functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from drumbeat.jobfile.builders.bindings import OPEN, ChangeableDraft, Outputs, apart, as_table, bound, port, step_value
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.step_types import SweepNode
from drumbeat.jobfile.reading.model import Model
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.sweeping.search_space import SearchFunction
from drumbeat.jobfile.sweeping.sweep import SweepJob

OF_THE_TRIAL = ("command", "code", "environment", "environment_variables", "distribution", "resources")
OF_THE_SWEEP = ("sampling_algorithm", "search_space", "objective", "early_termination", "limits", "queue_settings")
OF_BOTH = (
    "name", "display_name", "experiment_name", "description", "tags", "properties", "compute", "identity", "services",
    "drumbeat",
)  # fmt: skip
"""What a sweep takes over from the command, unless it has its own."""


class TrialDraft(Protocol):
    """What a sweep's trials run: a `Command`, or the use of a component."""

    inputs: dict[str, Any]
    compute: Any
    limits: Any
    queue_settings: Any

    @property
    def outputs(self) -> Mapping[str, Any]:
        """Its outputs by name."""
        ...

    def document(self) -> dict[str, Any]:
        """The keys that were set."""
        ...

    def ports(self) -> dict[str, Any]:
        """Each input as it was first declared."""
        ...

    def to_component(self) -> CommandComponent:
        """Returns it as a component."""
        ...

    def as_trial(self, document: Mapping[str, Any], drawn: Collection[str]) -> dict[str, Any]:
        """The document of a sweep with this as its trial. drawn: the inputs that come from the search space."""
        ...


@dataclass(kw_only=True, eq=False, slots=True)
class Sweep(ChangeableDraft):
    """A draft of a sweep: `to_job()` checks it. Attributes are the keys of a sweep file."""

    trial: TrialDraft
    search_space: dict[str, Any]
    objective: Any
    sampling_algorithm: Any = "random"
    early_termination: Any = None
    limits: dict[str, Any] = field(default_factory=dict[str, Any])
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
    drumbeat: Any = None
    outputs: Outputs = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = Outputs(self, self.trial.outputs)
        of_trial = self.trial.document()
        for key in OF_BOTH:
            if not getattr(self, key) and key in of_trial:
                # A copy: what is set on the sweep afterwards doesn't change the command.
                setattr(self, key, apart(of_trial[key]))

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs that have the same value in every trial."""
        return {name: value for name, value in self.trial.inputs.items() if name not in self.search_space}

    def set_limits(self, **limits: float | None) -> None:
        """Changes `max_total_trials`, `max_concurrent_trials`, `timeout`, `trial_timeout`; keeps the others."""
        self.limits |= {key: value for key, value in limits.items() if value is not None}

    def set_objective(self, *, primary_metric: str, goal: str) -> None:
        """The metric that ranks the trials."""
        self.objective = {"primary_metric": primary_metric, "goal": goal}

    def to_job(self) -> SweepJob:
        """The checked sweep; `${{inputs.x}}` of what is drawn has become `${{search_space.x}}`."""
        document = {**self._keys(), "inputs": self.inputs, "outputs": dict(self.outputs)}
        return SweepJob.made(self.trial.as_trial(document, self.search_space))

    def to_node(self, names: Mapping[int, str]) -> SweepNode:
        """The step that this is in a pipeline."""
        component = self.trial.to_component()
        more = {name: port(value) for name, value in self.search_space.items() if name not in component.inputs}
        component = component.model_copy(update={"inputs": component.inputs | more})
        own = {key: step_value(value, names) for key, value in self._keys().items()}
        keys = {key: value for key, value in own.items() if key in SweepNode.model_fields and key != "name"}
        inputs = bound(self.inputs, self.trial.ports(), names)
        return SweepNode.made({**keys, "trial": component, "inputs": inputs, "outputs": dict(self.outputs)})

    def _keys(self) -> dict[str, Any]:
        keys = {key: getattr(self, key) for key in (*OF_BOTH, *OF_THE_SWEEP) if getattr(self, key)}
        # A job's model of its extensions isn't a sweep's, which has more keys.
        return keys | ({"drumbeat": to_dict(self.drumbeat)} if isinstance(self.drumbeat, Model) else {})


def drawn_from(command: str, space: Collection[str]) -> str:
    """The command with `${{inputs.x}}` of a drawn `x` as `${{search_space.x}}`."""

    def renamed(match: re.Match[str]) -> str:
        return f"${{{{search_space.{match[1]}}}}}" if match[1] in space else match[0]

    return re.sub(r"\$\{\{\s*inputs\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}", renamed, command)


class Sweepable(ChangeableDraft):
    """A draft that can be swept: `sweep(...)` is azure-ai-ml's."""

    __slots__ = ()

    def sweep(  # noqa: PLR0913 - azure-ai-ml's own signature
        self: TrialDraft,
        *,
        primary_metric: str,
        goal: str,
        sampling_algorithm: Any = "random",
        compute: str | None = None,
        max_total_trials: int | None = None,
        max_concurrent_trials: int | None = None,
        timeout: float | None = None,
        trial_timeout: float | None = None,
        early_termination_policy: Any = None,
        search_space: Mapping[str, Any] | None = None,
        job_tier: str | None = None,
        priority: str | None = None,
    ) -> Sweep:
        """A sweep over the inputs that are search functions, and over `search_space`.

        The other keys of the job become the sweep's; its time limit becomes `trial_timeout`.
        """
        drawn = {name: value for name, value in self.inputs.items() if isinstance(value, SearchFunction)}
        draft = Sweep(
            trial=self,
            search_space={**drawn, **(search_space or {})},
            objective={"primary_metric": primary_metric, "goal": goal},
            sampling_algorithm=sampling_algorithm,
            compute=compute or self.compute,
            early_termination=early_termination_policy,
        )
        draft.set_limits(
            max_total_trials=max_total_trials,
            max_concurrent_trials=max_concurrent_trials,
            timeout=timeout,
            trial_timeout=trial_timeout or as_table(self.limits).get("timeout"),
        )
        given = {"job_tier": job_tier, "priority": priority}
        queue = as_table(self.queue_settings) | {key: value for key, value in given.items() if value}
        draft.queue_settings = queue or None
        steps = OPEN.get()
        if steps is not None:
            steps[:] = [draft if step is self else step for step in steps]
        return draft
