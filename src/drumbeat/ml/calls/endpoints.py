"""Online endpoints and their deployments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumbeat.jobfile.endpoints.deployment_keys import deployment_from
from drumbeat.jobfile.endpoints.endpoint_keys import endpoint_from
from drumbeat.ml.calls.operation import Operations, pages, unavailable
from drumbeat.ml.objects.endpoints import (
    EndpointAuthKeys,
    EndpointAuthToken,
    OnlineDeployment,
    OnlineEndpoint,
    changed_deployment,
    credentials_from,
    deployment_from_view,
    endpoint_from_view,
)
from drumbeat.ml.poller import LROPoller
from drumbeat.model.endpoints import KeyType
from drumbeat.model.errors import RefusedError, SpecError

KEY_TYPES: dict[str, KeyType] = {"primary": "primary", "secondary": "secondary"}


def _refuse_local(*, local: bool | None) -> None:
    if local:
        what = "drumbeat's endpoints are always of a server, which may run on this machine"
        raise unavailable(what, "Leave `local` out.")


def _note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr)


class OnlineEndpointOperations(Operations):
    """Online endpoints."""

    def list(self, *, local: bool = False) -> Iterator[OnlineEndpoint]:
        """Returns the endpoints, by name."""
        _refuse_local(local=local)
        return pages(endpoint_from_view(one) for one in self.client.online_endpoints())

    def get(self, name: str, *, local: bool = False) -> OnlineEndpoint:
        """Returns an endpoint."""
        _refuse_local(local=local)
        return endpoint_from_view(self.client.online_endpoint(name))

    def begin_create_or_update(self, endpoint: OnlineEndpoint, *, local: bool = False) -> LROPoller[OnlineEndpoint]:
        """Creates an endpoint, or changes the one of its name, for example how its requests are divided."""
        _refuse_local(local=local)
        keys = endpoint_from(endpoint.to_document())
        return LROPoller(endpoint_from_view(self.client.put_online_endpoint(keys, on_note=_note)))

    def begin_delete(self, name: str | None = None, *, local: bool = False) -> LROPoller[None]:
        """Deletes an endpoint with its deployments."""
        _refuse_local(local=local)
        if name is None:
            raise SpecError("name the endpoint to delete")
        self.client.delete_online_endpoint(name)
        self.client.wait_until_gone(name)
        return LROPoller(None)

    def get_keys(self, name: str) -> EndpointAuthKeys | EndpointAuthToken:
        """Returns the keys of an endpoint, or a token for an hour."""
        if self.client.online_endpoint(name).definition.auth_mode == "key":
            return credentials_from(self.client.online_endpoint_keys(name))
        return credentials_from(self.client.online_endpoint_token(name))

    def begin_regenerate_keys(self, name: str, *, key_type: str = "primary") -> LROPoller[None]:
        """Replaces one key; the other stays valid."""
        if str(key_type).lower() not in KEY_TYPES:
            raise SpecError(f"there is no key {key_type!r}", where="key_type", fix="It is `primary` or `secondary`.")
        self.client.renew_online_endpoint_key(name, KEY_TYPES[str(key_type).lower()])
        return LROPoller(None)

    def invoke(
        self,
        endpoint_name: str,
        *,
        request_file: str | None = None,
        deployment_name: str | None = None,
        input_data: str | None = None,
        params_override: Any = None,
        local: bool = False,
        **keys: Any,
    ) -> str:
        """Sends the content of a file to an endpoint, and returns the answer."""
        del params_override, keys
        _refuse_local(local=local)
        if request_file is None:
            raise SpecError("a request needs a body", where="request_file", fix="Name a file with it.")
        if input_data is not None:
            raise SpecError("input_data goes with batch endpoints", where="input_data", fix="Write request_file.")
        body = Path(request_file).read_bytes()
        return self.client.invoke_online_endpoint(endpoint_name, body, deployment=deployment_name or "").decode()


class OnlineDeploymentOperations(Operations):
    """Deployments of online endpoints."""

    def begin_create_or_update(
        self,
        deployment: OnlineDeployment,
        *,
        local: bool = False,
        vscode_debug: bool = False,
        skip_script_validation: bool = False,
        local_enable_gpu: bool = False,
        **keys: Any,
    ) -> LROPoller[OnlineDeployment]:
        """Creates a deployment, or changes the one of its name, and waits until its replicas answer.

        Raises RefusedError with the sentence of a deployment that isn't ready.
        """
        del vscode_debug, skip_script_validation, local_enable_gpu, keys
        _refuse_local(local=local)
        given = changed_deployment(deployment) or deployment_from(deployment.to_document())
        made = self.client.put_online_deployment(given, on_note=_note)
        for note in made.notes:
            _note(note)
        endpoint, name = made.definition.endpoint_name, made.definition.name
        now = self.client.wait_for_online_deployment(endpoint, name)
        if now.state == "failed":
            fix = f"See what it wrote: ml_client.online_deployments.get_logs({name!r}, {endpoint!r}, 100)"
            raise RefusedError(f"deployment {name} isn't ready: {now.sentence}", where=endpoint, fix=fix)
        return LROPoller(deployment_from_view(now))

    def get(self, name: str, endpoint_name: str, *, local: bool | None = False) -> OnlineDeployment:
        """Returns a deployment."""
        _refuse_local(local=local)
        return deployment_from_view(self.client.online_deployment(endpoint_name, name))

    def list(self, endpoint_name: str, *, local: bool = False) -> Iterator[OnlineDeployment]:
        """Returns the deployments of an endpoint, by name."""
        _refuse_local(local=local)
        return pages(deployment_from_view(one) for one in self.client.online_deployments(endpoint_name))

    def begin_delete(self, name: str, endpoint_name: str, *, local: bool | None = False) -> LROPoller[None]:
        """Deletes a deployment, which must have no traffic."""
        _refuse_local(local=local)
        self.client.delete_online_deployment(endpoint_name, name)
        self.client.wait_until_gone(endpoint_name, name)
        return LROPoller(None)

    def get_logs(
        self,
        name: str,
        endpoint_name: str,
        lines: int,
        *,
        container_type: str | None = None,
        local: bool = False,
    ) -> str:
        """Returns the last lines that the replicas wrote; what fetched the model writes none here."""
        _refuse_local(local=local)
        if container_type not in (None, "inference-server"):
            return ""
        return self.client.online_deployment_logs(endpoint_name, name, lines=lines)
