"""The audit log of a server: a line for each request that changes something, with the user and its outcome.

Jobs have lines, too, for what they change of models and experiments, and for what they may not change.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from drumbeat.server.access import permissions

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

    from drumbeat.model.principal import Principal

log = logging.getLogger("drumbeat.audit")

MAX_PATH = 500
_CONTENT = re.compile(r"/api/v1/(storage|snapshots)/.*|/blob/.*|/mlflow/.*(/log-|/mlflow-artifacts/).*", re.DOTALL)
"""Addresses of content and metrics, of which one command sends thousands."""
_WITH_QUERY = ("/api/v1/experiments/", "/api/v1/tokens/")
"""Addresses whose query says what is changed."""
OF = "changes_of"
"""The key in a request's state of the user whose job it changes, if that is another one."""
_SENDING = ("PUT", "POST", "PATCH")


def is_noted(scope: Scope) -> bool:
    """Whether the request is written to the audit log."""
    method, path = scope.get("method", "CONNECT"), scope["path"]
    is_upload = method in _SENDING and _CONTENT.fullmatch(path)
    return not is_upload and not permissions.is_reading(method, path)


def noted(send: Send, scope: Scope, principal: Principal) -> Send:
    """Wraps `send`, so that it also writes the line when the response's status is sent."""

    async def send_noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            note(scope, principal, message["status"])
        await send(message)

    return send_noted if is_noted(scope) else send


def note(scope: Scope, principal: Principal, status: int) -> None:
    """Writes the line of a request."""
    _write(f"{principal.user} {principal.role}", scope, status, scope.get("state", {}).get(OF, ""))


def note_node(job: str, node: int, scope: Scope, status: int) -> None:
    """Writes the line of a request that a job made with the secret of one of its nodes."""
    _write(f"job:{job}:{node} node", scope, status)


def note_sign_in(who: str, role: str, way: str, status: int) -> None:
    """Writes the line of a sign-in by the identity provider, or of its end. way: such as `/page`, or `/ended`."""
    name = quote(who[:MAX_PATH], safe="@+") or "-"
    log.info("%s %s SIGN-IN %s %d", name, role or "-", way, status)


def _write(who: str, scope: Scope, status: int, of: str = "") -> None:
    """Writes a line. The path is quoted, so that a name in it can't begin another line."""
    path = quote(scope["path"][:MAX_PATH])
    if scope["path"].startswith(_WITH_QUERY):
        query = quote(scope.get("query_string", b"").decode("latin-1")[:MAX_PATH], safe="=&%+/")
        path = f"{path}?{query}" if query else path
    of = f" of {of}" if of else ""
    log.info("%s %s %s %d%s", who, scope.get("method", "CONNECT"), path, status, of)
