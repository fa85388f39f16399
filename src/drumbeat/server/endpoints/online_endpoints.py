"""The service of online endpoints and their deployments: what the API asks of them."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from drumbeat.core.child_jobs import replica_name
from drumbeat.core.lifecycle.events import DeploymentAsked
from drumbeat.core.lifecycle.job import Job
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model import scoring_tokens
from drumbeat.model.api.endpoints import (
    DeploymentLogs,
    DeploymentView,
    EndpointKeys,
    EndpointState,
    EndpointToken,
    EndpointView,
)
from drumbeat.model.endpoints import (
    MAX_MIRRORED,
    DeploymentExtension,
    KeyType,
    OnlineDeployment,
    OnlineEndpoint,
    ProbeSettings,
    RequestSettings,
    ScaleSettings,
    check_name,
)
from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError, RefusedError, SpecError
from drumbeat.model.principal import Principal, Role, require_own
from drumbeat.model.routing_table import DeploymentRoute, EndpointRoute, digest
from drumbeat.model.states import State
from drumbeat.server.database.records import Submission
from drumbeat.server.endpoints.catalog import EndpointCatalog, EndpointSecrets, StoredDeployment, StoredEndpoint
from drumbeat.server.endpoints.pinning import pinned
from drumbeat.server.endpoints.replica_jobs import Replicas, new_deployment, ready_within_s, snapshots
from drumbeat.server.endpoints.request_history import RequestHistory
from drumbeat.server.endpoints.router_program import RouterProgram
from drumbeat.server.jobs.job_submission import invent_name
from drumbeat.server.jobs.jobs import Jobs
from drumbeat.server.jobs.planner import Planner
from drumbeat.server.loop.loop import Loop
from drumbeat.server.models.models import Models

DELETES = "its deletion"
"""Who cancels the job of a deployment that is deleted."""
MAX_LOG_BYTES = 1 << 20

LogTail = Callable[[str, int], str]
"""Returns the last bytes of a job's logs as text."""


def no_logs(_job: str, _size: int) -> str:
    """Returns no logs."""
    return ""


def _require_own(by: Principal, endpoint: StoredEndpoint) -> None:
    require_own(by, endpoint.user, f"the endpoint {endpoint.definition.name}")


