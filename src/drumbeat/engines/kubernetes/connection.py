"""Requests to a cluster's API as one user: the kubeconfig, credentials, time limits, and errors in drumbeat's words.

lightkube reads credentials and makes the HTTP client. Requests and answers are plain JSON: no models of Kubernetes'
objects, whose names change between versions of the libraries.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from drumbeat.engines.kubernetes.exec_plugin import Plugin, PluginTokens
from drumbeat.engines.kubernetes.kubeconfig import ChosenContext, chosen_context
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError

Json = dict[str, Any]
TIMEOUT_S, CONNECT_TIMEOUT_S = 15.0, 5.0
MERGE_PATCH = "application/merge-patch+json"
UNAUTHORIZED, FORBIDDEN, CONFLICT, TOO_MANY, ERROR = 401, 403, 409, 429, 500


class _Libraries:
    """lightkube and its HTTP library. They belong to an extra, so an installation may lack them."""

    def __init__(self) -> None:
        try:
            self.adapter: Any = import_module("lightkube.config.client_adapter")
            self.http: Any = import_module("httpx2")
        except ImportError as error:
            what = f"the server has no Kubernetes client: {error}"
            raise EngineError(what, where="type", fix="Install it: pip install 'drumbeat[kubernetes]'") from error


@dataclass(frozen=True)
class _Target:
    """The context and the namespace that the kubeconfig named first; its user may switch both while jobs run."""

    context: str
    namespace: str


class ClusterConnection:
    """The API of a cluster. Thread-safe; connects with the first request.

    After a 401, or when its plugin fails, the kubeconfig is read again for the credentials and the server's address of
    the context that it named first. Raises EngineError without the extra `kubernetes`.
    """

    def __init__(self, spec: KubernetesCompute) -> None:
        self._spec, self._libraries = spec, _Libraries()
        self._client: Any = None
        self._target: _Target | None = None
        self._server = ""
        """The URL of the API server of the last connection."""
        self._extensions: dict[str, str] = {}
        """The HTTP library's extensions of each request: the name in the server's certificate."""
        self._tokens: PluginTokens | None = None
        self._lock = threading.RLock()

    @property
    def namespace(self) -> str:
        """The namespace of the pods. Raises EngineError when the kubeconfig can't be read."""
        if self._spec.namespace:
            return self._spec.namespace
        return self._target.namespace if self._target else self._chosen().config.namespace

    @property
    def server(self) -> tuple[str, int]:
        """Host and port of the API server. Raises EngineError when the kubeconfig can't be read."""
        place = urlsplit(self._server or str(self._chosen().config.cluster.server))
        return place.hostname or "", place.port or 443

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        also: frozenset[int] = frozenset(),
    ) -> Json:
        """The API server's answer. also: status codes that count as success, with {} as the answer; of 409, only
        AlreadyExists.

        Raises EngineError, UnreachableError.
        """
        response = self._answer(method, path, body, query, "")
        if counts_as_success(response.status_code, _field(response, "reason"), also):
            return {}
        if response.is_success:
            return response.json()
        if response.status_code == UNAUTHORIZED:
            self.close()
        raise refusal(response.status_code, _message(response), f"{method} {path}")

    def _answer(self, method: str, path: str, body: object, query: object, refused: str) -> Any:
        client = self._connected()
        token = self._token(refused)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if method == "PATCH":
            headers["Content-Type"] = MERGE_PATCH
        try:
            response = client.request(
                method, path, json=body, params=query, headers=headers, extensions=self._extensions
            )
        except (self._libraries.http.HTTPError, OSError) as error:
            raise self._no_answer(error) from error
        if response.status_code == UNAUTHORIZED and token and not refused:
            return self._answer(method, path, body, query, token)
        return response

    def _token(self, refused: str) -> str:
        tokens = self._tokens
        try:
            return tokens.current(refused) if tokens else ""
        except DrumbeatError:  # The kubeconfig may name another plugin now.
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _no_answer(self, error: Exception) -> UnreachableError:
        host, port = self.server
        what = str(error) or type(error).__name__
        return UnreachableError(f"the Kubernetes API server at {host}:{port} doesn't answer: {what}")

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Any:
        chosen, http = self._chosen(), self._libraries.http
        config = chosen.config
        timeout = http.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        try:
            parameters = self._libraries.adapter.ConnectionParams(timeout=timeout, proxy=chosen.proxy)
            client = self._libraries.adapter.Client(config, parameters)
        # Errors of lightkube, ssl and the file system: something that the kubeconfig names is unusable.
        except Exception as error:
            raise self._unusable(error) from error
        plugin = _plugin(config)
        if plugin is None:
            self._tokens = None
        else:
            client.auth = None  # lightkube's own plugin support has neither v1 nor a time limit.
            if self._tokens is None or self._tokens.plugin != plugin:
                self._tokens = PluginTokens(plugin)
        self._server = str(config.cluster.server)
        self._extensions = {"sni_hostname": chosen.tls_name} if chosen.tls_name else {}
        return client

    def _chosen(self) -> ChosenContext:
        try:
            with self._lock:
                context = self._target.context if self._target else self._spec.context
                chosen = chosen_context(self._spec.kubeconfig or "", context)
                self._target = self._target or _Target(chosen.config.context_name, chosen.config.namespace)
                return chosen
        except Exception as error:  # Errors of yaml, msgspec and lightkube: the file is invalid.
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> EngineError:
        file = self._spec.kubeconfig or "the kubeconfig"
        what = f"{file} can't be used: {error.args[0] if isinstance(error, KeyError) else error}"
        return EngineError(what, where="kubeconfig", fix="`kubectl --kubeconfig FILE get pods` must work for its user.")


