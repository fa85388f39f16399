"""The service of the requests of online endpoints: what deployments answer, and samples that users send."""

from __future__ import annotations

import http.client
import threading
import time

from drumbeat.core.child_jobs import replica_name
from drumbeat.model import scoring_tokens
from drumbeat.model.api.endpoint_requests import (
    DeploymentRequests,
    ReplicaRequests,
    RequestCurve,
    SampleAnswer,
    SampleRequest,
)
from drumbeat.model.errors import ForbiddenError, RefusedError, UnreachableError
from drumbeat.model.principal import Principal, Role
from drumbeat.server.endpoints.catalog import StoredDeployment, StoredEndpoint
from drumbeat.server.endpoints.online_endpoints import OnlineEndpoints
from drumbeat.server.endpoints.router_program import LOOPBACK, RouterProgram

MAX_SAMPLES = 8
"""How many samples are under way at once: each holds a thread of the server."""
SAMPLE_TIMEOUT_S = 60.0
MAX_ANSWER_BYTES = 256 << 10


class EndpointRequests:
    """Tells which requests deployments answer, and sends samples. Thread-safe."""

    def __init__(self, endpoints: OnlineEndpoints, router: RouterProgram | None) -> None:
        self._endpoints, self._router = endpoints, router
        self._samples = threading.BoundedSemaphore(MAX_SAMPLES)

    def list(self, endpoint: str = "", *, with_curves: bool = False) -> list[DeploymentRequests]:
        """Returns the deployments of an endpoint, or of all (""), by name. Raises NotFoundError."""
        if endpoint:
            self._endpoints.catalog.endpoint(endpoint)
        return [self._requests(one, with_curves=with_curves) for one in self._endpoints.catalog.deployments(endpoint)]

    def _requests(self, stored: StoredDeployment, *, with_curves: bool) -> DeploymentRequests:
        history = self._endpoints.requests
        latest = history.latest(stored.key)
        requests, errors = history.totals(stored.key)
        runs = stored.generations.get(str(stored.generation), stored.definition)
        return DeploymentRequests(
            self._endpoints.deployment(*stored.key),
            runs.model.path if runs.model else "",
            history.now(stored.key),
            requests,
            errors,
            latest.get("busy", 0),
            latest.get("waiting", 0),
            self._replicas(stored),
            history.curve(stored.key) if with_curves else RequestCurve(),
        )

    def _replicas(self, stored: StoredDeployment) -> tuple[ReplicaRequests, ...]:
        job = self._endpoints.job(stored)
        if job is None or job.deployment is None:
            return ()
        counted = self._endpoints.requests.latest(stored.key).get("replicas", {})
        names = [(replica_name(job.name, one.number), one) for one in job.deployment.replicas]
        return tuple(
            ReplicaRequests(
                name, one.state, one.generation, one.is_ready, one.sentence, counted.get(name, {}).get("busy", 0)
            )
            for name, one in names
        )

    def send_sample(self, endpoint: str, sample: SampleRequest, by: Principal) -> SampleAnswer:
        """Sends a request to an endpoint with its key, and returns the answer, whatever its status.

        Raises NotFoundError, ForbiddenError, UnreachableError; RefusedError while too many others are under way.
        """
        if by.role is Role.READER:
            raise ForbiddenError(
                f"{by.user} is a reader here, and requests take a replica's time", fix="Ask its owner."
            )
        stored = self._endpoints.catalog.endpoint(endpoint)
        if sample.deployment:  # It becomes a header.
            self._endpoints.catalog.deployment(endpoint, sample.deployment)
        if self._router is None:
            raise RefusedError("this server has no router, which online endpoints need")
        if not self._samples.acquire(blocking=False):
            raise RefusedError(f"{MAX_SAMPLES} other requests are being tried now", fix="Try again in a moment.")
        try:
            return _sent(self._router.port, stored, sample)
        finally:
            self._samples.release()


def _sent(port: int, stored: StoredEndpoint, sample: SampleRequest) -> SampleAnswer:
    name = stored.definition.name
    headers = {"Authorization": f"Bearer {_credential(stored)}", "Content-Type": "application/json"}
    if sample.deployment:
        headers["azureml-model-deployment"] = sample.deployment
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=SAMPLE_TIMEOUT_S)
    began = time.monotonic()
    try:
        connection.request("POST", f"/endpoints/{name}/score", sample.body.encode(), headers)
        answer = connection.getresponse()
        content = answer.read(MAX_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        what = f"the endpoint {name} can't be reached: {error or type(error).__name__}"
        raise UnreachableError(what, fix=f"See how it is: drumbeat online-endpoint show {name}") from None
    finally:
        connection.close()
    return SampleAnswer(
        answer.status,
        round(time.monotonic() - began, 4),
        content[:MAX_ANSWER_BYTES].decode(errors="replace"),
        answer.getheader("Content-Type", ""),
        answer.getheader("azureml-model-deployment", ""),
        is_whole=len(content) <= MAX_ANSWER_BYTES,
    )


def _credential(stored: StoredEndpoint) -> str:
    if stored.definition.auth_mode == "key":
        return stored.secrets.primary
    expires = int(time.time()) + scoring_tokens.LIFETIME_S
    return scoring_tokens.sign(stored.definition.name, bytes.fromhex(stored.secrets.token_key), expires)
