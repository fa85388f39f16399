"""The jobs of deployments: the parent, and the command jobs of one node that are its replicas."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from drumbeat.core.child_jobs import DeploymentProgress
from drumbeat.core.lifecycle.events import ChildRefused, ChildrenSeen, ChildStatus, JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.planning.plan import Planned
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.jobfile.data.paths import AssetReference, JobOutputReference, reference_to
from drumbeat.jobfile.environments.curated import curated_image
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.endpoints import DeployedModel, OnlineDeployment, ProbeSettings
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError
from drumbeat.model.plan import Plan
from drumbeat.model.programs import SCORING
from drumbeat.model.scoring_tokens import SETTINGS_VARIABLE
from drumbeat.model.states import JobKind, Reason, State
from drumbeat.server.endpoints.catalog import EndpointCatalog, StoredDeployment
from drumbeat.server.jobs.jobs import Jobs
from drumbeat.server.loop.loop import Loop
from drumbeat.server.models.models import Models

MODEL = "model"
"""The input of a replica's job that is its model."""
REFERENCE = "reference"
"""The key of a registered environment with routes that has its name and version, beside what is registered."""
DRAIN_S, GRACE_S = 30.0, 35.0
"""How long a replica answers requests under way at its end, and when it is killed."""
LOST_AFTER_S = 60.0
"""After this time without a sign of its machine, a replica is started on another one. The router avoids it at once."""
MAX_RETRIES, RETRY_DELAY_S, MAX_RETRY_DELAY_S = 10, 1.0, 30.0
"""A replica's restarts in place. Those before it was ready for a while count no more (`ReplicaSteady`)."""
MAX_FIRST_RETRIES = 4
"""The same until a replica of its generation has been ready: its user waits, and most such faults don't pass."""

MOUNT = "/var/azureml-app/azureml-models"
"""Where a container with a server of its own finds its model, below `model_mount_path` by default, as in Azure."""


@dataclass(frozen=True)
class ModelPlace:
    """Where replicas find their model. name: inside of AZUREML_MODEL_DIR. title, version: in the registry."""

    name: str = MODEL
    title: str = MODEL
    version: str = "1"


@dataclass(frozen=True)
class RouterPlace:
    """Where replicas dial in. addresses: on the server's machine. port: where agents on other machines call it."""

    addresses: tuple[str, ...] = ()
    port: int = 0


def replica_request(
    deployment: OnlineDeployment,
    job: str,
    router: RouterPlace,
    source: str,
    model: ModelPlace,
    max_retries: int = MAX_FIRST_RETRIES,
) -> JobRequest:
    """Returns the request for a replica's job. Raises SpecError."""
    has_server = bool(deployment.inference_config) and is_container(deployment.environment)
    mount = f"{deployment.model_mount_path.rstrip('/') or MOUNT}/{model.title}/{model.version}" if has_server else ""
    settings = json.dumps(_settings(deployment, job, router), separators=(",", ":"))
    document: dict[str, Any] = {
        "name": job,
        "display_name": f"{deployment.endpoint_name}/{deployment.name}",
        "command": _command(deployment, "" if has_server else model.name),
        "environment_variables": {**_variables(deployment, mount), SETTINGS_VARIABLE: settings},
        "drumbeat": {
            "max_retries": max_retries, "retry_delay_s": RETRY_DELAY_S, "max_retry_delay_s": MAX_RETRY_DELAY_S,
            "grace_s": GRACE_S, "lost_after_s": LOST_AFTER_S, "hang_after_s": 0, "rendezvous_timeout_s": 0,
            "system_metrics": False, "warm_start": False, "max_log_mib": deployment.drumbeat.max_log_mib,
        },
    }  # fmt: skip
    if deployment.model:
        document["inputs"] = {MODEL: _input(deployment.model, f"{mount}/{model.name}" if mount else "")}
    if deployment.code:
        document["code"] = "."
    if deployment.environment is not None:
        document["environment"] = _without_routes(deployment.environment)
    if deployment.drumbeat.compute:
        document["compute"] = deployment.drumbeat.compute
    gpus = deployment.requests.gpu or deployment.limits.gpu
    by_gpus = f"gpu:{int(gpus)}" if gpus.isdecimal() and int(gpus) else ""
    if instance_type := deployment.instance_type or by_gpus:
        document["resources"] = {"instance_type": instance_type}
    return JobRequest(
        document,
        source=source,
        experiment="online-endpoints",
        code=deployment.code,
        environment=deployment.environment_files,
    )


def is_container(environment: Any) -> bool:
    """Returns whether replicas of an environment run in containers, where a node has an engine."""
    if not isinstance(environment, dict):
        return False
    written = cast("dict[str, Any]", environment)
    image = written.get("image")
    is_image = isinstance(image, str) and image != "" and curated_image(image) is None
    return not written.get("conda_file") and (is_image or bool(written.get("build")))


