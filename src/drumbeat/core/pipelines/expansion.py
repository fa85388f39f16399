"""Expands a pipeline's document into its graph.

Components must be in the document: the client reads their files, and the server looks up registered ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import cast

from drumbeat.core.pipelines.binding import Resolve, bind_inputs, bind_ports, text_value
from drumbeat.core.pipelines.graph import Bound, Data, Graph, PipelineStep, Settings, StepOutput, Value
from drumbeat.core.pipelines.outputs import placed, step_outputs
from drumbeat.core.pipelines.parallel_steps import parallel_command, parallel_notes
from drumbeat.core.pipelines.scope import Scope, merged_settings, producer
from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.graph import StepCount, depends_on, has_artifacts
from drumbeat.jobfile.pipelines.parallel import ParallelComponent
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent, PipelineJob, PipelineNode
from drumbeat.jobfile.pipelines.step_inputs import has_other_form
from drumbeat.jobfile.pipelines.step_types import CommandNode, OtherNode, ParallelNode, SweepNode, unfilled_ports
from drumbeat.jobfile.reading.error_messages import either
from drumbeat.jobfile.reading.expressions import Reference
from drumbeat.jobfile.reading.model import Model
from drumbeat.model.errors import NotYetError, SpecError
from drumbeat.model.folder_layout import ARTIFACTS

MAX_DEPTH = 20
IN_A_COMPONENT = ("command", "code", "environment", "environment_variables", "resources", "distribution")


def expand(job: PipelineJob, name: str) -> Graph:
    """Returns the graph of a pipeline. Raises SpecError, NotYetError, with the step's path as the place."""
    scope = _root_scope(job, name)
    steps: dict[str, PipelineStep] = {}
    count = StepCount()
    for step in _steps(scope):
        count.add(step.path)
        steps[step.path] = step
    outputs = {output: made for output in scope.outputs if (made := producer(scope.jobs, "", output))}
    return Graph(job, _in_order(steps), outputs, tuple(scope.notes))


def _root_scope(job: PipelineJob, name: str) -> Scope:
    inside = job.component
    given = dict(job.inputs)
    settings = merged_settings(Settings(compute=job.compute or ""), job.settings)
    if isinstance(inside, str):
        raise _unread(inside, "component")
    if inside is None:
        inputs = {key: _own_input(key, value) for key, value in given.items()}
        return _with_places(Scope("", job.jobs, inputs, job.outputs, settings, name))
    notes = list[str]()
    _check_inputs(given, inside.inputs, "", notes)
    inputs = bind_ports(inside.inputs, given, _no_references, "")
    settings = replace(settings, is_forced=settings.is_forced or not inside.is_deterministic)
    outputs = _merged_outputs(inside.outputs, job.outputs)
    return _with_places(Scope("", inside.jobs, inputs, outputs, settings, name, notes=notes))


def _with_places(scope: Scope) -> Scope:
    """Returns the root scope with the paths of the pipeline's own outputs filled in: `${{name}}` there is its name."""
    words = {**scope.words, "name": scope.name}
    return replace(scope, outputs={name: placed(output, name, words) for name, output in scope.outputs.items()})


def _own_input(name: str, value: object) -> Bound:
    """Binds an input of the pipeline itself, whose entry is its declaration."""
    if not isinstance(value, Input):
        return Bound(cast("Value", value))
    bound = bind_ports({name: value}, {}, _no_references, "")[name]
    # It is written in the pipeline's file, like what a step is given.
    return replace(bound, value=replace(bound.value, is_default=False)) if isinstance(bound.value, Data) else bound


def _no_references(reference: Reference) -> Value:
    raise SpecError(f"{reference.text} has no meaning here")


def _unread(text: str, where: str) -> SpecError:
    fix = "Send the pipeline with `drumbeat run`, which reads the files of components, or name a registered one."
    return SpecError(f"component {text} is a file that was not sent with the pipeline", where=where, fix=fix)


# --- the steps --------------------------------------------------------------------------------------------------
def _steps(scope: Scope) -> Iterator[PipelineStep]:
    if scope.prefix.count("/") > MAX_DEPTH:
        raise SpecError(f"pipelines are nested more than {MAX_DEPTH} deep", where=scope.place)
    # In the file's order, a long chain of steps that hand on their inputs would be bound by recursion.
    for name in TopologicalSorter(depends_on(scope.jobs)).static_order():
        _bound_inputs(scope, name, scope.jobs[name])
    asked = {
        one.value.step
        for inputs in scope.bound.values()
        for one in inputs.values()
        if isinstance(one.value, StepOutput) and one.value.output == ARTIFACTS
    }
    for name, node in scope.jobs.items():
        path = f"{scope.prefix}{name}"
        match node:
            case PipelineNode():
                yield from _steps(_nested(scope, name, node))
            case CommandNode() | SweepNode():
                yield _step(scope, name, node, is_artifacts_asked=path in asked)
            case ParallelNode():
                command = parallel_command(node, f"{path}.component")
                scope.notes.extend(f"step {path}: {note}" for note in parallel_notes(node))
                yield _step(scope, name, command, is_artifacts_asked=path in asked)
            case _:
                kind = node.type if isinstance(node, OtherNode) else type(node).__name__
                what = f"drumbeat reads `{kind}` steps but doesn't run them"
                raise NotYetError(
                    what, where=f"{path}.type", fix="Write it as a `command`, `parallel`, `sweep` or `pipeline` step."
                )


