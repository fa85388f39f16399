"""The calls of `Client` about online endpoints and their deployments."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx

from drumbeat.client.calls.data import BytesCallback, NoteCallback, UploadListener
from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.model import wire
from drumbeat.model.api.endpoints import (
    DeploymentLogs,
    DeploymentView,
    EndpointKeys,
    EndpointToken,
    EndpointView,
)
from drumbeat.model.endpoints import KeyType, OnlineDeployment, OnlineEndpoint
from drumbeat.model.errors import NotFoundError, RefusedError, UnreachableError

if TYPE_CHECKING:
    from drumbeat.client.deployment_files import GivenDeployment, GivenEndpoint

POLL_S = 0.5
EFFECT_TIMEOUT_S = 15.0
"""How long a change of an endpoint is waited for: a router starts in about a second."""
INVOKE_TIMEOUT_S = 200.0
"""More than the longest time limit of a request: the router answers before."""
DEPLOYMENT_HEADER = "azureml-model-deployment"
MAX_SHOWN = 2000


def _ignore(_: object) -> None:
    pass


def _endpoint(name: str) -> str:
    return f"/online-endpoints/{part(name)}"


def _deployment(endpoint: str, name: str) -> str:
    return f"{_endpoint(endpoint)}/deployments/{part(name)}"


class EndpointCalls:
    """A part of `Client`."""

    connection: Connection

    # --- endpoints --------------------------------------------------------------------------------------------
    def online_endpoints(self) -> list[EndpointView]:
        """The online endpoints, by name."""
        return views(EndpointView, self.connection.call("GET", "/online-endpoints"))

    def online_endpoint(self, name: str) -> EndpointView:
        """One of them. Raises NotFoundError."""
        return view(EndpointView, self.connection.call("GET", _endpoint(name)))

    def put_online_endpoint(
        self, endpoint: GivenEndpoint | OnlineEndpoint, *, sets: Sequence[str] = (), on_note: NoteCallback = _ignore
    ) -> EndpointView:
        """Creates an endpoint, or changes the one of its name, whose keys stay: the path of a file, or one made here.

        Returns once requests are handled by it, but after `EFFECT_TIMEOUT_S` at most. sets: `key=value`, changed in the
        file before it is read. Raises SpecError; RefusedError for traffic to a deployment that isn't there.
        """
        from drumbeat.client.deployment_files import written_endpoint

        if not isinstance(endpoint, OnlineEndpoint):
            endpoint, notes = written_endpoint(endpoint, sets)
            for note in notes:
                on_note(note)
        answer = self.connection.call("PUT", _endpoint(endpoint.name), json=wire.to_wire(endpoint))
        made, deadline = view(EndpointView, answer), time.monotonic() + EFFECT_TIMEOUT_S
        while made.state in ("creating", "updating") and time.monotonic() < deadline:
            time.sleep(POLL_S / 5)
            made = self.online_endpoint(endpoint.name)
        return made

    def set_online_traffic(
        self, name: str, traffic: dict[str, int] | None = None, mirror: dict[str, int] | None = None
    ) -> EndpointView:
        """Divides the requests among deployments, in percent. None = as it is. Raises NotFoundError, SpecError."""
        before = self.online_endpoint(name).definition
        changed = replace(
            before,
            traffic=before.traffic if traffic is None else traffic,
            mirror_traffic=before.mirror_traffic if mirror is None else mirror,
        )
        return self.put_online_endpoint(changed)

    def delete_online_endpoint(self, name: str) -> None:
        """Deletes an endpoint with its deployments. Raises NotFoundError."""
        self.connection.call("DELETE", _endpoint(name))

    def online_endpoint_keys(self, name: str) -> EndpointKeys:
        """The keys of an endpoint with `auth_mode: key`. Raises NotFoundError, RefusedError."""
        return view(EndpointKeys, self.connection.call("GET", f"{_endpoint(name)}/keys"))

    def renew_online_endpoint_key(self, name: str, key_type: KeyType) -> EndpointKeys:
        """Replaces one key of an endpoint; the other stays valid. Raises NotFoundError, RefusedError."""
        return view(EndpointKeys, self.connection.call("POST", f"{_endpoint(name)}/keys/{part(key_type)}"))

    def online_endpoint_token(self, name: str) -> EndpointToken:
        """A token for an hour, of an endpoint with `auth_mode: aml_token`. Raises NotFoundError, RefusedError."""
        return view(EndpointToken, self.connection.call("POST", f"{_endpoint(name)}/token"))

    def invoke_online_endpoint(
        self,
        name: str,
        body: bytes,
        *,
        deployment: str = "",
        content_type: str = "application/json",
        timeout_s: float = INVOKE_TIMEOUT_S,
    ) -> bytes:
        """Sends a request to an endpoint with its key or a token, and returns the answer's body.

        deployment: which one answers; "" = by the endpoint's traffic. Raises NotFoundError, UnreachableError;
        RefusedError for an answer that isn't a success, with the status and the answer's text.
        """
        endpoint = self.online_endpoint(name)
        if endpoint.definition.auth_mode == "key":
            secret = self.online_endpoint_keys(name).primary
        else:
            secret = self.online_endpoint_token(name).access_token
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": content_type}
        if deployment:
            headers[DEPLOYMENT_HEADER] = deployment
        uri = endpoint.scoring_uri
        try:
            trust = replace(self.connection.where, ca=endpoint.ca).trust(uri)
            answer = httpx.post(uri, content=body, headers=headers, timeout=timeout_s, trust_env=False, verify=trust)
        except httpx.HTTPError as error:
            what = f"the endpoint {name} can't be reached: {error or type(error).__name__}"
            raise UnreachableError(
                what, where=uri, fix=f"See how it is: drumbeat online-endpoint show {name}"
            ) from None
        if not answer.is_success:
            raise _refusal(name, answer)
        return answer.content

    # --- deployments ------------------------------------------------------------------------------------------
    def online_deployments(self, endpoint: str) -> list[DeploymentView]:
        """The deployments of an endpoint, by name. Raises NotFoundError."""
        return views(DeploymentView, self.connection.call("GET", f"{_endpoint(endpoint)}/deployments"))

    def online_deployment(self, endpoint: str, name: str) -> DeploymentView:
        """One of them. Raises NotFoundError."""
        return view(DeploymentView, self.connection.call("GET", _deployment(endpoint, name)))

    def put_online_deployment(
        self,
        deployment: GivenDeployment | OnlineDeployment,
        *,
        sets: Sequence[str] = (),
        on_bytes: BytesCallback = _ignore,
        on_note: NoteCallback = _ignore,
    ) -> DeploymentView:
        """Creates a deployment, or changes the one of its name: the path of a file, or one made here.

        Local code, the files of a model and of an environment are sent first; a model with a name is registered. The
        call returns before the replicas answer: see `wait_for_online_deployment`. Raises SpecError, NotFoundError for
        the endpoint or the model.
        """
        from drumbeat.client.deployment_files import sent_deployment, written_deployment

        if not isinstance(deployment, OnlineDeployment):
            written = written_deployment(deployment, sets)
            self.online_endpoint(written.keys.endpoint_name)  # Before anything is uploaded.
            deployment = sent_deployment(written, self.connection, UploadListener(on_bytes, on_note))
        path = _deployment(deployment.endpoint_name, deployment.name)
        return view(DeploymentView, self.connection.call("PUT", path, json=wire.to_wire(deployment)))

    def wait_for_online_deployment(
        self, endpoint: str, name: str, *, on_change: Callable[[DeploymentView], None] = _ignore
    ) -> DeploymentView:
        """Waits until a deployment is ready, or has failed, and returns it.

        on_change: takes the view whenever it says something new.
        """
        shown = ""
        while True:
            now = self.online_deployment(endpoint, name)
            if (summary := f"{now.state} {now.ready} {now.wanted} {now.sentence}") != shown:
                shown = summary
                on_change(now)
            if now.state not in ("creating", "updating"):
                return now
            time.sleep(POLL_S)

    def scale_online_deployment(self, endpoint: str, name: str, instances: int) -> DeploymentView:
        """Sets the number of replicas of a deployment. Raises NotFoundError; RefusedError if it scales by use."""
        before = self.online_deployment(endpoint, name).definition
        if before.scale_settings.type != "default":
            what = f"{name} has as many replicas as their use asks for (scale_settings: target_utilization)"
            raise RefusedError(what, fix="Change `min_instances` and `max_instances` in its file, and update it.")
        return self.put_online_deployment(replace(before, instance_count=instances))

    def delete_online_deployment(self, endpoint: str, name: str) -> None:
        """Deletes a deployment. Raises NotFoundError; ConflictError while it has traffic."""
        self.connection.call("DELETE", _deployment(endpoint, name))

    def wait_until_gone(self, endpoint: str, deployment: str = "") -> None:
        """Waits until a deployment, or the whole endpoint, is deleted with its replicas."""
        while True:
            try:
                if deployment:
                    self.online_deployment(endpoint, deployment)
                else:
                    self.online_endpoint(endpoint)
            except NotFoundError:
                return
            time.sleep(POLL_S)

    def online_deployment_logs(self, endpoint: str, name: str, *, lines: int = 5000) -> str:
        """The last lines that the replicas of a deployment wrote. Raises NotFoundError."""
        answer = self.connection.call("GET", f"{_deployment(endpoint, name)}/logs", params={"lines": lines})
        return view(DeploymentLogs, answer).text


def _refusal(name: str, answer: httpx.Response) -> RefusedError:
    """The error of an answer that isn't a success: its status, and what it says."""
    text = answer.text[:MAX_SHOWN].strip()
    try:
        parsed: Any = json.loads(text)
        text = parsed.get("message") or parsed.get("error") or text if isinstance(parsed, dict) else text  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] (any JSON)
    except ValueError:
        pass
    status = f"{answer.status_code} {answer.reason_phrase}".strip()
    model = answer.headers.get("ms-azureml-model-error-statuscode")
    of_model = f" (the model answered {model})" if model else ""
    fix = "See what it wrote: drumbeat online-deployment get-logs" if model else ""
    return RefusedError(f"the endpoint {name} answered {status}{of_model}: {text}", fix=fix)
