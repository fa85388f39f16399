"""Turns a request for a pipeline into its job. Every step is planned as a check; nothing is written yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import cast

from drumbeat import jobfile
from drumbeat.core.child_jobs import PipelineOutput, PipelineProgress, StepProgress, step_name
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.pipelines.child_names import check_child_names
from drumbeat.core.pipelines.graph import Graph, PipelineStep
from drumbeat.core.pipelines.registered_components import snapshot_digests
from drumbeat.core.pipelines.step_jobs import step_request
from drumbeat.core.planning.inputs import JobOutputs
from drumbeat.core.planning.plan import Planned, UnusableComputeError
from drumbeat.core.planning.refusals import Refusals
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.core.sweeps.sweep_summary import format_sweep
from drumbeat.core.sweeps.trial_jobs import max_trials
from drumbeat.jobfile.data.inputs_outputs import Output
from drumbeat.jobfile.data.paths import JobOutputReference, reference_to
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent
from drumbeat.jobfile.pipelines.step_types import SweepNode
from drumbeat.jobfile.sweeping.sweep import SweepJob
from drumbeat.model.api.jobs import StepPreview
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import DrumbeatError, RefusedError
from drumbeat.model.plan import InputPlan, OutputPlan, Plan
from drumbeat.model.plurals import counted
from drumbeat.model.states import JobKind, Reason, State
from drumbeat.server.jobs.planner import Planner
from drumbeat.server.sweeps.sweep_submission import example_trial

MAX_NAME = 255


def planned_steps(
    request: JobRequest, graph: Graph, name: str, planner: Planner, go_on: Callable[[], None]
) -> dict[str, Planned]:
    """Returns the plan of each step, as if its predecessors had completed.

    go_on: called before each step; an exception from it ends the planning.
    Raises SpecError if a step and a trial would share a name; else all errors of planning the steps together.
    """
    sweeps = {path: step.node for path, step in graph.steps.items() if isinstance(step.node, SweepNode)}
    check_child_names(graph.steps, {path: max_trials(sweep) for path, sweep in sweeps.items()})
    own = {path: step_name(name, path) for path in graph.steps}
    coming = {own[path]: JobOutputs(_types(step)) for path, step in graph.steps.items()}
    refusals, plans = Refusals(passing=UnusableComputeError), dict[str, Planned]()
    for path in graph.steps:
        go_on()
        planned = refusals.attempt(lambda path=path: _planned(request, graph, name, path, (own, coming), planner), None)
        if planned is not None:
            plans[path] = planned
    refusals.raise_any()
    return plans


def _planned(
    request: JobRequest,
    graph: Graph,
    name: str,
    path: str,
    jobs_and_outputs: tuple[Mapping[str, str], Mapping[str, JobOutputs]],
    planner: Planner,
) -> Planned:
    jobs, coming = jobs_and_outputs
    if len(jobs[path]) > MAX_NAME:
        what = f"the name of step {path} would be longer than {MAX_NAME} characters: {jobs[path][:40]}…"
        raise RefusedError(what, where="name", fix="Give the pipeline a shorter name.")
    asked = step_request(request, graph, name, path, jobs)
    try:
        if isinstance(graph.step(path).node, SweepNode):
            sweep = cast("SweepJob", jobfile.from_dict(asked.document, asked.source))
            asked = example_trial(asked, sweep, jobs[path])
        return planner.plan(asked, coming)[1]
    except DrumbeatError as error:
        fields = tuple(replace(one, where=_place(path, one.where)) for one in error.fields)
        raise type(error)(error.what, where=_place(path, error.where), fix=error.fix, fields=fields) from None


def _place(path: str, where: str) -> str:
    return f"step {path}: {where}" if where else f"step {path}"


def _types(step: PipelineStep) -> dict[str, str]:
    return {name: output.type for name, output in step.outputs.items()}


def new_pipeline(
    request: JobRequest, graph: Graph, plans: Mapping[str, Planned], name: str, now: datetime
) -> tuple[Job, JobEvent]:
    """Returns a new pipeline and its first event. plans: of its steps."""
    written, first = graph.job, next(iter(plans.values()))
    own = {step_name(name, path) for path in graph.steps}
    plan = Plan(
        job=name,
        experiment=written.experiment_name or request.experiment,
        launcher=JobKind.PIPELINE.value,
        nodes=0,
        processes_per_node=0,
        command="",
        ranks=(),
        inputs=tuple(_inputs(plans, own)),  # They are needed until the last step is submitted.
        outputs=tuple(_outputs(graph)),
        compute=first.plan.compute,
        environment="",
    )
    job = Job(
        name=name,
        plan=plan,
        need=Need(0, 0),
        policy=JobPolicy(
            first.policy.priority,
            0,
            None,
            tuple(written.drumbeat.notify),
            tuple(written.drumbeat.notify_on),
        ),
        submitted_at=now,
        started_at=now,
        state=State.RUNNING,
        reason=Reason.STEPS_RUNNING,
        display_name=written.display_name or "",
        description=written.description or "",
        tags=dict(written.tags),
        pipeline=_progress(request, graph),
    )
    further = [*pipeline_notes(graph), *request.notes]
    sentence = f"accepted with {counted(len(graph.steps), 'step')}{''.join(f'; {note}' for note in further)}"
    return replace(job, sentence=sentence), JobEvent(now, job.state, job.reason, sentence)


def pipeline_notes(graph: Graph) -> Iterator[str]:
    """Yields sentences about properties of the pipeline that its user may not expect."""
    yield from graph.notes
    yield from _unbound_outputs(graph)
    if graph.job.services:
        yield "services of the pipeline itself are ignored; give them to its steps"


def _unbound_outputs(graph: Graph) -> Iterator[str]:
    """Yields a sentence about each output of the pipeline that no step produces."""
    component = graph.job.component
    declared = component.outputs if isinstance(component, PipelineComponent) else dict[str, Output]()
    for name, output in {**declared, **graph.job.outputs}.items():
        if name not in graph.outputs:
            lost = f", so azureml:{output.name} won't be registered" if output.name else ""
            how = f"bind it in a step: `outputs: {{OUTPUT: ${{{{parent.outputs.{name}}}}}}}`"
            yield f"no step produces output {name} of the pipeline{lost}; {how}"


def _progress(request: JobRequest, graph: Graph) -> PipelineProgress:
    steps = tuple(
        StepProgress(
            path,
            step.after,
            JobKind.SWEEP if isinstance(step.node, SweepNode) else JobKind.COMMAND,
            step.settings.is_continued,
        )
        for path, step in graph.steps.items()
    )
    outputs = tuple(PipelineOutput(name, made.step, made.output) for name, made in graph.outputs.items())
    return PipelineProgress(steps, outputs, tuple(sorted(snapshot_digests(request.parts))))


def _inputs(plans: Mapping[str, Planned], own: set[str]) -> Iterator[InputPlan]:
    """Yields the inputs of steps that don't come from other steps."""
    for path, planned in plans.items():
        for one in planned.plan.inputs:
            place = reference_to(one.uri) if one.uri.startswith("azureml:") else None
            if not (isinstance(place, JobOutputReference) and place.job in own):
                yield replace(one, name=f"{path}.{one.name}")


def _outputs(graph: Graph) -> Iterator[OutputPlan]:
    for name, made in graph.outputs.items():
        yield OutputPlan(name, graph.step(made.step).outputs[made.output].type, "upload")


def preview_step(step: PipelineStep, plan: Plan) -> StepPreview:
    """Returns what a step will run, and its predecessors. plan: of its job, or of a trial."""
    sweep = format_sweep(step.node) if isinstance(step.node, SweepNode) else ""
    return StepPreview(
        step.path,
        JobKind.SWEEP if sweep else JobKind.COMMAND,
        step.after,
        plan.launcher,
        plan.nodes,
        plan.processes_per_node,
        plan.world_size,
        plan.compute,
        plan.environment,
        plan.command,
        sweep,
    )
