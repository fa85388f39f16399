"""Jobs as scripts change them: by the keys of their files, before they are sent and as the server answers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from drumbeat.jobfile.builders.bindings import NamedValues, as_table
from drumbeat.jobfile.builders.component import ComponentFunction
from drumbeat.jobfile.job import job as command_models
from drumbeat.jobfile.job.job import JobKeys
from drumbeat.jobfile.pipelines import component as component_models
from drumbeat.jobfile.pipelines import pipeline_job as pipeline_models
from drumbeat.jobfile.pipelines.component_trials import with_component
from drumbeat.jobfile.reading.model import Model
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.sweeping import sweep as sweep_models
from drumbeat.ml.objects.plain import Attributes, SystemData
from drumbeat.model.api.jobs import JobView
from drumbeat.model.api.sessions import ServiceView
from drumbeat.model.azure_statuses import azure_service_status, azure_status

TABLES = ("inputs", "outputs", "tags", "properties", "services", "settings", "jobs", "environment_variables", "limits")
BEST_CHILD = "best_child_run_id"


class Job:
    """A job of any type. The keys of its file are attributes, also inside tables: `job.settings.default_compute`.

    What only a submitted job has is in `answer`: `status`, `studio_url`, `services`, `creation_context`.
    """

    model: ClassVar[type[JobKeys]] = command_models.CommandJob
    type: ClassVar[str] = "command"
    keys: NamedValues
    answer: dict[str, Any]

    def __init__(self, **keys: Any) -> None:
        self.__dict__["keys"] = NamedValues({key: _open(value) for key, value in keys.items() if value is not None})
        self.__dict__["answer"] = {}

    def __getattr__(self, key: str) -> Any:
        if key in self.answer:
            return self.answer[key]
        if key in self.keys:
            return self.keys[key]
        if key in TABLES and key in self.model.model_fields:
            return self.keys.setdefault(key, NamedValues())
        if key in self.model.model_fields or key in ("id", "status", "studio_url", "creation_context", "log_files"):
            return None
        raise AttributeError(f"{type(self).__name__} has no attribute {key!r}")

    def __setattr__(self, key: str, value: Any) -> None:
        if key in self.answer:
            self.answer[key] = value
        self.keys[key] = _open(value)

    def to_job(self) -> Model:
        """Returns the checked job. Raises SpecError."""
        return self.model.made({key: value for key, value in self.keys.items() if value is not None})

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, status={self.status!r})"


class CommandJob(Job):
    """A command job."""


class SweepJob(Job):
    """A sweep."""

    model = sweep_models.SweepJob
    type = "sweep"

    def to_job(self) -> Model:
        """Returns the checked sweep; a component as its trial becomes its command."""
        keys = {key: value for key, value in self.keys.items() if value is not None}
        trial: Any = keys.get("trial")
        if isinstance(trial, ComponentFunction) and isinstance(trial.component, component_models.CommandComponent):
            return self.model.made(with_component(keys, trial.component))
        if hasattr(trial, "document"):
            written: dict[str, Any] = trial.document()
            keys["trial"] = {key: value for key, value in written.items() if key in sweep_models.Trial.model_fields}
        return self.model.made(keys)


class PipelineJob(Job):
    """A pipeline, whose `jobs` are steps by name."""

    model = pipeline_models.PipelineJob
    type = "pipeline"

    def to_job(self) -> Model:
        """Returns the checked pipeline."""
        keys = {key: value for key, value in self.keys.items() if value is not None}
        steps = cast("Mapping[str, Any]", keys.get("jobs") or {})
        names = {id(step): name for name, step in steps.items()}
        nodes = {name: step.to_node(names) if hasattr(step, "to_node") else step for name, step in steps.items()}
        if nodes:
            keys["jobs"] = nodes
        if isinstance(keys.get("component"), ComponentFunction):
            given: ComponentFunction = keys["component"]
            keys["component"] = given.reference or given.component
        return self.model.made(keys)


_CLASSES: dict[str, type[Job]] = {cls.type: cls for cls in (CommandJob, SweepJob, PipelineJob)}


def job_from_document(document: Mapping[str, Any]) -> Job:
    """Returns the job that a checked document describes."""
    kind = str(document.get("type") or "command")
    return _CLASSES[kind](**{key: value for key, value in document.items() if key != "type"})


def job_from_view(view: JobView, document: Mapping[str, Any], page: str) -> Job:
    """Returns a submitted job. document: its file, without which only what the server tells is known."""
    job = job_from_document({**document, "type": str(view.type)})
    properties = NamedValues({**view.properties})
    if view.best_trial:
        properties[BEST_CHILD] = view.best_trial.job
    services = {"Studio": Attributes(endpoint=page, type="Studio", status=None)}
    services |= {one.name: _service(one, page) for one in view.services}
    job.answer.update(
        id=f"azureml:{view.name}",
        name=view.name,
        status=azure_status(view.state, view.reason),
        display_name=view.display_name or view.name,
        experiment_name=view.experiment,
        description=view.description or None,
        tags=NamedValues(view.tags),
        properties=properties,
        services=services,
        studio_url=page,
        creation_context=SystemData(created_at=view.submitted_at, created_by=view.person),
        parent_job_name=view.parent or None,
    )
    job.keys.update(name=view.name, experiment_name=view.experiment)
    places = {one.name: one.uri for one in view.outputs}
    for name, output in job.outputs.items():
        own = f"azureml://jobs/{view.name}/outputs/{name}"
        declared = {"type": "uri_folder", "mode": None, "path": places.get(name) or own}
        job.outputs[name] = NamedValues({**declared, **as_table(output)})
    return job


def _service(one: ServiceView, page: str) -> Attributes:
    return Attributes(type=one.type, status=azure_service_status(one), endpoint=page if one.is_web else None)


def _open(value: Any) -> Any:
    """Returns tables and models as tables with attributes; everything else unchanged."""
    if isinstance(value, Model):
        return _open(to_dict(value))
    if isinstance(value, NamedValues):
        return value
    if type(value) is dict:
        table = as_table(cast("dict[str, Any]", value))
        return NamedValues({key: _open(one) for key, one in table.items()})
    return value
