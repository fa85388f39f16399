"""Batch endpoints and deployments: what scripts make and change, and what the server answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drumbeat.jobfile.batch.deployments import PipelineBatchDeployment
from drumbeat.jobfile.builders.bindings import NamedValues
from drumbeat.jobfile.builders.component import ComponentFunction
from drumbeat.jobfile.job.resources_and_limits import Resources
from drumbeat.jobfile.reading.model import Model as FrozenModel
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.ml.objects.assets import Model
from drumbeat.ml.objects.endpoints import CodeConfiguration, Settings, deployment_parts, plain_value
from drumbeat.ml.objects.environments import RegisteredEnvironment
from drumbeat.ml.objects.lenient import Environment
from drumbeat.ml.objects.plain import Attributes
from drumbeat.model.api.batch import BatchDeploymentView, BatchEndpointView
from drumbeat.model.api.jobs import JobView
from drumbeat.model.azure_statuses import azure_status
from drumbeat.model.errors import RefusedError

Path_ = str | os.PathLike[str]
SUCCEEDED = "Succeeded"


class BatchEndpoint(Attributes):
    """A name under which deployments score data; `defaults` names the one that an invocation runs."""

    name: str | None
    description: str | None
    tags: dict[str, Any]
    defaults: Any
    scoring_uri: str | None

    def __init__(
        self,
        *,
        name: str | None = None,
        tags: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        auth_mode: str = "aad_token",
        description: str | None = None,
        location: str | None = None,
        defaults: Mapping[str, str | None] | None = None,
        default_deployment_name: str | None = None,
        scoring_uri: str | None = None,
        openapi_uri: str | None = None,
        **keys: Any,
    ) -> None:
        default = {"deployment_name": default_deployment_name} if default_deployment_name else {}
        super().__init__(
            name=name, tags=dict(tags or {}), properties=dict(properties or {}), auth_mode=auth_mode,
            description=description, location=location, defaults=NamedValues(defaults or default),
            scoring_uri=scoring_uri, openapi_uri=openapi_uri, **keys,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of an endpoint's file that are set."""
        keys = ("name", "description", "tags", "properties", "auth_mode")
        given = {key: getattr(self, key) for key in keys}
        defaults: Mapping[str, str | None] = self.defaults or {}
        given["defaults"] = {key: value for key, value in defaults.items() if value}
        return {key: value for key, value in given.items() if value not in (None, {})}


class BatchRetrySettings(Settings):
    """Retries of a mini-batch that failed. timeout: seconds for one."""

    def __init__(self, *, max_retries: int | None = None, timeout: int | None = None) -> None:
        super().__init__(max_retries=max_retries, timeout=timeout)


