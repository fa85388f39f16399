"""The headers by which a request can be followed, as Azure's server takes and gives them."""

from __future__ import annotations

import os
import uuid

from drumbeat._version import __version__
from drumbeat.scoring.messages import HEADER_LIMIT, ScoringAnswer, ScoringRequest, error_answer

SERVER_VERSION = f"drumbeat/{__version__}"


def request_ids(request: ScoringRequest) -> list[tuple[str, str]] | ScoringAnswer:
    """The headers of ids for the answer; an answer of its own if an id is too long."""
    own = request.headers.get("x-request-id")
    own = own if own is not None else str(uuid.UUID(bytes=os.urandom(16), version=4))
    if len(own) > HEADER_LIMIT:
        return error_answer(431, f"x-request-id must not exceed {HEADER_LIMIT} characters")
    earlier, client = request.header("x-ms-request-id"), request.header("x-ms-client-request-id")
    if earlier:
        client = client or earlier
    else:
        earlier = client or own
    ids = [("x-request-id", own)]
    if len(earlier) > HEADER_LIMIT or len(client) > HEADER_LIMIT:
        answer = error_answer(
            431, f"x-ms-request-id and x-ms-client-request-id must not exceed {HEADER_LIMIT} characters"
        )
        answer.headers += ids
        return answer
    ids.append(("x-ms-request-id", earlier))
    if client:
        ids.append(("x-ms-client-request-id", client))
    if "traceid" in request.headers:
        ids.append(("TraceId", request.headers["traceid"]))
    return ids
