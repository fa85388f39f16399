"""The steps of pipelines: submitted when what they take is complete, or reused where nothing has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import cast

from drumbeat import dialect
from drumbeat.control.catalog.result_lookup import result_of, step_result
from drumbeat.control.jobs.jobs import Jobs, Reuse
from drumbeat.control.loop.loop import Loop
from drumbeat.control.pipelines.local_content import content_key
from drumbeat.core.child_jobs import step_name
from drumbeat.core.life.events import ChildRefused
from drumbeat.core.life.job import Job
from drumbeat.core.pipelines.expansion import expand
from drumbeat.core.pipelines.graph import Graph
from drumbeat.core.pipelines.reuse import is_settled, may_be_reused, reuse_key
from drumbeat.core.pipelines.step_jobs import step_request
from drumbeat.dialect.pipelines.pipeline_job import PipelineJob
from drumbeat.ports import DataAccess
from drumbeat.protocol import folder_layout
from drumbeat.protocol.api.requests import JobRequest
from drumbeat.protocol.errors import DrumbeatError, NotFoundError, RefusedError, SpecError
from drumbeat.protocol.plan import InputPlan, Plan
from drumbeat.protocol.states import State

MAX_REMEMBERED = 16
"""Graphs in memory; others are made again from the stored requests."""


class Steps:
    """Submits the jobs of steps. For any thread.

    is_visible: whether this machine has at a path what the nodes of a compute have there.
    """

    def __init__(self, loop: Loop, jobs: Jobs, data: DataAccess, is_visible: Callable[[str, str], bool]) -> None:
        self._loop, self._jobs, self._data, self._is_visible = loop, jobs, data, is_visible
        self._graphs: OrderedDict[str, tuple[JobRequest, Graph]] = OrderedDict()
        """By the unique names of pipelines."""

    def submit(self, parent: Job, job: str) -> None:
        """Submits the job of a step, or has an earlier one reused; the pipeline learns of either. Idempotent."""
        steps = parent.pipeline.steps if parent.pipeline else ()
        step = next((one for one in steps if step_name(parent.name, one.path) == job), None)
        if step is None or step.has_ended:
            return  # It was reused, or given up: an earlier server has told so.
        request, graph = self._graph(parent)
        try:
            sources = {path: self._result(parent, path) for path in graph.step(step.path).after}
            asked = step_request(request, graph, parent.name, step.path, sources)
        except (SpecError, RefusedError, NotFoundError) as error:
            self._loop.tell(parent.name, ChildRefused(job, str(error)))
            return
        self._jobs.submit_child(parent.name, asked, lambda plan: self._reuse(graph, step.path, asked, plan))

    def _graph(self, pipeline: Job) -> tuple[JobRequest, Graph]:
        key = pipeline.unique_name
        if key not in self._graphs:
            request = self._loop.store.request(pipeline.name)
            written = cast("PipelineJob", dialect.from_dict(request.document, request.source))
            self._graphs[key] = request, expand(written, pipeline.name)
            while len(self._graphs) > MAX_REMEMBERED:
                self._graphs.popitem(last=False)
        return self._graphs[key]

    def _result(self, parent: Job, path: str) -> str:
        """The job that has the outputs of a step. Raises NotFoundError, RefusedError."""
        return step_result(self._loop.store, parent, path)

    # --- reuse --------------------------------------------------------------------------------------------------
    def _reuse(self, graph: Graph, path: str, asked: JobRequest, plan: Plan) -> Reuse:
        """What the step's result may be taken from, and the key under which its own is found later."""
        step = graph.step(path)
        if not may_be_reused(step):
            return Reuse()
        contents = self._contents(plan)
        if contents is None:
            return Reuse()
        key = reuse_key(asked.document, plan, contents)
        return Reuse(key, "" if step.settings.is_forced else self._earlier(key))

    def _earlier(self, key: str) -> str:
        """The newest job with this key that has completed, "" = none."""
        for name, _ in self._loop.store.users("step", key, ""):
            try:
                job = self._loop.store.load(name).job
                if job.state is State.COMPLETED and result_of(job):
                    return name
            except (NotFoundError, RefusedError):
                continue
        return ""

    def _contents(self, plan: Plan) -> dict[str, str] | None:
        """What tells the content of each input whose address does not; None where it can't be told."""
        unsettled = [one for one in plan.inputs if not is_settled(one)]
        try:
            return {one.name: self._content(one, plan.compute) for one in unsettled}
        except (DrumbeatError, OSError):
            return None  # The step is run, and says what is wrong.

    def _content(self, planned: InputPlan, compute: str) -> str:
        if planned.uri.startswith("file:"):
            return content_key(folder_layout.file_path(planned.uri), lambda place: self._is_visible(place, compute))
        return self._data.listing(planned.uri, is_file=planned.type == "uri_file").key