def _settings(deployment: OnlineDeployment, job: str, router: RouterPlace) -> dict[str, Any]:
    """Returns what a replica's scoring server is told. Raises SpecError."""
    settings: dict[str, Any] = {
        "entry_script": deployment.scoring_script,
        "app_root": ".",
        "drain_s": DRAIN_S,
        "router": {
            "addresses": list(router.addresses),
            "port": router.port,
            "endpoint": deployment.endpoint_name,
            "deployment": deployment.name,
            "replica": job,
            "connections": deployment.request_settings.max_concurrent_requests_per_instance,
        },
    }
    if deployment.drumbeat.batching:
        settings["max_batch_size"] = deployment.drumbeat.batching.max_batch_size
        settings["max_wait_ms"] = deployment.drumbeat.batching.max_wait_ms
    return settings | ({"behind": _behind(deployment)} if deployment.inference_config else {})


def _variables(deployment: OnlineDeployment, mount: str) -> dict[str, str]:
    """Returns the variables of a deployment. mount: AZUREML_MODEL_DIR of a container's own server, "" = it has none."""
    own: dict[str, str] = {}
    if mount and deployment.model:
        own["AZUREML_MODEL_DIR"] = mount
    if mount and deployment.scoring_script:
        own["AZUREML_ENTRY_SCRIPT"] = deployment.scoring_script
    return own | deployment.environment_variables


def _input(model: DeployedModel, appears: str) -> dict[str, Any]:
    """Returns a model as the input of a replica's job. appears: its path in the container, "" = where it is staged."""
    entry: dict[str, Any] = {"path": model.path}
    if not model.path.startswith("azureml:") or "://" in model.path:
        entry["type"] = model.type
    return entry | ({"path_on_compute": f"file:{appears}"} if appears else {})


def _command(deployment: OnlineDeployment, model_name: str) -> str:
    """model_name: inside of AZUREML_MODEL_DIR, "" = the container's server finds it where it is mounted."""
    words = ["exec", "python", "-m", SCORING]
    if deployment.model and model_name:
        words += ["--model", f"${{{{inputs.{MODEL}}}}}"]
        if deployment.scoring_script or deployment.inference_config:
            words += ["--model-name", shlex.quote(model_name)]
    return " ".join(words)


def model_folder(path: str) -> str:
    """Returns the name of a model's folder or file inside of AZUREML_MODEL_DIR: the last part of its address."""
    try:
        place = reference_to(path)
    except SpecError:
        place = None
    if isinstance(place, JobOutputReference) and not place.path:
        return place.output
    return path.rstrip("/").rpartition("/")[2].rpartition(":")[2] or MODEL


def _behind(deployment: OnlineDeployment) -> dict[str, Any]:
    """Returns the settings of a server with routes of its own. Raises SpecError."""
    routes = deployment.inference_config
    where = "environment.inference_config"
    ports = {route["port"] for route in routes.values()}
    if len(ports) != 1:
        raise SpecError("its routes are at several ports, and a replica passes requests on to one", where=where)
    command = ["/bin/sh", "-c", deployment.drumbeat.command] if deployment.drumbeat.command else []
    if not command and not is_container(deployment.environment):
        what = "the command that starts the server with these routes isn't known: only an image has one of its own"
        fix = "Name it: drumbeat: {command: ...}; or give the environment an `image` or `build` without `conda_file`."
        raise SpecError(what, where=where, fix=fix)

    def probe(name: str, settings: ProbeSettings) -> dict[str, Any]:
        return {
            "path": routes.get(name, {}).get("path", "/"),
            "initial_delay": settings.initial_delay,
            "period": settings.period,
            "timeout": settings.timeout,
            "failure_threshold": settings.failure_threshold,
        }

    scoring = routes.get("scoring_route", {}).get("path", "/")
    return {
        "port": ports.pop(),
        "command": command,
        "scoring_path": "" if scoring == "/" else scoring,
        "readiness": probe("readiness_route", deployment.readiness_probe),
        "liveness": probe("liveness_route", deployment.liveness_probe),
    }


def _without_routes(environment: Any) -> Any:
    if not isinstance(environment, dict):
        return environment
    written = cast("dict[str, Any]", environment)
    return written.get(REFERENCE) or {key: value for key, value in written.items() if key != "inference_config"}


def ready_within_s(deployment: OnlineDeployment) -> float:
    """Returns how long a replica may run before it is ready."""
    probe = deployment.readiness_probe
    return float(probe.initial_delay + probe.period * probe.failure_threshold)