class OnlineEndpoints:
    """Creates, changes, shows and deletes endpoints and deployments. Thread-safe."""

    def __init__(
        self, loop: Loop, catalog: EndpointCatalog, jobs: Jobs, planner: Planner, models: Models, replicas: Replicas,
        router: RouterProgram | None,
    ) -> None:  # fmt: skip
        self._loop, self.catalog, self._jobs, self._planner = loop, catalog, jobs, planner
        self._models, self._replicas, self._router = models, replicas, router
        self.lock = threading.RLock()
        """Held while what the database has of endpoints is changed."""
        self.changed = threading.Event()
        """Set when there is something for the watch to do."""
        self.requests = RequestHistory()
        """What the router counts, as the watch notes it."""
        self.log_tail: LogTail = no_logs

    # --- endpoints --------------------------------------------------------------------------------------------
    def list(self) -> list[EndpointView]:
        """Returns all endpoints, by name."""
        endpoints = self.catalog.endpoints()
        numbers = self._numbers() if endpoints else None
        return [self._view(one, numbers) for one in endpoints]

    def show(self, name: str) -> EndpointView:
        """Returns an endpoint. Raises NotFoundError."""
        return self._view(self.catalog.endpoint(name), self._numbers())

    def put(self, definition: OnlineEndpoint, by: Principal) -> tuple[EndpointView, bool]:
        """Creates an endpoint, or changes the one of its name; its keys stay. Returns it, and whether it is new.

        Raises SpecError; ForbiddenError if it is another user's; RefusedError where traffic names a deployment that
        isn't there; ConflictError while it is being deleted.
        """
        check_name(definition.name)
        self._require_router()
        with self.lock:
            before = self.catalog.find_endpoint(definition.name)
            if before and before.is_deleting:
                raise ConflictError(f"the endpoint {definition.name} is being deleted", fix="Wait until it is gone.")
            self._check_traffic(definition)
            if before:
                _require_own(by, before)
            kept = before or StoredEndpoint(definition, _new_secrets(), datetime.now(UTC), user=by.user)
            self.catalog.put_endpoint(replace(kept, definition=definition))
        self.changed.set()
        return self.show(definition.name), before is None

    def delete(self, name: str, by: Principal) -> None:
        """Deletes an endpoint with its deployments; it is gone when their replicas are.

        Raises NotFoundError, ForbiddenError.
        """
        with self.lock:
            endpoint = self.catalog.endpoint(name)
            _require_own(by, endpoint)
            for deployment in self.catalog.deployments(name):
                self.catalog.put_deployment(replace(deployment, is_deleting=True))
            self.catalog.put_endpoint(replace(endpoint, is_deleting=True))
        self.changed.set()

    def _require_router(self) -> RouterProgram:
        if self._router is None:
            raise RefusedError("this server has no router, which online endpoints need")
        return self._router

    def _check_traffic(self, definition: OnlineEndpoint) -> None:
        """Raises SpecError, RefusedError."""
        deployments = self.catalog.deployments(definition.name)
        names = [one.definition.name for one in deployments if not one.is_deleting]
        leaving = [one.definition.name for one in deployments if one.is_deleting]
        for key, shares in (("traffic", definition.traffic), ("mirror_traffic", definition.mirror_traffic)):
            if any(not 0 <= share <= 100 for share in shares.values()):
                raise SpecError("a share of the requests is 0 to 100 percent", where=key)
            for name in [name for name, share in shares.items() if share and name not in names]:
                if name in leaving:
                    what = f"the deployment {name} is being deleted, and takes no requests"
                    raise RefusedError(what, where=f"{key}.{name}", fix="Give its traffic to another deployment.")
                has = f"it has {', '.join(names)}" if names else "it has none yet"
                fix = nearest(name, names) or "Create the deployment first."
                raise RefusedError(
                    f"the endpoint {definition.name} has no deployment {name}; {has}", where=f"{key}.{name}", fix=fix
                )
        if (total := sum(definition.traffic.values())) not in (0, 100):
            raise SpecError(f"the shares are {total} percent together", where="traffic", fix="Their sum is 100, or 0.")
        mirrored = {name: share for name, share in definition.mirror_traffic.items() if share}
        if len(mirrored) > 1 or any(share > MAX_MIRRORED for share in mirrored.values()):
            what = f"one deployment gets copies of at most {MAX_MIRRORED} percent of the requests"
            raise SpecError(what, where="mirror_traffic")
        for name in mirrored:
            if definition.traffic.get(name):
                raise SpecError(f"{name} has live traffic already", where="mirror_traffic")

    def _numbers(self) -> dict[str, Any] | None:
        return self._router.numbers() if self._router else None

    def _view(self, one: StoredEndpoint, numbers: dict[str, Any] | None) -> EndpointView:
        """numbers: what the router counts, asked once for all endpoints of a list; None = it doesn't answer."""
        name = one.definition.name
        state: EndpointState = "deleting" if one.is_deleting else "ready"
        sentence = self._router.problem(numbers) if self._router else "this server has no router"
        if state == "ready" and sentence:
            state = "creating"
        elif state == "ready" and not self._is_told(one, numbers):
            state, sentence = "updating", "the router is taking over what was changed"
        elif self._router:
            sentence = self._router.door_problem(numbers)
        url = f"{self._router.url}/{name}" if self._router else ""
        return EndpointView(
            one.definition,
            state,
            f"{url}/score",
            one.created_at,
            f"{url}/swagger.json",
            sentence,
            tuple(each.definition.name for each in self.catalog.deployments(name)),
            self._router.ca if self._router else "",
        )

    def _is_told(self, one: StoredEndpoint, numbers: dict[str, Any] | None) -> bool:
        """Whether the router knows what users have set of an endpoint."""
        name = one.definition.name
        jobs = {each.definition.name: self.job(each) for each in self.catalog.deployments(name)}
        route = endpoint_route(one, {each: DeploymentRoute() for each, job in jobs.items() if job and job.deployment})
        return numbers is not None and numbers["endpoints"].get(name) == route.settings

    # --- keys -------------------------------------------------------------------------------------------------
    def keys(self, name: str, by: Principal) -> EndpointKeys:
        """Returns the keys of an endpoint. Raises NotFoundError; RefusedError if it takes tokens."""
        if by.role is Role.READER:
            raise ForbiddenError(f"{by.user} is a reader here, and keys open the endpoint", fix="Ask its owner.")
        endpoint = self.catalog.endpoint(name)
        if endpoint.definition.auth_mode != "key":
            what = f"the endpoint {name} takes tokens, not keys (auth_mode: {endpoint.definition.auth_mode})"
            raise RefusedError(what, fix="Ask for a token.")
        return EndpointKeys(endpoint.secrets.primary, endpoint.secrets.secondary)

    def renew_key(self, name: str, key_type: KeyType, by: Principal) -> EndpointKeys:
        """Replaces one of the keys; the other stays valid. Raises NotFoundError, RefusedError, ForbiddenError."""
        with self.lock:
            self.keys(name, by)
            endpoint = self.catalog.endpoint(name)
            _require_own(by, endpoint)
            changed = replace(endpoint.secrets, **{key_type: _new_key()})
            self.catalog.put_endpoint(replace(endpoint, secrets=changed))
        self.changed.set()
        return EndpointKeys(changed.primary, changed.secondary)

    def token(self, name: str) -> EndpointToken:
        """Returns a token for an hour. Raises NotFoundError; RefusedError if the endpoint takes keys."""
        endpoint = self.catalog.endpoint(name)
        if endpoint.definition.auth_mode != "aml_token":
            what = f"the endpoint {name} takes keys, not tokens (auth_mode: {endpoint.definition.auth_mode})"
            raise RefusedError(what, fix=f"See them: drumbeat online-endpoint get-credentials {name}")
        expires = int(time.time()) + scoring_tokens.LIFETIME_S
        token = scoring_tokens.sign(name, bytes.fromhex(endpoint.secrets.token_key), expires)
        return EndpointToken(token, datetime.fromtimestamp(expires, UTC))

    # --- deployments ------------------------------------------------------------------------------------------
    def deployments(self, endpoint: str) -> list[DeploymentView]:
        """Returns the deployments of an endpoint, by name. Raises NotFoundError."""
        self.catalog.endpoint(endpoint)
        return [self._deployment_view(one) for one in self.catalog.deployments(endpoint)]

    def deployment(self, endpoint: str, name: str) -> DeploymentView:
        """Returns a deployment. Raises NotFoundError."""
        return self._deployment_view(self.catalog.deployment(endpoint, name))

    def put_deployment(self, definition: OnlineDeployment, by: Principal) -> tuple[DeploymentView, bool]:
        """Creates a deployment, or changes the one of its name. Returns it, and whether it is new.

        The same content changes nothing; other numbers of instances and limits of requests start no replica again; a
        new generation replaces the replicas one by one. Raises SpecError, RefusedError, NotFoundError; ForbiddenError
        where the endpoint is another user's; ConflictError while the deployment or its endpoint is being deleted.
        """
        check_name(definition.name, "a deployment")
        _check_scale(definition.scale_settings)
        with self.lock:
            owner = self.catalog.endpoint(definition.endpoint_name)
            _require_own(by, owner)
            before = self.catalog.find_deployment(definition.endpoint_name, definition.name)
            if owner.is_deleting or (before and before.is_deleting):
                gone = "endpoint" if owner.is_deleting else "job"
                what = f"the {gone} of deployment {definition.name} is being deleted"
                raise ConflictError(what, fix="Wait until it is gone.")
            runs = pinned(definition, owner.definition, self._models, self._planner)
            stored = self._next(before, definition, runs, by.user)
            request = self._replicas.request(runs, f"{stored.job}_0")
            _, example = self._planner.plan(request)
            self.catalog.put_deployment(stored)
            job = self.job(stored)
            if job is None:
                wanted = first_wanted(definition)
                made, event = new_deployment(stored, example, wanted, self._loop.clock.now())
                submission = Submission(f"deployment/{stored.job}", made, request.document, (event,), (), request)
                self._loop.call(lambda: self._jobs.write(submission))
                self._loop.tell(stored.job, asked(stored, wanted))
        self.changed.set()
        return self._deployment_view(stored), before is None

    def _next(
        self, before: StoredDeployment | None, definition: OnlineDeployment, runs: OnlineDeployment, user: str
    ) -> StoredDeployment:
        """Returns a deployment as it is after a change."""
        job = self.job(before) if before else None
        if before is None or job is None or job.state is not State.RUNNING:
            name = invent_name(f"{definition.endpoint_name}-{definition.name}")
            generation = before.generation + 1 if before else 1
            created = before.created_at if before else datetime.now(UTC)
            return StoredDeployment(definition, name, created, generation, {str(generation): runs}, user)
        current = before.generations[str(before.generation)]
        if content(current) == content(runs):
            return replace(before, definition=definition)
        generation = before.generation + 1
        serving = str(job.deployment.serving) if job.deployment else ""
        kept = {key: one for key, one in before.generations.items() if key == serving}
        return replace(
            before, definition=definition, generation=generation, generations={**kept, str(generation): runs}
        )

    def job(self, stored: StoredDeployment) -> Job | None:
        """Returns the parent job of a deployment; None = it isn't submitted, or was deleted."""
        with suppress(NotFoundError):
            return self._loop.record(stored.job).job
        return None

    def delete_deployment(self, endpoint: str, name: str, by: Principal) -> None:
        """Deletes a deployment; it is gone when its replicas are.

        Raises NotFoundError, ForbiddenError; ConflictError with traffic.
        """
        with self.lock:
            stored = self.catalog.deployment(endpoint, name)
            _require_own(by, self.catalog.endpoint(endpoint))
            owner = self.catalog.endpoint(endpoint).definition
            if owner.traffic.get(name) or owner.mirror_traffic.get(name):
                share = owner.traffic.get(name) or owner.mirror_traffic.get(name)
                what = f"the deployment {name} has {share} percent of the endpoint's traffic"
                raise ConflictError(what, fix="Give its traffic to another deployment first, or set it to 0.")
            self.catalog.put_deployment(replace(stored, is_deleting=True))
        self.changed.set()

    def logs(self, endpoint: str, name: str, lines: int) -> DeploymentLogs:
        """Returns the last lines of what the replicas of a deployment wrote. Raises NotFoundError."""
        stored = self.catalog.deployment(endpoint, name)
        job = self.job(stored)
        progress = job.deployment if job else None
        if job is None or progress is None:
            return DeploymentLogs("")
        names = [replica_name(job.name, one.number) for one in progress.replicas if one.state]
        if progress.failed == progress.generation:  # The one that failed says why.
            names.insert(0, progress.failure.partition(":")[0])
        elif not names and progress.next_number:  # The last one that ended.
            names = [replica_name(job.name, progress.next_number - 1)]
        parts: list[str] = []
        for each in names:
            text = "\n".join(self.log_tail(each, MAX_LOG_BYTES).splitlines()[-lines:])
            parts.append(f"==> {each} <==\n{text}\n" if len(names) > 1 else f"{text}\n")
        return DeploymentLogs("\n".join(parts))

    def _deployment_view(self, stored: StoredDeployment) -> DeploymentView:
        job = self.job(stored)
        progress = job.deployment if job else None
        return DeploymentView(
            stored.definition,
            _deployment_state(stored, job),
            stored.created_at,
            stored.generation,
            stored.job,
            len(progress.ready) if progress else 0,
            progress.wanted if progress else 0,
            job.sentence if job else "",
            stored.definition.notes,
        )


