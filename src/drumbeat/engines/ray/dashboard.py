"""Requests to a Ray cluster's dashboard: jobs, packages, and the state of actors, nodes and placement groups.

Paths and answers are those of Ray 2.60's job API (version 4) and state API (v0); errors are translated to drumbeat's.
"""

from __future__ import annotations

import hashlib
import io
import ssl
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError

Json = dict[str, Any]
Listed = Literal["actors", "nodes", "placement_groups"]
Filter = tuple[str, Literal["=", "!="], str]
TIMEOUT_S, CONNECT_TIMEOUT_S = 20.0, 5.0
MAX_LISTED = 10_000
"""The most entries that the state API returns at once (RAY_MAX_LIMIT_FROM_API_SERVER)."""
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, ERROR = 401, 403, 404, 500
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""A fixed time of all entries, so that equal files make equal packages."""


class Dashboard:
    """The dashboard of one cluster. Thread-safe. transport: for tests. Raises DrumbeatError."""

    def __init__(self, spec: RayCompute, transport: httpx.BaseTransport | None = None) -> None:
        self._spec, self._transport = spec, transport
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()

    @property
    def server(self) -> tuple[str, int]:
        """Host and port of the dashboard."""
        place = urlsplit(self._spec.address)
        return place.hostname or "", place.port or (443 if place.scheme == "https" else 80)

    # --- jobs -------------------------------------------------------------------------------------------------
    def session(self) -> str:
        """The name of the cluster's session. A new session is a new cluster that remembers nothing."""
        return str(self._call("GET", "/api/version").json().get("session_name", ""))

    def jobs(self) -> dict[str, Json]:
        """All jobs that were submitted to the cluster, by submission id."""
        listed: list[Json] = self._call("GET", "/api/jobs/").json()
        return {one["submission_id"]: one for one in listed if one.get("submission_id")}

    def job(self, name: str) -> Json | None:
        """The job with this submission id, None if there is none."""
        response = self._call("GET", f"/api/jobs/{name}", also=NOT_FOUND)
        return None if response.status_code == NOT_FOUND else response.json()

    def submit(self, request: Mapping[str, object]) -> None:
        """Submits a job, unless one with the same submission id exists."""
        try:
            self._call("POST", "/api/jobs/", json=request)
        except DrumbeatError as error:
            if "already exists" not in error.what:
                raise

    def log(self, name: str) -> str:
        """The output of a job."""
        return str(self._call("GET", f"/api/jobs/{name}/logs").json().get("logs", ""))

    def stop_job(self, name: str) -> None:
        """Stops a waiting or running job; it ends a few seconds later."""
        self._call("POST", f"/api/jobs/{name}/stop", also=NOT_FOUND, json={})

    def delete_job(self, name: str) -> None:
        """Deletes the record of a job that is over."""
        self._call("DELETE", f"/api/jobs/{name}", also=NOT_FOUND)

    def upload(self, content: bytes) -> str:
        """Stores a package in the cluster unless it has it, and returns its URI. Ray removes it after its last use."""
        name = f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:32]}.zip"
        path = f"/api/packages/gcs/{name}"
        if self._call("GET", path, also=NOT_FOUND).status_code == NOT_FOUND:
            self._call("PUT", path, content=content)
        return f"gcs://{name}"

    # --- state ------------------------------------------------------------------------------------------------
    def listed(self, what: Listed, *filters: Filter) -> list[Json]:
        """The entries that the state API lists, in detail."""
        query: list[tuple[str, str | int]] = [("detail", "true"), ("limit", MAX_LISTED)]
        for key, predicate, value in filters:
            query += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", value)]
        answer: Json = self._call("GET", f"/api/v0/{what}", params=query).json()
        if not answer.get("result"):
            raise UnreachableError(f"the Ray dashboard can't list {what} right now: {answer.get('msg', '')[:300]}")
        return answer["data"]["result"]["result"]

    # --- requests ---------------------------------------------------------------------------------------------
    def _call(self, method: str, path: str, *, also: int = 0, **content: Any) -> httpx.Response:
        """The response. also: a status that counts as success."""
        try:
            response = self._connected().request(method, path, headers=self._token(), **content)
        except (httpx.HTTPError, OSError) as error:
            what = str(error) or type(error).__name__
            raise UnreachableError(f"the Ray dashboard at {self._spec.address} doesn't answer: {what}") from error
        if response.is_success or response.status_code == also:
            return response
        raise refusal(response.status_code, response.text, f"{method} {path}")

    def _token(self) -> dict[str, str]:
        """The header with the token, which is read for each request, because tokens are replaced."""
        if not self._spec.token_file:
            return {}
        try:
            token = Path(self._spec.token_file).expanduser().read_text().strip()
        except OSError as error:
            what = f"the token can't be read: {error.strerror}: {self._spec.token_file}"
            raise EngineError(what, where="token_file", fix="The server's user must be able to read it.") from error
        return {"Authorization": f"Bearer {token}"}

    def _connected(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                self._client = httpx.Client(
                    base_url=self._spec.address.rstrip("/"),
                    headers=self._spec.headers,
                    timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
                    verify=self._verification(),
                    transport=self._transport,
                )
            return self._client

    def _verification(self) -> ssl.SSLContext | bool:
        if not self._spec.ca_file:
            return True
        try:
            return ssl.create_default_context(cafile=str(Path(self._spec.ca_file).expanduser()))
        except OSError as error:
            what = f"the certificates can't be read: {error}: {self._spec.ca_file}"
            raise EngineError(what, where="ca_file", fix="Set a PEM file.") from error

    def close(self) -> None:
        """Closes the connection; a later request opens another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def package(files: Mapping[str, bytes]) -> bytes:
    """A Ray package: a zip whose files only their owner can read where Ray unpacks them."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o100600 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return written.getvalue()


def refusal(status: int, text: str, request: str) -> DrumbeatError:
    """The error for a response: UnreachableError where it is transient, else final."""
    line = _last_line(text) or f"HTTP {status}"
    if status in (UNAUTHORIZED, FORBIDDEN) and "authentication token" in text:
        fix = "`token_file` of the compute names a file with the cluster's token."
        return UnreachableError(f"Ray doesn't accept the server's token: {line}", fix=fix)
    if status >= ERROR:
        return UnreachableError(f"the Ray dashboard can't carry out {request} right now ({status}): {line}")
    return EngineError(f"Ray refused {request} ({status}): {line}")


def _last_line(text: str) -> str:
    """The last line: Ray answers with Python tracebacks, whose last line has the error."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
