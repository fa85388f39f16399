"""Refusals in MLflow's form: `{error_code, message}`.

MLflow's clients repeat a request for minutes after 408, 429, 500, 502, 503 and 504; a final refusal has another status.
"""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from drumbeat.protocol.errors import (
    AwayError,
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    SpecError,
    StaleError,
    StorageError,
    UnauthorizedError,
    UnreachableError,
)

INVALID = "INVALID_PARAMETER_VALUE"
MISSING = "RESOURCE_DOES_NOT_EXIST"
EXISTS = "RESOURCE_ALREADY_EXISTS"
NO_ROUTE = "ENDPOINT_NOT_FOUND"
NOT_IMPLEMENTED = "NOT_IMPLEMENTED"
DISABLED = "FEATURE_DISABLED"
DENIED = "PERMISSION_DENIED"
INTERNAL = "INTERNAL_ERROR"

_STATUSES = {
    INVALID: 400,
    MISSING: 404,
    EXISTS: 400,
    NO_ROUTE: 404,
    NOT_IMPLEMENTED: 501,
    DISABLED: 403,
    DENIED: 403,
    INTERNAL: 500,
}

_ERRORS: dict[type[DrumbeatError], tuple[str, int]] = {
    NotFoundError: (MISSING, 404),
    ConflictError: (EXISTS, 400),
    SpecError: (INVALID, 400),
    RefusedError: (INVALID, 400),
    ForbiddenError: (DENIED, 403),
    UnauthorizedError: ("UNAUTHENTICATED", 401),
    StaleError: ("RESOURCE_CONFLICT", 409),
    UnreachableError: ("TEMPORARILY_UNAVAILABLE", 503),
    AwayError: ("TEMPORARILY_UNAVAILABLE", 503),
    StorageError: (INTERNAL, 507),
    DrumbeatError: (INTERNAL, 500),
}
"""Code and status of each branch of the tree of errors."""

log = logging.getLogger("drumbeat.server")


class MlflowRefusal(Exception):
    """A request that isn't carried out. code: MLflow's word for it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def invalid(message: str) -> MlflowRefusal:
    """Returns the refusal of a request that isn't as the protocol says."""
    return MlflowRefusal(INVALID, message)


def missing(message: str) -> MlflowRefusal:
    """Returns the refusal of a request for something that doesn't exist."""
    return MlflowRefusal(MISSING, message)


def response(error: Exception) -> JSONResponse:
    """Returns the answer that tells an MLflow client of an error."""
    match error:
        case MlflowRefusal():
            return _response(error.code, error.message, _STATUSES.get(error.code, 400))
        case DrumbeatError():
            code, status = next(_ERRORS[cls] for cls in type(error).__mro__ if cls in _ERRORS)
            if status >= 500:
                log.warning("MLflow: %s", error)
            return _response(code, str(error), status)
        case HTTPException():
            return _response("BAD_REQUEST", str(error.detail), error.status_code)
        case _:
            log.error("a request of an MLflow client failed", exc_info=error)
            return _response(INTERNAL, f"the server has a defect here ({type(error).__name__})", 500)


def _response(code: str, message: str, status: int) -> JSONResponse:
    return JSONResponse({"error_code": code, "message": message}, status)
