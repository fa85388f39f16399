"""Batch endpoints of a server: their deployments, and the jobs that these run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import SpecError
from drumbeat.resources.batch import BATCH_DEPLOYMENT, BATCH_ENDPOINT

if TYPE_CHECKING:
    from drumbeat.client.client import Client
    from drumbeat.jobfile.batch.deployments import ModelBatchDeployment, PipelineBatchDeployment
    from drumbeat.jobfile.batch.scoring_jobs import BatchInvocation
    from drumbeat.model.api.batch import BatchDeploymentView, BatchEndpointView
    from drumbeat.model.api.jobs import JobView


DEFAULT_FILE = "predictions.csv"


class BatchEndpoints:
    """The batch endpoints of a client's server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    # --- endpoints --------------------------------------------------------------------------------------------
    def endpoints(self) -> list[BatchEndpointView]:
        """The endpoints, by name."""
        return self._client.resources(BATCH_ENDPOINT)

    def endpoint(self, name: str) -> BatchEndpointView:
        """Returns an endpoint. Raises NotFoundError."""
        return self._client.resource(BATCH_ENDPOINT, name)

    def create_endpoint(self, given: str | Path | Mapping[str, Any]) -> BatchEndpointView:
        """Creates an endpoint, or replaces the one of its name: the path of a file, or its keys. Raises SpecError."""
        return self._client.create_resource(BATCH_ENDPOINT, given)

    # --- deployments ------------------------------------------------------------------------------------------
    def deployment(self, endpoint: str, name: str) -> BatchDeploymentView:
        """Returns a deployment. Raises NotFoundError."""
        self.endpoint(endpoint)
        return self._client.resource(BATCH_DEPLOYMENT, f"{endpoint}.{name}")

    def create_deployment(
        self, given: str | Path | Mapping[str, Any], *, sets: Sequence[str] = ()
    ) -> BatchDeploymentView:
        """Creates a deployment, or replaces the one of its name, with its code, environment and model.

        given: the path of a file, or its keys, whose paths count from the current folder. Raises SpecError, with the
        line; NotFoundError for an endpoint that isn't there; UnknownNameError for an environment or a compute.
        """
        from drumbeat.jobfile.batch.deployments import BATCH_DEPLOYMENT as FILE
        from drumbeat.jobfile.batch.deployments import PipelineBatchDeployment
        from drumbeat.jobfile.reading.loader import load_text, model_from, read_text

        if isinstance(given, Mapping):
            keys: Any = model_from(given, FILE, FILE.noun, overrides=sets)
            base = Path.cwd()
        else:
            keys = load_text(read_text(Path(given)), FILE, str(given), sets)
            base = Path(given).absolute().parent
        self.endpoint(keys.endpoint_name)
        kept = self._pipeline(keys, base) if isinstance(keys, PipelineBatchDeployment) else self._model(keys, base)
        head = {"name": f"{keys.endpoint_name}.{keys.name}", "description": keys.description, "tags": keys.tags}
        document = {key: value for key, value in {**head, **kept}.items() if value not in (None, {}, "")}
        return self._client.create_resource(BATCH_DEPLOYMENT, document)

    def change_deployment(self, before: BatchDeploymentView, keys: Mapping[str, Any]) -> BatchDeploymentView:
        """Changes how a deployment of a model runs; its model, code and environment stay. keys: all others of its file.

        Raises SpecError.
        """
        from drumbeat.jobfile.batch.deployments import BATCH_DEPLOYMENT as FILE
        from drumbeat.jobfile.batch.scoring_jobs import runner_settings
        from drumbeat.jobfile.reading.loader import model_from

        # The component that it runs stands for a script without a model.
        checked: Any = model_from({**keys, "model": before.model or before.component}, FILE, FILE.noun)
        document = {
            **before.document,
            "description": checked.description,
            "tags": checked.tags,
            "compute": checked.compute,
            "instance_count": checked.resources.instance_count,
            "settings": runner_settings(checked),
            "output_file_name": checked.setting("output_file_name", DEFAULT_FILE),
        }
        kept = {key: value for key, value in document.items() if value not in (None, {}, "")}
        return self._client.create_resource(BATCH_DEPLOYMENT, kept)

    def _model(self, given: ModelBatchDeployment, base: Path) -> dict[str, Any]:
        from drumbeat.client.environment_files import with_environments
        from drumbeat.jobfile.batch.deployments import model_path
        from drumbeat.jobfile.batch.scoring_jobs import component_document, runner_settings
        from drumbeat.jobfile.pipelines.absolute_paths import with_absolute_paths

        path = model_path(given.model)
        model, folder = self._model_input(given, base) if path else (None, "")
        document = with_absolute_paths(with_environments(component_document(given, model, folder), base), base)
        self._check_names(document, given.compute)
        made = self._client.create_component(document)
        return {
            "type": "model",
            "component": f"azureml:{made.title}",
            "compute": given.compute,
            "instance_count": given.resources.instance_count,
            "model": path,
            "settings": runner_settings(given),
            "output_file_name": given.setting("output_file_name", DEFAULT_FILE),
        }

    def _check_names(self, component: Mapping[str, Any], compute: str | None) -> None:
        """Raises UnknownNameError where a job of the component would have no environment or no compute."""
        keys = {"environment": component.get("environment"), "compute": compute}
        self._client.plan({"command": "true", **{key: value for key, value in keys.items() if value}})

    def _model_input(self, given: ModelBatchDeployment, base: Path) -> tuple[dict[str, Any], str]:
        """The input that the model is, and the name of its file or folder."""
        from drumbeat.jobfile.batch.deployments import model_path, model_type
        from drumbeat.jobfile.batch.scoring_jobs import last_part, model_input

        path = model_path(given.model)
        default = "custom_model" if given.code_configuration else "mlflow_model"
        kind = model_type(given.model, default)
        if not path.startswith("azureml:") or path.startswith("azureml://"):
            return model_input(path, kind, base), last_part(path)
        title = path.removeprefix("azureml:")
        name, mark, version = title.partition("@") if "@" in title else title.partition(":")
        one = self._client.model(name, "" if mark == "@" and version == "latest" else f"{mark.strip(':')}{version}")
        if given.code_configuration is None and one.type != "mlflow_model":
            what = f"model {name} is a {one.type}, and only an mlflow_model scores without a script"
            raise SpecError(what, where="model", fix="Add `code_configuration:`.")
        return {"type": one.type, "path": f"azureml:{name}:{one.version}"}, last_part(one.uri)

    def _pipeline(self, given: PipelineBatchDeployment, base: Path) -> dict[str, Any]:
        from drumbeat.client.environment_files import with_environments
        from drumbeat.jobfile.batch.scoring_jobs import component_name
        from drumbeat.jobfile.pipelines.absolute_paths import with_absolute_paths
        from drumbeat.jobfile.pipelines.component_file import component_path
        from drumbeat.jobfile.reading.model import set_keys
        from drumbeat.jobfile.reading.writer import to_dict

        reference = given.component
        own = [f"name={component_name(given.endpoint_name, given.name)}"]
        if not isinstance(reference, str):
            document = with_absolute_paths(with_environments(to_dict(reference), base), base)
            made = self._client.create_component({**document, "name": own[0].partition("=")[2]})
            reference = f"azureml:{made.title}"
        elif not reference.startswith("azureml:"):
            made = self._client.create_component(component_path(reference, base), sets=own)
            reference = f"azureml:{made.title}"
        settings = set_keys(given.settings)
        return {"type": "pipeline", "component": reference, "pipeline_settings": settings}

    def invoke(self, endpoint: str, asked: BatchInvocation) -> JobView:
        """Starts the job of an invocation, and returns it. Raises NotFoundError, SpecError, and what `submit` does."""
        from drumbeat.jobfile.batch.scoring_jobs import job_document

        return self._client.submit(
            job_document(self.chosen(endpoint, asked.deployment), asked), name=asked.job_name or None
        )

    def chosen(self, endpoint: str, deployment: str = "") -> BatchDeploymentView:
        """Returns the deployment that an invocation runs: the default one, or the only one.

        Raises NotFoundError, SpecError.
        """
        from drumbeat.jobfile.batch.default_deployment import choose_deployment

        return choose_deployment(self.endpoint(endpoint), self.deployments(endpoint), deployment)

    def deployments(self, endpoint: str = "") -> list[BatchDeploymentView]:
        """The deployments of an endpoint, or of all."""
        return [one for one in self._client.resources(BATCH_DEPLOYMENT) if endpoint in ("", one.endpoint)]

    def update(self, kind: Any, name: str, sets: Sequence[str]) -> Any:
        """Changes keys of an endpoint, or of a deployment as it is kept. Raises SpecError."""
        from drumbeat.jobfile.reading.loader import model_from

        kept = dict(self._client.resource(kind, name).document)
        model = model_from(kept, kind.model(), kind.name, overrides=sets)
        return self._client.create_resource(kind, model)

    def set_default(self, one: BatchDeploymentView) -> BatchEndpointView:
        """Makes a deployment the one that its endpoint's invocations run."""
        return self.update(BATCH_ENDPOINT, one.endpoint, [f"defaults.deployment_name={one.name}"])

    def delete_deployment(self, endpoint: str, name: str) -> None:
        """Deletes a deployment. Raises NotFoundError; ConflictError for the default one beside others."""
        from drumbeat.jobfile.batch.default_deployment import require_not_default

        require_not_default(self.endpoint(endpoint), self.deployments(endpoint), name)
        self._client.delete_resource(BATCH_DEPLOYMENT, f"{endpoint}.{name}")

    def delete_endpoint(self, name: str) -> None:
        """Deletes an endpoint with its deployments. Raises NotFoundError."""
        self._client.resource(BATCH_ENDPOINT, name)
        for one in self.deployments(name):
            self._client.delete_resource(BATCH_DEPLOYMENT, f"{name}.{one.name}")
        self._client.delete_resource(BATCH_ENDPOINT, name)

    def jobs(self, endpoint: str, deployment: str = "", *, limit: int = 100) -> list[JobView]:
        """The jobs of an endpoint's invocations, or of one deployment's, newest first."""
        from drumbeat.jobfile.batch.scoring_jobs import DEPLOYMENT_TAG, ENDPOINT_TAG

        wanted = {ENDPOINT_TAG: endpoint, **({DEPLOYMENT_TAG: deployment} if deployment else {})}
        jobs = self._client.list(parent="", text=endpoint, limit=1000)
        return [job for job in jobs if wanted.items() <= job.tags.items()][:limit]