def _deployment_state(stored: StoredDeployment, job: Job | None) -> EndpointState:
    if stored.is_deleting:
        return "deleting"
    progress = job.deployment if job else None
    if job is None or progress is None:
        return "creating"
    if job.state is not State.RUNNING or progress.failed == progress.generation == stored.generation:
        return "failed"
    others = [one for one in progress.replicas if one.generation != stored.generation and not one.is_leaving]
    own = [one for one in progress.ready if one.generation == stored.generation]
    if progress.generation == stored.generation and not others and len(own) >= progress.wanted:
        return "ready"
    return "updating" if progress.serving else "creating"


def content(definition: OnlineDeployment) -> OnlineDeployment:
    """Returns what of a deployment makes a generation: what the replicas themselves run and are told."""
    concurrency = definition.request_settings.max_concurrent_requests_per_instance
    extension = DeploymentExtension()
    return replace(
        definition,
        instance_count=1,
        scale_settings=ScaleSettings(),
        request_settings=RequestSettings(max_concurrent_requests_per_instance=concurrency),
        readiness_probe=ProbeSettings() if not definition.inference_config else definition.readiness_probe,
        description="",
        tags={},
        properties={},
        notes=(),
        drumbeat=replace(definition.drumbeat, cold_start_s=extension.cold_start_s, retry=extension.retry),
    )


