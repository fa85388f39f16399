"""Batch endpoints and their deployments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from drumbeat.client.batch_endpoints import BatchEndpoints
from drumbeat.jobfile.batch.scoring_jobs import BatchInvocation
from drumbeat.jobfile.reading.model import Model as FrozenModel
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.ml.calls.operation import Operations, pages
from drumbeat.ml.objects.batch import (
    AnyDeployment,
    BatchEndpoint,
    BatchJob,
    batch_deployment_from_view,
    batch_endpoint_from_view,
    batch_job_from,
    view_behind,
)
from drumbeat.ml.poller import LROPoller
from drumbeat.model.api.batch import BatchEndpointView
from drumbeat.model.errors import SpecError

_COUNTS = ("compute.instance_count", "resources.instance_count")
_OVERRIDES = ("mini_batch_size", "output_file_name", *_COUNTS)
"""What an invocation may set in place of its deployment's settings, as Azure's `params_override` calls it."""


class BatchEndpointOperations(Operations):
    """Batch endpoints."""

    @property
    def _batch(self) -> BatchEndpoints:
        return BatchEndpoints(self.client)

    def _shown(self, view: BatchEndpointView) -> BatchEndpoint:
        return batch_endpoint_from_view(
            view, f"{self.client.connection.line.url.rstrip('/')}/api/v1/batch-endpoints/{view.name}"
        )

    def list(self) -> Iterator[BatchEndpoint]:
        """Returns the endpoints, by name."""
        return pages(self._shown(one) for one in self._batch.endpoints())

    def get(self, name: str) -> BatchEndpoint:
        """Returns an endpoint."""
        return self._shown(self._batch.endpoint(name))

    def begin_create_or_update(self, endpoint: BatchEndpoint) -> LROPoller[BatchEndpoint]:
        """Creates an endpoint, or changes the one of its name, for example its default deployment."""
        return LROPoller(self._shown(self._batch.create_endpoint(endpoint.to_document())))

    def begin_delete(self, name: str) -> LROPoller[None]:
        """Deletes an endpoint with its deployments. Its jobs continue."""
        return LROPoller(self._batch.delete_endpoint(name))

    def invoke(
        self,
        endpoint_name: str,
        *,
        deployment_name: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> BatchJob:
        """Starts the job that scores data, and returns it.

        Other keywords are Azure's: `input` for the only one, `outputs`, `job_name`, `experiment_name`, and
        `params_override` with the size of mini-batches, the name of the file of results and the number of nodes.
        """
        overrides = _overrides(keys.get("params_override") or ())
        given = dict(inputs or {})
        if keys.get("input") is not None:
            given["data"] = keys["input"]
        counts = [overrides[key] for key in _COUNTS if key in overrides]
        asked = BatchInvocation(
            deployment=deployment_name or "",
            inputs={name: _document(value) for name, value in given.items()},
            output_path=_output_path(keys.get("outputs") or {}),
            output_file_name=str(overrides.get("output_file_name", "")),
            job_name=keys.get("job_name") or "",
            instance_count=_whole("instance_count", counts[0]) if counts else 0,
            mini_batch_size=_whole("mini_batch_size", overrides.get("mini_batch_size", 0)),
            experiment=keys.get("experiment_name") or "",
        )
        return batch_job_from(self._batch.invoke(endpoint_name, asked))

    def list_jobs(self, endpoint_name: str) -> Iterator[BatchJob]:
        """Returns the jobs of an endpoint's invocations, newest first."""
        self._batch.endpoint(endpoint_name)
        return pages(batch_job_from(one) for one in self._batch.jobs(endpoint_name))


class BatchDeploymentOperations(Operations):
    """Deployments of batch endpoints."""

    @property
    def _batch(self) -> BatchEndpoints:
        return BatchEndpoints(self.client)

    def begin_create_or_update(
        self, deployment: AnyDeployment, *, skip_script_validation: bool = False, **keys: Any
    ) -> LROPoller[AnyDeployment]:
        """Creates a deployment, or replaces the one of its name. One that came from the server keeps its code."""
        del skip_script_validation, keys
        document, before = deployment.to_document(), view_behind(deployment)
        if before is not None:
            return LROPoller(batch_deployment_from_view(self._batch.change_deployment(before, document)))
        return LROPoller(batch_deployment_from_view(self._batch.create_deployment(document)))

    def get(self, name: str, endpoint_name: str) -> AnyDeployment:
        """Returns a deployment."""
        return batch_deployment_from_view(self._batch.deployment(endpoint_name, name))

    def list(self, endpoint_name: str) -> Iterator[AnyDeployment]:
        """Returns the deployments of an endpoint, by name."""
        self._batch.endpoint(endpoint_name)
        return pages(batch_deployment_from_view(one) for one in self._batch.deployments(endpoint_name))

    def begin_delete(self, name: str, endpoint_name: str) -> LROPoller[None]:
        """Deletes a deployment, which must not be the default one beside others. Its jobs continue."""
        return LROPoller(self._batch.delete_deployment(endpoint_name, name))

    def list_jobs(self, endpoint_name: str, *, name: str | None = None) -> Iterator[BatchJob]:
        """Returns the jobs of an endpoint's invocations, or of one deployment's, newest first."""
        self._batch.endpoint(endpoint_name)
        return pages(batch_job_from(one) for one in self._batch.jobs(endpoint_name, name or ""))


def _document(value: Any) -> Any:
    return to_dict(value) if isinstance(value, FrozenModel) else value


def _output_path(outputs: Mapping[str, Any]) -> str:
    """Returns where the only output goes, "" = to the job's folder."""
    if len(outputs) > 1:
        raise SpecError(f"{len(outputs)} outputs; a model deployment has one", where="outputs", fix="Give one.")
    for output in outputs.values():
        document = _document(output)
        if isinstance(document, Mapping):
            return str(cast("Mapping[str, Any]", document).get("path") or "")
    return ""


def _overrides(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    table = {key: value for one in given for key, value in one.items()}
    for key in table:
        if key not in _OVERRIDES:
            fix = f"There are {', '.join(_OVERRIDES)}."
            raise SpecError(f"an invocation doesn't set {key!r}", where="params_override", fix=fix)
    return table


def _whole(key: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise SpecError(f"{value!r} is no whole number", where=key) from None
