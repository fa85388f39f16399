"""What each role may do in the API. Pure functions."""

from __future__ import annotations

import re

from drumbeat.model.errors import ForbiddenError
from drumbeat.model.principal import Principal, Role

READING = ("GET", "HEAD")

_READS = re.compile(
    r"/api/v1/(plan|storage/file|page/links|azure/sessions|models/[^/]+/versions/[^/]+/verify)"
    r"|/mlflow/(ajax-)?api/2\.0/mlflow/((experiments|runs|logged-models)/search|registered-models/get-latest-versions)"
    r"|/mlflow/v[12]\.0/subscriptions/.*/api/2\.0/mlflow/(experiments|runs)/search"
    r"|/subscriptions/.*/(listSecrets|listNodes|listKeys|getLogs)|/(history|data|modelregistry)/v1\.0/subscriptions/.*"
    r"/(rundata|batchGetResolvedUris|runs:query)",
    re.DOTALL,
)
"""Paths that change nothing; they use POST because their queries are long."""
_OWNERS = re.compile(
    r"/api/v1/(tokens|quotas|notices)(/.*)?|/api/v1/(stop|retention|prune|idle-stop|mlflow-server)"
    r"|/api/v1/computes/[^/]+/price",
    re.DOTALL,
)
"""Paths on which only owners may make changes."""
_OWNERS_READ = ("/api/v1/audit",)
"""Paths that only owners may read."""
_OWN = ("/api/v1/token",)
"""Paths by which every caller ends their own token."""

_JOB = re.compile(
    r"/api/v1/jobs/(?P<own>[^/]+)(/.*)?"
    r"|/subscriptions/[^/]+/resourcegroups/[^/]+/providers/[^/]+/workspaces/[^/]+/jobs/(?P<azure>[^/]+)(/.*)?"
    r"|/history/v1\.0/subscriptions/.*/runs/(?P<run>[^/]+)(/.*)?",
    re.DOTALL | re.IGNORECASE,
)
"""Paths of a job; every request that changes a job has one of them."""

ASK = "An owner of the server can give another role: drumbeat token role NAME ROLE."


def is_reading(method: str, path: str) -> bool:
    """Whether a request with this method and path changes nothing."""
    return method in READING or (method == "POST" and _READS.fullmatch(path) is not None)


def refusal(principal: Principal, method: str, path: str) -> ForbiddenError | None:
    """Returns why this principal may not send a request; None = it may, if the job that it changes is its own."""
    if principal.role is not Role.OWNER and path in _OWNERS_READ:
        return ForbiddenError(f"{principal.user} is a {principal.role} here, and only owners may read this", fix=ASK)
    if principal.role is Role.OWNER or is_reading(method, path) or path in _OWN:
        return None
    if principal.role is Role.READER:
        return ForbiddenError(f"{principal.user} is a reader here, and readers change nothing", fix=ASK)
    if _OWNERS.fullmatch(path):
        return ForbiddenError(f"{principal.user} is a contributor here, and only owners may do this", fix=ASK)
    return None


def job_changed(method: str, path: str) -> str:
    """Returns the job that a request changes, "" = none. Contributors may change only their own."""
    match = None if is_reading(method, path) else _JOB.fullmatch(path)
    return next(filter(None, match.groupdict().values())) if match else ""
