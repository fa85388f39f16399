"""The dependencies between the steps of a pipeline, by the `${{ }}` of their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import cast

from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.reading.error_messages import either
from drumbeat.jobfile.reading.expressions import WORDS, Reference, missing, references
from drumbeat.jobfile.reading.model import Contradiction, Loc, Model
from drumbeat.model.errors import SpecError
from drumbeat.model.folder_layout import ARTIFACTS

MAX_STEPS = 1000


class StepCount:
    """Counts the steps of a pipeline while its components are put into it: nested pipelines multiply."""

    def __init__(self) -> None:
        self._steps = 0

    def add(self, where: str) -> None:
        """Counts one more. Raises SpecError for one too many."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            what = f"the pipeline has more than {MAX_STEPS:,} steps, counting those of the pipelines in it"
            raise SpecError(what, where=where, fix="Divide it into several pipelines, or take a sweep for equal steps.")


def bindings(node: Model) -> Iterator[tuple[Loc, str]]:
    """Yields every text of a step's inputs that may hold an expression, with its key."""
    for name, value in _table(node, "inputs").items():
        if isinstance(value, Input):
            if value.path is not None:
                yield ("inputs", name, "path"), value.path
        elif isinstance(value, str):
            yield ("inputs", name), value


def targets(node: Model) -> Iterator[tuple[Loc, str]]:
    """Yields every text of a step's outputs that may hold an expression, with its key."""
    for name, value in _table(node, "outputs").items():
        if isinstance(value, Output):
            if value.path is not None:
                yield ("outputs", name, "path"), value.path
        elif isinstance(value, str):
            yield ("outputs", name), value


def _table(node: Model, key: str) -> Mapping[str, object]:
    """A table of a step; a step that isn't run may have anything at the key."""
    table = getattr(node, key, None)
    return cast("Mapping[str, object]", table) if isinstance(table, Mapping) else {}


def depends_on(jobs: Mapping[str, Model]) -> dict[str, set[str]]:
    """For each step, the steps whose outputs it takes."""
    return {name: {each.job for each in _asked(node) if each.job in jobs} for name, node in jobs.items()}


def _asked(node: Model) -> Iterator[Reference]:
    for _, text in bindings(node):
        try:
            yield from references(text)
        except SpecError:
            continue  # Reported at its own place.


def step_contradictions(
    jobs: Mapping[str, Model], inputs: Sequence[str], outputs: Sequence[str]
) -> Iterator[Contradiction]:
    """References to missing steps, inputs and outputs, and steps that wait for each other."""
    names = {"parent.inputs": inputs, "inputs": inputs, "parent.jobs.outputs": (), "parent.jobs.inputs": (), "name": ()}
    of_outputs = {"parent.outputs": outputs, "outputs": outputs, **dict.fromkeys(WORDS, ())}
    for step, node in jobs.items():
        for key, text in bindings(node):
            yield from _bound(("jobs", step, *key), text, names, jobs)
        names_by_context = {**of_outputs, "inputs": [*_table(node, "inputs")], "parent.inputs": inputs}
        for key, text in targets(node):
            for problem, near in missing(text, names_by_context):
                yield Contradiction(("jobs", step, *key), problem.what, problem.fix, near)
    yield from _bound_twice(jobs)
    try:
        TopologicalSorter(depends_on(jobs)).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        yield Contradiction(("jobs", circle[0]), f"steps wait for each other: {' → '.join(reversed(circle))}")


def _bound_twice(jobs: Mapping[str, Model]) -> Iterator[Contradiction]:
    """Outputs of the pipeline that two outputs of steps are bound to: each would be written over the other."""
    taken: dict[str, str] = {}
    for step, node in jobs.items():
        for key, text in targets(node):
            output = bound_output(text)
            if output in taken:
                what = f"output `{output}` of the pipeline is bound to {taken[output]} already"
                yield Contradiction(("jobs", step, *key), what, "Give each an output of its own.", text)
            elif output:
                taken[output] = f"output `{key[1]}` of step `{step}`"


def bound_output(text: str) -> str:
    """The output of its pipeline that a text binds a step's output to; "" = none."""
    try:
        asked = references(text)
    except SpecError:
        return ""
    is_whole = len(asked) == 1 and asked[0].text == text.strip()
    return asked[0].name if is_whole and asked[0].kind in ("parent.outputs", "outputs") else ""


def _bound(
    key: Loc, text: str, names: Mapping[str, Sequence[str]], jobs: Mapping[str, Model]
) -> Iterator[Contradiction]:
    ours = {kind: valid for kind, valid in names.items() if not kind.startswith("parent.jobs")}
    try:
        asked = references(text)
    except SpecError as error:
        yield Contradiction(key, error.what, error.fix)
        return
    for reference in asked:
        if reference.job:
            yield from _step_output(key, reference, jobs)
        else:
            for problem, near in missing(reference.text, ours):
                yield Contradiction(key, problem.what, problem.fix, near)


def _step_output(key: Loc, reference: Reference, jobs: Mapping[str, Model]) -> Iterator[Contradiction]:
    if reference.job not in jobs:
        fix = either(reference.job, jobs, "Steps")
        yield Contradiction(key, f"{reference.text}: there is no step `{reference.job}`", fix, reference.text)
        return
    table = reference.kind.rpartition(".")[2]
    valid = ports(jobs[reference.job], table)
    if table == "outputs" and has_artifacts(jobs[reference.job], reference.name):
        return
    if valid is not None and reference.name not in valid:
        what = f"{reference.text}: step `{reference.job}` has no {table.rstrip('s')} `{reference.name}`"
        yield Contradiction(key, what, either(reference.name, valid, "It has"), reference.text)


def has_artifacts(node: Model, output: str) -> bool:
    """Whether it is the output that a step with ranks has without declaring it: what they write to `./outputs`."""
    return output == ARTIFACTS and getattr(node, "type", "") in ("command", "parallel", "sweep")


def ports(node: Model, table: str) -> list[str] | None:
    """The names of a step's inputs or outputs; None where its component isn't here to be asked."""
    component = getattr(node, "component", None) or getattr(node, "trial", None)
    if isinstance(component, Model):
        return [*getattr(component, table)]
    is_known = hasattr(node, "inputs") and hasattr(node, "outputs")
    return [*_table(node, table)] if component is None and is_known else None