def _nested(outer: Scope, name: str, node: PipelineNode) -> Scope:
    path = f"{outer.prefix}{name}"
    inside = _inside(node, path)
    inputs = _bound_inputs(outer, name, node)
    _check_names(node.outputs, inside.outputs, "outputs", path)
    settings = merged_settings(outer.settings, node.settings)
    settings = replace(settings, is_forced=settings.is_forced or not inside.is_deterministic)
    if node.compute:
        settings = replace(settings, compute=_compute(outer, path, node.compute))
    outputs = step_outputs(inside.outputs, node.outputs, outer.outputs)
    return Scope(f"{path}/", inside.jobs, inputs, outputs, settings, outer.name, notes=outer.notes)


def _inside(node: PipelineNode, path: str) -> PipelineComponent:
    if isinstance(node.component, str):
        raise _unread(node.component, f"{path}.component")
    return node.component


def _step(scope: Scope, name: str, node: CommandNode | SweepNode, *, is_artifacts_asked: bool) -> PipelineStep:
    path = f"{scope.prefix}{name}"
    declared = node.trial if isinstance(node, SweepNode) else node.component
    if isinstance(declared, str):
        raise _unread(declared, f"{path}.{'trial' if isinstance(node, SweepNode) else 'component'}")
    compute = _compute(scope, path, node.compute or scope.settings.compute)
    settings = replace(scope.settings, compute=compute)
    component = declared or _own_component(node)
    inputs = _bound_inputs(scope, name, node)
    undeclared = {ARTIFACTS: Output()} if is_artifacts_asked else {}
    outputs = step_outputs({**undeclared, **component.outputs}, node.outputs, scope.outputs)
    placed_outputs = {name: placed(one, name, scope.words, settings.datastore) for name, one in outputs.items()}
    return PipelineStep(path, node, component, inputs, placed_outputs, settings)


def _bound_inputs(scope: Scope, name: str, node: Model) -> dict[str, Bound]:
    """Returns the inputs of a step or a nested pipeline."""
    if name not in scope.bound:
        path = f"{scope.prefix}{name}"
        match node:
            case PipelineNode():
                ports = _inside(node, path).inputs
                _check_inputs(node.inputs, ports, path, scope.notes)
                scope.bound[name] = bind_ports(ports, node.inputs, resolver(scope), path)
            case CommandNode() | SweepNode():
                scope.bound[name] = _step_inputs(scope, path, node)
            case ParallelNode():
                scope.bound[name] = _step_inputs(scope, path, parallel_command(node, f"{path}.component"))
            case _:
                scope.bound[name] = {}
    return scope.bound[name]


def _step_inputs(scope: Scope, path: str, node: CommandNode | SweepNode) -> dict[str, Bound]:
    declared = node.trial if isinstance(node, SweepNode) else node.component
    if not isinstance(declared, CommandComponent):
        return bind_inputs(node.inputs, resolver(scope), path)
    drawn = [*node.search_space] if isinstance(node, SweepNode) else []
    _check_names(dict.fromkeys(drawn), declared.inputs, "inputs", path)
    ports = {name: port for name, port in declared.inputs.items() if name not in drawn}
    _check_inputs({name: one for name, one in node.inputs.items() if name not in drawn}, ports, path, scope.notes)
    given = [one for one in node.outputs if not has_artifacts(node, one)]
    _check_names(dict.fromkeys(given), declared.outputs, "outputs", path)
    bound = bind_ports(ports, node.inputs, resolver(scope), path)
    scope.notes.extend(_forms(bound, ports, path))
    return bound


def _forms(bound: Mapping[str, Bound], ports: Mapping[str, Input], path: str) -> Iterator[str]:
    """Notes each input that is declared as a folder and gets a file, or the reverse."""
    for name, one in bound.items():
        given = one.value.value if isinstance(one.value, Data) else None
        if has_other_form(ports[name], given):
            kind = "file" if given is not None and given.type == "uri_file" else "folder"
            yield f"step {path}: input `{name}` is declared as a `{ports[name].type}` and gets a {kind}, as it is given"


def _compute(scope: Scope, path: str, compute: str) -> str:
    """Returns the compute of a step: an expression in it names an input of the pipeline."""
    value = text_value(compute, resolver(scope), f"{path}.compute")
    if not isinstance(value, str):
        kind = "data" if isinstance(value, Data | StepOutput) else value
        what = f"`{compute}` isn't the name of a compute: it is {kind}"
        raise SpecError(what, where=f"{path}.compute", fix="Give that input of the pipeline the name of a compute.")
    return value