class ModelBatchDeploymentSettings(Settings):
    """How a deployment divides its input, and what it does with results and failures."""

    def __init__(
        self,
        *,
        mini_batch_size: int | None = None,
        instance_count: int | None = None,
        max_concurrency_per_instance: int | None = None,
        output_action: str | None = None,
        output_file_name: str | None = None,
        retry_settings: BatchRetrySettings | None = None,
        environment_variables: dict[str, str] | None = None,
        error_threshold: int | None = None,
        logging_level: str | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(
            mini_batch_size=mini_batch_size, instance_count=instance_count,
            max_concurrency_per_instance=max_concurrency_per_instance, output_action=output_action,
            output_file_name=output_file_name, retry_settings=retry_settings,
            environment_variables=environment_variables, error_threshold=error_threshold,
            logging_level=logging_level, **keys,
        )  # fmt: skip


SETTINGS = (
    "mini_batch_size", "max_concurrency_per_instance", "output_action", "output_file_name", "retry_settings",
    "environment_variables", "error_threshold", "logging_level",
)  # fmt: skip
_KEYS = ("name", "endpoint_name", "description", "tags", "properties", "model", "code_configuration", "environment",
         "compute", "resources")  # fmt: skip


class BatchDeployment(Attributes):
    """A model that scores files, by a script, or by itself if it is an MLflow model. Its settings are attributes."""

    name: str
    endpoint_name: str | None
    model: str | Model | None
    compute: str | None
    resources: Resources | None

    def __init__(
        self,
        *,
        name: str,
        endpoint_name: str | None = None,
        description: str | None = None,
        tags: dict[str, Any] | None = None,
        properties: dict[str, str] | None = None,
        model: str | Model | None = None,
        code_configuration: CodeConfiguration | None = None,
        environment: str | Environment | RegisteredEnvironment | None = None,
        compute: str | None = None,
        resources: Resources | None = None,
        output_file_name: str | None = None,
        output_action: str | None = None,
        error_threshold: int | None = None,
        retry_settings: BatchRetrySettings | None = None,
        logging_level: str | None = None,
        mini_batch_size: int | None = None,
        max_concurrency_per_instance: int | None = None,
        environment_variables: dict[str, str] | None = None,
        code_path: Path_ | None = None,
        scoring_script: Path_ | None = None,
        instance_count: int | None = None,
        **keys: Any,
    ) -> None:
        if code_configuration is None and (code_path is not None or scoring_script is not None):
            code_configuration = CodeConfiguration(code_path, scoring_script)
        if resources is None and instance_count is not None:
            resources = Resources(instance_count=instance_count)
        super().__init__(
            name=name, endpoint_name=endpoint_name, description=description, tags=dict(tags or {}),
            properties=dict(properties or {}), model=model, code_configuration=code_configuration,
            environment=environment, compute=compute, resources=resources, output_file_name=output_file_name,
            output_action=output_action, error_threshold=error_threshold, retry_settings=retry_settings,
            logging_level=logging_level, mini_batch_size=mini_batch_size,
            max_concurrency_per_instance=max_concurrency_per_instance,
            environment_variables=dict(environment_variables or {}), **keys,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of a deployment's file that are set."""
        named = {key: vars(self).get(key) for key in (*_KEYS, *SETTINGS)}
        return {"type": "model", **_written(named)}


class ModelBatchDeployment(BatchDeployment):
    """The same, with `settings` as an object."""

    settings: ModelBatchDeploymentSettings | None

    def __init__(
        self,
        *,
        name: str,
        endpoint_name: str | None = None,
        environment: str | Environment | RegisteredEnvironment | None = None,
        properties: dict[str, str] | None = None,
        model: str | Model | None = None,
        description: str | None = None,
        tags: dict[str, Any] | None = None,
        settings: ModelBatchDeploymentSettings | None = None,
        resources: Resources | None = None,
        compute: str | None = None,
        code_configuration: CodeConfiguration | None = None,
        code_path: Path_ | None = None,
        scoring_script: Path_ | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(
            name=name, endpoint_name=endpoint_name, environment=environment, properties=properties, model=model,
            description=description, tags=tags, resources=resources, compute=compute,
            code_configuration=code_configuration, code_path=code_path, scoring_script=scoring_script, **keys,
        )  # fmt: skip
        self.settings = settings

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of a deployment's file that are set."""
        document = super().to_document()
        settings = _written(vars(self.settings)) if self.settings else {}
        count = settings.pop("instance_count", None)
        if count is not None and "resources" not in document:
            document["resources"] = {"instance_count": count}
        return {**document, **({"settings": settings} if settings else {})}


class PipelineComponentBatchDeployment(Attributes):
    """A pipeline component that an invocation runs as a pipeline job."""

    name: str
    endpoint_name: str | None

    def __init__(
        self,
        *,
        name: str,
        endpoint_name: str | None = None,
        component: ComponentFunction | str | None = None,
        settings: dict[str, Any] | None = None,
        job_definition: Any = None,
        tags: dict[str, Any] | None = None,
        description: str | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(
            name=name, endpoint_name=endpoint_name, component=component, settings=dict(settings or {}),
            job_definition=job_definition, tags=dict(tags or {}), description=description, **keys,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of a deployment's file that are set. Raises RefusedError for a `job_definition`."""
        it = vars(self)
        if it["job_definition"] is not None:
            fix = "Make the job a pipeline component, and give it as `component`."
            raise RefusedError("a deployment takes no job_definition here", where="job_definition", fix=fix)
        component = it["component"]
        if isinstance(component, ComponentFunction):
            component = component.reference or to_dict(component.component)
        keys = ("name", "endpoint_name", "description", "tags", "settings")
        return {"type": "pipeline", "component": component, **_written({key: it[key] for key in keys})}


class BatchJob(Attributes):
    """The job of an invocation: `name`, `type`, `status`, `id`."""


def _written(keys: Mapping[str, Any]) -> dict[str, Any]:
    written = {key: plain_value(value) for key, value in keys.items() if value not in (None, {})}
    return {key: str(value).lower() if key == "logging_level" else value for key, value in written.items()}


def batch_endpoint_from(document: Mapping[str, Any]) -> BatchEndpoint:
    """Returns the endpoint of a file."""
    return BatchEndpoint(**document)


def batch_endpoint_from_view(view: BatchEndpointView, address: str) -> BatchEndpoint:
    """Returns an endpoint of the server. address: of what invokes it."""
    given = {key: value for key, value in view.document.items() if key not in ("name", "defaults")}
    given |= {"scoring_uri": address, "provisioning_state": SUCCEEDED}
    return BatchEndpoint(name=view.name, defaults={"deployment_name": view.default_deployment or None}, **given)


AnyDeployment = BatchDeployment | PipelineComponentBatchDeployment


def batch_deployment_from_keys(keys: FrozenModel, base: Path) -> AnyDeployment:
    """Returns the deployment of a file. base: the folder that its paths count from."""
    from drumbeat.client.environment_files import with_environments
    from drumbeat.jobfile.pipelines.absolute_paths import with_absolute_paths
    from drumbeat.jobfile.pipelines.component_file import component_path

    document = with_environments(to_dict(keys), base)
    if isinstance(keys, PipelineBatchDeployment):
        given: dict[str, Any] = {key: value for key, value in document.items() if key != "type"}
        if not isinstance(given["component"], str):
            given["component"] = with_absolute_paths(given["component"], base)
        elif not given["component"].startswith("azureml:"):
            given["component"] = str(component_path(given["component"], base))
        return PipelineComponentBatchDeployment(**given)
    given = deployment_parts({key: value for key, value in document.items() if key != "type"}, base)
    own = given.pop("settings", {})
    settings = {**{key: given.pop(key) for key in SETTINGS if key in given}, **own}
    if "retry_settings" in settings:
        settings["retry_settings"] = BatchRetrySettings(**settings["retry_settings"])
    if "resources" in given:
        given["resources"] = Resources.made(given["resources"])
    return ModelBatchDeployment(**given, settings=ModelBatchDeploymentSettings(**settings))


def batch_deployment_from_view(view: BatchDeploymentView) -> AnyDeployment:
    """Returns a deployment of the server. Its code and its environment are in a component that only the server has."""
    head: dict[str, Any] = {
        "name": view.name, "endpoint_name": view.endpoint, "description": view.description or None, "tags": view.tags,
        "provisioning_state": SUCCEEDED,
    }  # fmt: skip
    if view.type == "pipeline":
        return PipelineComponentBatchDeployment(**head, component=view.component, settings=view.pipeline_settings)
    runner = view.settings
    made = BatchDeployment(
        **head,
        model=view.model or None,
        compute=view.compute or None,
        resources=Resources(instance_count=view.instance_count),
        output_file_name=view.output_file_name,
        output_action="append_row" if runner.get("is_appending", True) else "summary_only",
        error_threshold=runner.get("error_threshold"),
        retry_settings=BatchRetrySettings(max_retries=runner.get("max_retries"), timeout=runner.get("timeout_s")),
        logging_level=str(runner.get("logging_level", "info")).lower(),
        mini_batch_size=runner.get("mini_batch_size"),
        max_concurrency_per_instance=runner.get("workers"),
    )
    made.__dict__["_view"] = view
    return made


def view_behind(entity: AnyDeployment) -> BatchDeploymentView | None:
    """Returns what the server gave of a deployment; None = a script made it.

    Raises RefusedError for changes that need files of this machine.
    """
    view: BatchDeploymentView | None = vars(entity).get("_view")
    if view is None:
        return None
    changed = [key for key in ("code_configuration", "environment", "environment_variables") if vars(entity)[key]]
    if changed or vars(entity)["model"] != (view.model or None):
        what = f"deployment {view.name} came from the server, and its model, code and environment are only kept there"
        fix = "Make a new ModelBatchDeployment with all of its settings."
        raise RefusedError(what, where=(changed or ["model"])[0], fix=fix)
    return view


def batch_job_from(view: JobView) -> BatchJob:
    """Returns the job of an invocation."""
    status = azure_status(view.state, view.reason)
    return BatchJob(id=f"azureml:{view.name}", name=view.name, type=str(view.type), status=status)
