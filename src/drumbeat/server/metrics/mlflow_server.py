"""The HTTP client of the external MLflow server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx

from drumbeat.model.errors import NotFoundError, RefusedError, UnreachableError
from drumbeat.model.metrics import JsonObject
from drumbeat.server.metrics.mlflow_address import MlflowAddress

_TIMEOUT_S = 30.0
_LATER = frozenset({408, 429, 500, 502, 503, 504})
_PIECE = 1 << 20


class HttpMlflowServer:
    """Calls MLflow's REST API of another server. Thread-safe.

    Raises UnreachableError if the server doesn't answer or is unavailable, NotFoundError for missing things, and
    RefusedError with the server's message for other refusals.

    environ: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, as for MLflow's clients.
    """

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        if not url.startswith(("http://", "https://")):
            fix = "Use the form of MLFLOW_TRACKING_URI: --mlflow https://mlflow.example.org"
            what = "the URL of an MLflow server must begin with http:// or https://"
            raise RefusedError(what, where=MlflowAddress(url).shown, fix=fix)
        self.url = url.rstrip("/")
        self.address = MlflowAddress(url).shown.rstrip("/")
        """The URL without credentials."""
        token, user = environ.get("MLFLOW_TRACKING_TOKEN"), environ.get("MLFLOW_TRACKING_USERNAME")
        headers = {"Authorization": f"Bearer {token}"} if token and not user else {}
        auth = (user, environ.get("MLFLOW_TRACKING_PASSWORD", "")) if user else None
        self._http = httpx.Client(headers=headers, auth=auth, timeout=_TIMEOUT_S)

    def call(self, method: str, route: str, arguments: JsonObject) -> JsonObject:
        """Sends a request, and returns its response. route: below `/api/2.0/mlflow/`, such as `runs/create`."""
        url = f"{self.url}/api/2.0/mlflow/{route}"
        if method == "GET":
            return self._answer(self._http.build_request(method, url, params=arguments))
        return self._answer(self._http.build_request(method, url, json=arguments))

    def put_artifact(self, path: str, file: Path) -> None:
        """Uploads an artifact. path: the part after `mlflow-artifacts:/` in its URI."""
        url = f"{self.url}/api/2.0/mlflow-artifacts/artifacts/{quote(path)}"
        length = {"Content-Length": str(file.stat().st_size)}
        self._answer(self._http.build_request("PUT", url, content=_pieces(file), headers=length))

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def _answer(self, request: httpx.Request) -> JsonObject:
        try:
            answer = self._http.send(request)
        except httpx.HTTPError as error:
            raise UnreachableError(f"the MLflow server doesn't answer: {error}", where=self.address) from error
        body = _object(answer) if answer.content.strip() else {}  # MLflow 3 answers an upload with an empty body.
        if answer.is_success and body is not None:
            return body
        if answer.is_success or answer.is_redirect:  # From something in between, such as a proxy with a login page.
            what = f"the server isn't an MLflow server: HTTP {answer.status_code} without a JSON object"
            fix = "Check with curl what the URL answers to this server's credentials."
            raise UnreachableError(what, where=f"{self.address}: {request.url.path}", fix=fix)
        body = body or {}
        message = str(body.get("message") or answer.text[:300] or f"HTTP {answer.status_code}")
        if answer.status_code in _LATER:
            raise UnreachableError(f"the MLflow server is unavailable: {message}", where=self.address)
        kind = NotFoundError if body.get("error_code") == "RESOURCE_DOES_NOT_EXIST" else RefusedError
        raise kind(f"the MLflow server refuses: {message}", where=f"{request.method} {request.url.path}")


def _object(answer: httpx.Response) -> JsonObject | None:
    """Returns the JSON object of a response; None = it has none."""
    try:
        read: Any = answer.json()
    except ValueError:
        return None
    return cast("JsonObject", read) if isinstance(read, dict) else None


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE):
            yield piece