def _own_component(node: CommandNode | SweepNode) -> CommandComponent:
    """Returns the component that is equivalent to a step with a command of its own."""
    keys = {key: getattr(node, key) for key in IN_A_COMPONENT if key in node.model_fields_set}
    return CommandComponent.model_construct({*keys}, type="command", **keys)


def _check_inputs(given: Mapping[str, object], ports: Mapping[str, Input], path: str, notes: list[str]) -> None:
    """Notes which inputs a component doesn't take. Raises SpecError where it lacks another: the name is mistyped."""
    if unfilled_ports(ports, given):
        _check_names(given, ports, "inputs", path)
    who = f"step {path}" if path else "the pipeline"
    for name in given:
        if name not in ports:
            fix = either(name, ports, "It takes")
            notes.append(f"{who}: input `{name}` is dropped, for the component has none of this name. {fix}".strip())


def _check_names(given: Mapping[str, object], ports: Mapping[str, object], table: str, path: str) -> None:
    for name in given:
        if name not in ports:
            where = f"{path}.{table}.{name}" if path else f"{table}.{name}"
            fix = either(name, ports, "It takes" if table == "inputs" else "It gives")
            raise SpecError(f"the component has no {table[:-1]} `{name}`", where=where, fix=fix)


def _merged_outputs(declared: Mapping[str, Output], own: Mapping[str, Output]) -> dict[str, Output]:
    _check_names(own, declared, "outputs", "")
    return {name: own.get(name, output) for name, output in declared.items()}


# --- what an expression points at -------------------------------------------------------------------------------
def resolver(scope: Scope) -> Resolve:
    """Returns what resolves the references of a scope's steps."""

    def resolve(reference: Reference) -> Value:
        match reference.kind:
            case "parent.inputs" | "inputs":
                return _pipeline_input(scope, reference)
            case "parent.jobs.outputs":
                return _step_output(scope, reference)
            case "parent.jobs.inputs":
                return _step_input(scope, reference)
            case "name":
                return scope.name
            case _:
                return _no_references(reference)

    return resolve


def _pipeline_input(scope: Scope, reference: Reference) -> Value:
    if reference.path:
        raise NotYetError(f"{reference.text}: groups of inputs are not supported", fix="Give each input a name.")
    if reference.name not in scope.inputs:
        what = f"{reference.text}: there is no input of the pipeline named `{reference.name}`"
        raise SpecError(what, fix=either(reference.name, scope.inputs, "There are"))
    return scope.inputs[reference.name].value


def _step_output(scope: Scope, reference: Reference) -> StepOutput:
    node = _node(scope, reference)
    path = f"{scope.prefix}{reference.job}"
    if isinstance(node, PipelineNode):
        made = producer(scope.jobs, scope.prefix, reference.name, reference.job)
        if made is None:
            fix = f"Bind it there: `outputs: {{x: ${{{{parent.outputs.{reference.name}}}}}}}`."
            what = f"{reference.text}: no step of `{reference.job}` gives output `{reference.name}`"
            raise SpecError(what, fix=fix)
        return made
    if isinstance(node, CommandNode | SweepNode | ParallelNode):
        declared = node.trial if isinstance(node, SweepNode) else node.component
        is_known = isinstance(declared, CommandComponent | ParallelComponent)
        outputs = declared.outputs if is_known else node.outputs
        if reference.name not in outputs and not has_artifacts(node, reference.name):
            what = f"{reference.text}: step `{reference.job}` has no output `{reference.name}`"
            raise SpecError(what, fix=either(reference.name, outputs, "It has"))
    return StepOutput(path, reference.name, reference.path)


def _step_input(scope: Scope, reference: Reference) -> Value:
    """Returns the value of another step's input. Circles among inputs are refused where the document is read."""
    bound = _bound_inputs(scope, reference.job, _node(scope, reference))
    if reference.name not in bound:
        what = f"{reference.text}: step `{reference.job}` has no input `{reference.name}`"
        raise SpecError(what, fix=either(reference.name, bound, "It has"))
    return bound[reference.name].value


def _node(scope: Scope, reference: Reference) -> Model:
    if reference.job not in scope.jobs:
        what = f"{reference.text}: there is no step `{reference.job}`"
        raise SpecError(what, fix=either(reference.job, scope.jobs, "Steps"))
    return scope.jobs[reference.job]


# --- their order ------------------------------------------------------------------------------------------------
def _in_order(steps: Mapping[str, PipelineStep]) -> dict[str, PipelineStep]:
    """Returns the steps, each after those whose outputs it takes, otherwise in the order of the file."""
    sorter = TopologicalSorter({path: step.after for path, step in steps.items()})
    try:
        ordered = [*sorter.static_order()]
    except CycleError as error:
        circle: list[str] = error.args[1]
        what = f"steps wait for each other: {' → '.join(reversed(circle))}"
        raise SpecError(what, where=circle[0], fix="Take one of these inputs from elsewhere.") from None
    return {path: steps[path] for path in ordered if path in steps}
