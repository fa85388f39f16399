"""A sweep: many trials of one command, with values drawn from a search space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, ValidationInfo

from drumbeat.jobfile.environments.environment_keys import EnvironmentValue
from drumbeat.jobfile.job.distribution import Distribution
from drumbeat.jobfile.job.job import PREPARE, JobKeys, output_contradictions
from drumbeat.jobfile.job.resources_and_limits import QueueSettings, Resources
from drumbeat.jobfile.reading.error_messages import fold, nearest, shown, words
from drumbeat.jobfile.reading.expressions import missing, references
from drumbeat.jobfile.reading.field_types import (
    AsText,
    Count,
    Filled,
    Identifier,
    Seconds,
    Variable,
    Whole,
    complaint,
    named,
)
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, chosen, model_or_text
from drumbeat.jobfile.sweeping.early_termination import PolicyValue, SweepExtensions, early_end_contradictions
from drumbeat.jobfile.sweeping.parameter_names import parameter_names, sampling_contradictions, space_contradictions
from drumbeat.jobfile.sweeping.search_space import SearchValue

MAX_NAME = 247
"""Trials add `_` and their number to the name of a sweep; a name has 255 characters at most."""


class Trial(Model):
    """The command of each trial."""

    command: Filled = Field(description="Shell command, with `${{search_space.x}}` and `${{inputs.x}}`.")
    code: Filled | None = Field(default=None, description="Folder with the source code.")
    environment: EnvironmentValue | None = Field(default=None, description="Environment to run in.")
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Environment variables of every rank."
    )
    distribution: Distribution | None = Field(default=None, description="How its processes find each other.")
    resources: Resources = Field(default_factory=Resources, description="Number of nodes of each trial.")


TrialValue = Annotated[
    Trial | Filled,
    model_or_text(lambda: Trial, "a reference to a component"),
    named("a component", "Write a component's file, or `azureml:name:version`.", is_one_word=False),
]


def _log_base(value: object) -> object:
    if value == "e" or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")):
        return value
    raise complaint(f"expected `e` or a number above 0, got {shown(value)}")


class RandomSampling(Model):
    """Samples values at random, or from a Sobol sequence."""

    type: Annotated[Literal["random"], AnyCase()] = Field(default="random", description="Always `random`.")
    seed: Whole | None = Field(default=None, description="Seed for reproducible samples.")
    rule: Annotated[Literal["random", "sobol"], AnyCase()] | None = Field(default=None, description="Sampling method.")
    logbase: Annotated[Literal["e"] | float, BeforeValidator(_log_base)] | None = Field(
        default=None, description="Base of the log functions: a number, or `e`."
    )


class GridSampling(Model):
    """Tries every combination of `choice` values once."""

    type: Annotated[Literal["grid"], AnyCase()] = Field(default="grid", description="Always `grid`.")


class BayesianSampling(Model):
    """Chooses values by the results of earlier trials."""

    type: Annotated[Literal["bayesian"], AnyCase()] = Field(default="bayesian", description="Always `bayesian`.")


def _sampling(value: object, info: ValidationInfo) -> object:
    """A bare word stays a word; a mapping becomes the object."""
    classes = (RandomSampling, GridSampling, BayesianSampling)
    if isinstance(value, str):
        names = {str(cls.kind()): str(cls.kind()) for cls in classes}
        if fold(value) not in names:
            raise complaint(f"expected {words(names, 'or')}, got {shown(value)}", nearest(value, names))
        return fold(value)
    if isinstance(value, Mapping):
        written = cast("Mapping[str, object]", value)
        cls = chosen(written, classes, "a sampling algorithm", None, None)
        return cls.model_validate(written, context=info.context)
    if isinstance(value, classes):
        return value
    raise complaint(f"expected `random`, `grid`, `bayesian` or a mapping, got {shown(value)}")


SamplingValue = Annotated[
    Literal["random", "grid", "bayesian"] | RandomSampling | GridSampling | BayesianSampling, BeforeValidator(_sampling)
]


class Objective(Model):
    """The metric that ranks the trials."""

    goal: Annotated[Literal["minimize", "maximize"], AnyCase()] = Field(
        description="Whether smaller or larger values are better."
    )
    primary_metric: Filled = Field(description="Name of the metric, exactly as the script logs it.")


class SweepJobLimits(Model):
    """Number and duration of trials."""

    max_total_trials: Count = Field(default=1000, description="Maximum number of trials.")
    max_concurrent_trials: Count | None = Field(
        default=None, description="Maximum number of concurrent trials; unlimited when not set."
    )
    timeout: Seconds | None = Field(default=None, description="Seconds after which the sweep is ended.")
    trial_timeout: Seconds | None = Field(default=None, description="Seconds after which a trial is ended.")


class SweepJob(JobKeys):
    """Many trials of one command, each with values of its own from the search space."""

    type: Annotated[Literal["sweep"], AnyCase()] = Field(default="sweep", description="Always `sweep`.")
    trial: TrialValue = Field(description="The command of each trial, or a reference to a component.")
    sampling_algorithm: SamplingValue = Field(description="Sampling algorithm: its name, or a mapping with options.")
    search_space: dict[Identifier, SearchValue] = Field(
        min_length=1, description="Search space of each parameter, by name."
    )
    objective: Objective = Field(description="Metric that ranks the trials.")
    early_termination: PolicyValue | None = Field(default=None, description="Policy that ends unpromising trials.")
    limits: SweepJobLimits = Field(default_factory=SweepJobLimits, description="Number and duration of trials.")
    queue_settings: QueueSettings = Field(default_factory=QueueSettings, description="Queue settings.")
    resources: Resources = Field(default_factory=Resources, description="Nodes of each trial, like `trial.resources`.")
    drumbeat: SweepExtensions = Field(default_factory=SweepExtensions, description="What drumbeat adds to the dialect.")

    def contradictions(self) -> Iterator[Contradiction]:
        yield from sampling_contradictions(self.sampling_algorithm, self.search_space)
        yield from space_contradictions(self.search_space)
        yield from self._command_contradictions()
        yield from output_contradictions(self)
        yield from early_end_contradictions(self.early_termination, self.drumbeat)
        if self.name and len(self.name) > MAX_NAME:
            what = (
                f"the name has {len(self.name)} characters; trials are named after it, so at most {MAX_NAME} are left"
            )
            yield Contradiction(("name",), what)

    def _command_contradictions(self) -> Iterator[Contradiction]:
        if not isinstance(self.trial, Trial):
            return
        drawn = parameter_names(self.search_space)
        names = {"inputs": [*self.inputs], "outputs": [*self.outputs], "search_space": [*drawn], "name": []}
        for key, text in ((("trial", "command"), self.trial.command), (PREPARE, self.drumbeat.prepare or "")):
            problems = [*missing(text, names, self.absent_inputs)]
            yield from (Contradiction(key, problem.what, problem.fix, near) for problem, near in problems)
            for reference in () if problems else references(text):
                if reference.kind == "search_space" and not drawn[reference.name] and not reference.optional:
                    what = f"{reference.text} has no value in trials that draw another branch"
                    fix = "Put its use in `$[[ ]]`, or add it to every branch."
                    yield Contradiction(key, what, fix, reference.text)
