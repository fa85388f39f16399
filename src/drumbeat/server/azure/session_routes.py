"""The route of drumbeat's own API that opens the door for Azure's clients."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from fastapi import Request

from drumbeat.model.api.azure import AzureSession
from drumbeat.model.api.constraints import NO_OTHER_KEYS, limited
from drumbeat.model.errors import NotFoundError
from drumbeat.server.context import ContextOf, PrincipalOf, digest_of_caller
from drumbeat.server.routing import new_router

router = new_router("/api/v1/azure", tags=["azure"])

MAX_HOURS = 24 * 30


@dataclass(frozen=True)
class AzureSessionRequest:
    """How long a session for Azure's clients lasts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    hours: float = field(default=24.0, metadata=limited("Until the token expires.", gt=0, le=MAX_HOURS))


@router.post("/sessions", status_code=201)
def open_azure_session(
    body: AzureSessionRequest, context: ContextOf, request: Request, principal: PrincipalOf
) -> AzureSession:
    """Has the server listen for Azure's clients, and returns a token of the caller's for them, which expires."""
    if context.azure is None or context.azure_tokens is None:
        raise NotFoundError("this server doesn't listen for Azure's clients")
    token = context.azure_tokens.new_token(digest_of_caller(context, request), body.hours * 3600)
    url = context.azure.open(time.time() + body.hours * 3600)
    ends = datetime.fromtimestamp(token.ends, UTC)
    return AzureSession(url, context.azure.ca, token.text, ends, principal.user)
