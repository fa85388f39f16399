"""Jobs: sent, listed, followed, brought back, as Azure's client does it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumbeat.jobfile.reading.model import Model, set_keys
from drumbeat.ml.calls.job_downloads import download
from drumbeat.ml.calls.job_stream import stream
from drumbeat.ml.calls.operation import ARCHIVED_ONLY, Operations, pages
from drumbeat.ml.objects.jobs import Job, job_from_view
from drumbeat.ml.objects.plain import Attributes, ValidationResult
from drumbeat.ml.poller import LROPoller
from drumbeat.model.api.jobs import JobView
from drumbeat.model.api.sessions import ServiceView
from drumbeat.model.azure_statuses import azure_service_status, azure_service_type
from drumbeat.model.errors import RefusedError, SpecError

MAX_LISTED = 100_000


class JobOperations(Operations):
    """Jobs."""

    def create_or_update(
        self,
        job: Any,
        *,
        description: str | None = None,
        compute: str | None = None,
        tags: dict[str, str] | None = None,
        experiment_name: str | None = None,
        skip_validation: bool = False,
        **keys: Any,
    ) -> Job:
        """Submits a job, changed by what is given beside it.

        Of a submitted one, changes name, description and tags; what else it has stays as it was submitted.
        """
        del skip_validation, keys
        given = {"description": description, "compute": compute, "tags": tags, "experiment_name": experiment_name}
        if isinstance(job, Job) and job.status is not None:
            chosen = tags if tags is not None else {str(key): str(value) for key, value in job.tags.items()}
            gone = dict.fromkeys(self.client.get(job.name).tags.keys() - chosen.keys())
            changed = self.client.change_job(
                job.name, display_name=job.display_name, description=description or job.description,
                tags={**chosen, **gone},
            )  # fmt: skip
            return self._shown(changed)
        return self._shown(self.client.submit(_checked(job, {k: v for k, v in given.items() if v is not None})))

    def get(self, name: str) -> Job:
        """Returns a job; of a sweep with the best trial so far in its properties."""
        return self._shown(self.client.get(name))

    def list(
        self, *, parent_job_name: str | None = None, list_view_type: str = "ActiveOnly", max_results: int | None = None
    ) -> Iterator[Job]:
        """Returns jobs, newest first, without trials and steps; with a parent its trials or steps."""
        views = self.client.list(
            parent=parent_job_name or "",
            archived=list_view_type != "ActiveOnly",
            limit=max_results or MAX_LISTED,
        )
        chosen = [one for one in views if list_view_type != ARCHIVED_ONLY or one.archived]
        return pages(job_from_view(one, {}, self._page(one)) for one in chosen)

    def validate(self, job: Any, *, raise_on_failure: bool = False, **keys: Any) -> ValidationResult:
        """Says whether the server would take the job; nothing is sent."""
        del keys
        try:
            self.client.plan(_checked(job, {}))
        except (SpecError, RefusedError) as error:
            if raise_on_failure:
                raise
            return ValidationResult(passed=False, error_messages={error.where or "*": str(error)})
        return ValidationResult(passed=True, error_messages={})

    def stream(self, name: str) -> None:
        """Prints the lines of rank 0 until the job is over. Raises JobException when it has failed."""
        stream(self.client, name, self._page(self.client.get(name)))

    def download(
        self,
        name: str,
        *,
        download_path: str | os.PathLike[str] = ".",
        output_name: str | None = None,
        all: bool = False,
    ) -> None:
        """Copies logs and unnamed outputs to `artifacts/`, named outputs to `named-outputs/NAME/`.

        output_name: only this output. all: all of both. Of a sweep, these are the best trial's. Raises JobException
        for a job that hasn't ended.
        """
        download(self.client, name, Path(download_path), output_name, is_all=all)

    def begin_cancel(self, name: str, **keys: Any) -> LROPoller[None]:
        """Asks a job to stop."""
        del keys
        self.client.cancel(name)
        return LROPoller(None)

    def begin_delete(self, name: str, **keys: Any) -> LROPoller[None]:
        """Deletes a job that has ended, with its files."""
        del keys
        self.client.delete(name)
        return LROPoller(None)

    def archive(self, name: str) -> None:
        """Hides a job that has ended from lists."""
        self.client.archive(name)

    def restore(self, name: str) -> None:
        """Shows an archived job in lists again."""
        self.client.restore(name)

    def update(
        self,
        name: str,
        *,
        display_name: str | None = None,
        description: str | None = None,
        tags: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
        **keys: Any,
    ) -> Job:
        """Changes name and description of a job, and adds tags. Raises RefusedError for properties, which stay."""
        if properties:
            fix = "Tag the job instead, or its run with MLflow."
            raise RefusedError("the properties of a submitted job stay as they are", where=name, fix=fix)
        changed = self.client.change_job(name, display_name=display_name, description=description, tags=tags or {})
        return self._shown(changed)

    def show_services(self, name: str, node_index: int = 0) -> dict[str, Attributes] | None:
        """Returns the services on a node of a job that hasn't ended, None = there are none.

        `endpoint` opens a running one in a browser, once; `properties["command"]` is drumbeat's command for it.
        """
        view = self.client.get(name)
        here = [one for one in view.services if one.node == node_index and not view.has_ended]
        return {one.name: self._service(one, name) for one in here} or None

    def _service(self, one: ServiceView, job: str) -> Attributes:
        is_open = one.is_running and one.is_web
        return Attributes(
            type=azure_service_type(one.type), port=None, status=azure_service_status(one), error=one.problem or None,
            endpoint=self.client.service_link(job, one.name, one.node).url if is_open else None,
            properties={"command": one.command(job)},
        )  # fmt: skip

    def _shown(self, view: JobView) -> Job:
        return job_from_view(view, self.client.definition(view.name).document, self._page(view))

    def _page(self, view: JobView) -> str:
        return f"{self.client.connection.line.url.rstrip('/')}/ui/jobs/{view.name}"


def _checked(job: Any, given: dict[str, Any]) -> Any:
    """Returns a job as `Client.submit` takes it, with changed keys."""
    if isinstance(job, Model):
        return _changed(job, given) if given else job
    if not hasattr(job, "to_job"):
        if hasattr(job, "to_node"):
            raise SpecError("a step runs in a pipeline only", fix="Submit what a @pipeline function gives.")
        raise SpecError(f"{type(job).__name__} isn't a job", fix="Take command(...), a pipeline, or load_job(...).")
    return _changed(job.to_job(), given) if given else job


def _changed(model: Model, keys: dict[str, Any]) -> Model:
    kind: type[Model] = type(model)
    return kind.made({**set_keys(model), **keys})
