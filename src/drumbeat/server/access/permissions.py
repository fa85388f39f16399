"""What each role may ask of the API: pure."""

from __future__ import annotations

import re

from drumbeat.model.errors import ForbiddenError
from drumbeat.model.principal import Principal, Role

READING = ("GET", "HEAD")

_READS = re.compile(
    r"/api/v1/(plan|storage/file|page/links)"
    r"|/mlflow/(ajax-)?api/2\.0/mlflow/((experiments|runs|logged-models)/search|registered-models/get-latest-versions)"
)
"""Addresses that change nothing although they are asked by POST, for what they are sent is long."""
_OWNERS = re.compile(
    r"/api/v1/(tokens|quotas|notices)(/.*)?|/api/v1/(stop|retention|prune|idle-stop|mlflow-server)", re.DOTALL
)
"""Addresses that only owners may change."""

_JOB = re.compile(r"/api/v1/jobs/([^/]+)(/.*)?", re.DOTALL)
"""Addresses of a job and what is below it: whatever changes it is asked there."""

ASK = "An owner of the server can give another role: drumbeat token remove NAME, then drumbeat token create NAME."


def is_reading(method: str, path: str) -> bool:
    """Whether such a request changes nothing."""
    return method in READING or (method == "POST" and _READS.fullmatch(path) is not None)


def refusal(principal: Principal, method: str, path: str) -> ForbiddenError | None:
    """Why this principal may not send such a request; None = it may, if the job that it changes is its own."""
    if principal.role is Role.OWNER or is_reading(method, path):
        return None
    if principal.role is Role.READER:
        return ForbiddenError(f"{principal.user} is a reader here, and readers change nothing", fix=ASK)
    if _OWNERS.fullmatch(path):
        return ForbiddenError(f"{principal.user} is a contributor here, and only owners may do this", fix=ASK)
    return None


def job_changed(method: str, path: str) -> str:
    """The job that such a request changes, "" = none: contributors change their own."""
    match = None if is_reading(method, path) else _JOB.fullmatch(path)
    return match[1] if match else ""
