"""Makes the command job of a trial from the sweep and the trial's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drumbeat.core.child_jobs import trial_name
from drumbeat.core.sweeps import grid_sampling
from drumbeat.core.sweeps.trial_values import Values, texts, variables
from drumbeat.jobfile.pipelines.step_types import SweepNode
from drumbeat.jobfile.reading.expressions import Reference, parts
from drumbeat.jobfile.reading.model import Model
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.sweeping.sweep import SweepJob, Trial
from drumbeat.model.errors import SpecError

SHARED_KEYS = ("experiment_name", "description", "tags", "compute", "identity", "services", "inputs", "outputs")
"""Keys of a sweep that each trial has unchanged; `queue_settings` too."""
TRIAL_KEYS = ("code", "environment", "environment_variables", "distribution")
MAX_DISPLAY_NAME = 255


def trial_document(sweep: SweepJob, name: str, number: int, values: Values) -> dict[str, Any]:
    """Returns the command job of a trial, as a mapping that `jobfile.from_dict` takes.

    name: the sweep's name, which it may have got at submit. number: the trial's, counted from 0. Raises SpecError for
    a trial that is a reference.
    """
    trial, written = own_trial(sweep), to_dict(sweep)
    document: dict[str, Any] = {"type": "command", "name": trial_name(name, number)}
    document["display_name"] = _display_name(sweep.display_name or name, number)
    document |= {key: written[key] for key in (*SHARED_KEYS, "queue_settings") if key in written}
    document |= {key: written["trial"][key] for key in TRIAL_KEYS if key in written["trial"]}
    if sweep.outputs:
        document["outputs"] = {name: _unnamed(output) for name, output in written["outputs"].items()}
    document["command"] = fill(trial.command, texts(values), "trial.command")
    document["environment_variables"] = {**trial.environment_variables, **variables(values)}
    # The trial's own keys come before those that the sweep has for all.
    resources = written.get("resources", {}) | written["trial"].get("resources", {})
    if resources:
        document["resources"] = resources
    if sweep.limits.trial_timeout is not None:
        document["limits"] = {"timeout": sweep.limits.trial_timeout}
    extensions = {key: value for key, value in written.get("drumbeat", {}).items() if key != "asha"}
    if "prepare" in extensions:
        extensions["prepare"] = fill(extensions["prepare"], texts(values), "drumbeat.prepare")
    if extensions:
        document["drumbeat"] = extensions
    return document


def _unnamed(output: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an output without its name: the sweep registers that of its best trial when it has ended."""
    return {key: value for key, value in output.items() if key not in ("name", "version")}


def own_trial(sweep: SweepJob) -> Trial:
    """Returns the sweep's own trial. Raises SpecError for a registered component that was not looked up before."""
    if isinstance(sweep.trial, Trial):
        return sweep.trial
    raise SpecError(
        f"the trial {sweep.trial} is a registered component, and was not looked up",
        where="trial",
        fix="Name the component's file, like `trial: ./train.yml`, or write the command itself.",
    )


def notes(sweep: SweepJob) -> Iterator[str]:
    """What a user who submits the sweep may not expect, a sentence each."""
    most = sweep.limits.max_total_trials
    if sampling_algorithm(sweep) == "grid":
        size = grid_sampling.count(sweep.search_space)
        if size > most:
            yield f"the grid has {size:,} combinations, and limits.max_total_trials is {most:,}: the rest isn't tried"
    for name, output in sweep.outputs.items():
        if output.path and not any(isinstance(part, Reference) and part.kind == "name" for part in parts(output.path)):
            yield f"all trials write the output {name} to {output.path}; with ${{{{name}}}} in it, each has a place"


def max_trials(sweep: SweepJob | SweepNode) -> int:
    """Returns the number of trials after which the sweep ends: a grid may have fewer than its limit."""
    most = sweep.limits.max_total_trials
    return min(most, grid_sampling.count(sweep.search_space)) if sampling_algorithm(sweep) == "grid" else most


def sampling_algorithm(sweep: SweepJob | SweepNode) -> str:
    """Returns `grid`, `random` or `bayesian`, whether it is written as a word or with options."""
    algorithm = sweep.sampling_algorithm
    return algorithm if isinstance(algorithm, str) else str(algorithm.kind() if isinstance(algorithm, Model) else "")


def _display_name(sweep: str, number: int) -> str:
    end = f" {number}"
    return sweep[: MAX_DISPLAY_NAME - len(end)] + end


# --- the command and the preparation ----------------------------------------------------------------------------------
def fill(command: str, values: Mapping[str, str], where: str) -> str:
    """Returns the command with each `${{search_space.x}}` replaced by its text; all other expressions stay.

    A part in `$[[ ]]` is removed if one of its parameters has no value, since the trial drew another branch. where: the
    key of the sweep that has the command.
    """
    done: list[str] = []
    bracket: list[str | Reference] | None = None
    for part in parts(command):
        if part == "$[[":
            bracket = []
        elif part == "]]" and bracket is not None:
            done.append(_bracket(bracket, values, where))
            bracket = None
        elif bracket is not None:
            bracket.append(part)
        else:
            done.append(_text(part, values))
    return "".join(done)


def _bracket(inside: list[str | Reference], values: Mapping[str, str], where: str) -> str:
    references = [part for part in inside if isinstance(part, Reference)]
    drawn = [part for part in references if part.kind == "search_space"]
    if any(part.name not in values for part in drawn):
        return ""
    text = "".join(_text(part, values) for part in inside)
    if len(drawn) == len(references):
        return text
    if any("]]" in values[part.name] for part in drawn):
        what = f"the value of {drawn[0].text} has `]]`, which would end the `$[[` around it"
        raise SpecError(what, where=where, fix="Put it in a `$[[ ]]` without other expressions.")
    return f"$[[{text}]]"


def _text(part: str | Reference, values: Mapping[str, str]) -> str:
    if isinstance(part, str):
        return part
    return values[part.name] if part.kind == "search_space" else part.text