def _plugin(config: Any) -> Plugin | None:
    given = config.user.exec if config.user else None
    if given is None or not given.command:
        return None
    variables = {one.name: one.value for one in given.env or () if one.name}
    version = given.apiVersion or ""
    return Plugin(
        given.command, tuple(given.args or ()), {name: value or "" for name, value in variables.items()}, version
    )


def _message(response: Any) -> str:
    """The message of a refusal: that of its Status object, else the response's text."""
    return _field(response, "message") or response.text.strip()[:300] or f"HTTP {response.status_code}"


def _field(response: Any, key: str) -> str:
    """A field of a Status object, "" if it is missing."""
    try:
        return str(response.json()[key])
    except (ValueError, KeyError, TypeError):
        return ""


def counts_as_success(status: int, reason: str, also: frozenset[int]) -> bool:
    """Whether a refusal counts as success. reason: that of its Status object."""
    # A quota that was just changed is a conflict, too (reason Conflict); then nothing was created.
    return status in also and (status != CONFLICT or reason == "AlreadyExists")


def refusal(status: int, message: str, request: str) -> DrumbeatError:
    """The error for a refusal of the API server: UnreachableError where it is transient, else final."""
    if status == UNAUTHORIZED:
        fix = "Log in to the cluster again on the server's machine, as the server's user."
        return UnreachableError(f"Kubernetes doesn't accept the user's credentials: {message}", fix=fix)
    if status == CONFLICT:
        return UnreachableError(f"Kubernetes can't serve {request} right now: {message}")
    if status == TOO_MANY or status >= ERROR:
        return UnreachableError(f"the Kubernetes API server can't answer right now ({status}): {message}")
    if status == FORBIDDEN and "exceeded quota" in message:
        return UnreachableError(f"the namespace's quota is used up: {message}")
    if status == FORBIDDEN and "violates PodSecurity" in message:
        fix = "Set `user` in the compute's file; with it, pods satisfy the `restricted` standard."
        return EngineError(f"Kubernetes refused a pod: {message}", fix=fix)
    if status == FORBIDDEN and "is forbidden: User" in message:
        fix = "docs/kubernetes.md lists the permissions that drumbeat needs, as a file to apply."
        return EngineError(f"Kubernetes refused {request}: {message}", fix=fix)
    return EngineError(f"Kubernetes refused {request} ({status}): {message}")