def new_deployment(stored: StoredDeployment, example: Planned, wanted: int, now: datetime) -> tuple[Job, JobEvent]:
    """Returns the parent job of a deployment, and its first event. example: the plan of a replica."""
    endpoint, name = stored.key
    of_replica = example.plan
    plan = Plan(
        job=stored.job,
        experiment=of_replica.experiment,
        launcher=JobKind.DEPLOYMENT.value,
        nodes=0,
        processes_per_node=0,
        command=of_replica.command,
        ranks=(),
        inputs=of_replica.inputs,
        code=of_replica.code,
        compute=of_replica.compute,
        environment=of_replica.environment,
        gpus_per_node=of_replica.gpus_per_node,
    )
    progress = DeploymentProgress(
        endpoint,
        name,
        generation=stored.generation,
        wanted=wanted,
        ready_within_s=ready_within_s(stored.definition),
        snapshots=snapshots(stored),
    )
    notes = "".join(f"; {note}" for note in example.notes)
    sentence = f"accepted: replicas of {endpoint}/{name} on compute {of_replica.compute}{notes}"
    job = Job(
        name=stored.job,
        plan=plan,
        need=Need(0, 0),
        policy=JobPolicy(example.policy.priority, 0, None),
        submitted_at=now,
        started_at=now,
        state=State.RUNNING,
        reason=Reason.REPLICAS_RUNNING,
        sentence=sentence,
        display_name=f"{endpoint}/{name}",
        description=stored.definition.description,
        tags=dict(stored.definition.tags),
        user=stored.user,
        deployment=progress,
    )
    return job, JobEvent(now, job.state, job.reason, sentence)


def snapshots(stored: StoredDeployment) -> tuple[str, ...]:
    """Returns the digests of what the client sent for all generations that may run."""
    digests = {one.code for one in stored.generations.values() if one.code}
    digests |= {one.environment_files.context for one in stored.generations.values() if one.environment_files.context}
    return tuple(sorted(digests))


class Replicas:
    """Submits the jobs of replicas."""

    def __init__(
        self,
        loop: Loop,
        jobs: Jobs,
        catalog: EndpointCatalog,
        models: Models,
        router: Callable[[], RouterPlace],
    ) -> None:
        self._loop, self._jobs, self._catalog = loop, jobs, catalog
        self._models, self._router = models, router

    def submit(self, parent: Job, job: str) -> None:
        """Submits the job of a replica, and notifies the deployment. Idempotent."""
        progress = parent.deployment
        replica = progress.replica(parent.name, job) if progress else None
        if progress is None or replica is None or replica.state is not None:
            return
        if replica.is_leaving:
            self._refuse(parent, job, "it is wanted no more")
            return
        try:
            stored = self._catalog.deployment(progress.endpoint, progress.deployment)
            definition = stored.generations.get(str(replica.generation))
            if definition is None or stored.job != parent.name:
                raise NotFoundError(f"generation {replica.generation} of the deployment has been replaced")
            is_proved = replica.generation <= progress.serving
            asked = self.request(definition, job, MAX_RETRIES if is_proved else MAX_FIRST_RETRIES)
        except (SpecError, RefusedError, NotFoundError) as error:
            self._refuse(parent, job, str(error))
            return
        self._jobs.submit_child(parent.name, replace(asked, key=_key(parent, job)))

    def _refuse(self, parent: Job, job: str, sentence: str) -> None:
        """Notifies the deployment that a replica isn't submitted, or of its job if that exists: a server that was
        killed may have submitted it.
        """
        record = self._loop.store.submitted(_key(parent, job))
        if record is None:
            self._loop.tell(parent.name, ChildRefused(job, sentence))
        else:
            status = ChildStatus(job, record.job.state, record.job.sentence)
            self._loop.tell(parent.name, ChildrenSeen((status,)))

    def request(self, definition: OnlineDeployment, job: str, max_retries: int = MAX_FIRST_RETRIES) -> JobRequest:
        """Returns the request for a replica's job. Raises SpecError, NotFoundError."""
        source = f"deployment {definition.endpoint_name}/{definition.name}"
        return replica_request(definition, job, self._router(), source, self._model_place(definition), max_retries)

    def _model_place(self, definition: OnlineDeployment) -> ModelPlace:
        """Returns where a deployment's model is for its replicas. Raises NotFoundError."""
        path = definition.model.path if definition.model else ""
        reference = reference_to(path) if path else None
        if isinstance(reference, AssetReference):
            row = self._models.find(reference.name, reference.version)
            return ModelPlace(model_folder(str(row.document["uri"])), reference.name, row.version)
        return ModelPlace(model_folder(path), model_folder(path))


def _key(parent: Job, job: str) -> str:
    """Returns the idempotency key of a replica's job."""
    return f"child/{parent.name}/{job}"