def first_wanted(definition: OnlineDeployment) -> int:
    """Returns how many replicas a deployment begins with."""
    scale = definition.scale_settings
    if scale.type == "default":
        return definition.instance_count
    return max(scale.min_instances, min(scale.max_instances, definition.instance_count))


def asked(stored: StoredDeployment, wanted: int, sentence: str = "") -> DeploymentAsked:
    """Returns what is asked of the parent job of a deployment."""
    return DeploymentAsked(stored.generation, wanted, sentence, ready_within_s(stored.definition), snapshots(stored))


def endpoint_route(stored: StoredEndpoint, deployments: Mapping[str, DeploymentRoute]) -> EndpointRoute:
    """Returns how requests for an endpoint are handled."""
    definition, secrets = stored.definition, stored.secrets
    return EndpointRoute(
        auth=definition.auth_mode,
        keys=(digest(secrets.primary), digest(secrets.secondary)),
        token_key=secrets.token_key,
        traffic={name: share for name, share in definition.traffic.items() if share and name in deployments},
        mirror={name: share for name, share in definition.mirror_traffic.items() if share and name in deployments},
        deployments=deployments,
    )


def _check_scale(scale: ScaleSettings) -> None:
    if scale.type == "target_utilization" and scale.min_instances > scale.max_instances:
        what = f"at least {scale.min_instances} instances, and at most {scale.max_instances}"
        raise SpecError(what, where="scale_settings.min_instances", fix="min_instances is not above max_instances.")


def _new_key() -> str:
    return secrets.token_urlsafe(32)


def _new_secrets() -> EndpointSecrets:
    return EndpointSecrets(_new_key(), _new_key(), secrets.token_hex(32))
