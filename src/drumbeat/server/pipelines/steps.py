"""Submits the steps of pipelines when their inputs are complete, or reuses earlier results."""

from __future__ import annotations

from collections import OrderedDict
from typing import cast

from drumbeat import jobfile
from drumbeat.core.child_jobs import step_name
from drumbeat.core.lifecycle.events import ChildRefused
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.pipelines.expansion import expand
from drumbeat.core.pipelines.graph import Graph
from drumbeat.core.pipelines.step_jobs import step_request
from drumbeat.jobfile.pipelines.pipeline_job import PipelineJob
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError
from drumbeat.server.jobs.jobs import Jobs
from drumbeat.server.loop.loop import Loop
from drumbeat.server.outputs.result_lookup import step_result
from drumbeat.server.pipelines.earlier_results import EarlierResults

MAX_REMEMBERED = 16
"""Number of graphs in memory; others are rebuilt from the stored requests."""


class Steps:
    """Submits the jobs of steps. earlier: finds results to reuse. Thread-safe."""

    def __init__(self, loop: Loop, jobs: Jobs, earlier: EarlierResults) -> None:
        self._loop, self._jobs, self._earlier = loop, jobs, earlier
        self._graphs: OrderedDict[str, tuple[JobRequest, Graph]] = OrderedDict()
        """Requests and graphs, by the unique names of pipelines."""

    def submit(self, parent: Job, job: str) -> None:
        """Submits the job of a step, or reuses an earlier result, and notifies the pipeline. Idempotent."""
        steps = parent.pipeline.steps if parent.pipeline else ()
        step = next((one for one in steps if step_name(parent.name, one.path) == job), None)
        if step is None or step.has_ended:
            return  # It was reused or given up, and the pipeline was notified before a restart.
        try:  # An older version may have accepted a request that this one refuses.
            request, graph = self._graph(parent)
            sources = {path: self._result(parent, path) for path in graph.step(step.path).after}
            asked = step_request(request, graph, parent.name, step.path, sources)
        except (SpecError, RefusedError, NotFoundError) as error:
            self._loop.tell(parent.name, ChildRefused(job, str(error)))
            return
        self._jobs.submit_child(parent.name, asked, lambda plan: self._earlier.find(graph, step.path, asked, plan))

    def _graph(self, pipeline: Job) -> tuple[JobRequest, Graph]:
        key = pipeline.unique_name
        if key not in self._graphs:
            request = self._loop.store.request(pipeline.name)
            written = cast("PipelineJob", jobfile.from_dict(request.document, request.source))
            self._graphs[key] = request, expand(written, pipeline.name)
            while len(self._graphs) > MAX_REMEMBERED:
                self._graphs.popitem(last=False)
        return self._graphs[key]

    def _result(self, parent: Job, path: str) -> str:
        """Returns the job that has the outputs of a step. Raises NotFoundError, RefusedError."""
        return step_result(self._loop.store, parent, path)
