"""Errors of the server in the form that MLflow's clients read: `{error_code, message}`."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from drumbeat.model.errors import (
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
from drumbeat.model.mlflow_calls import AWAY, DENIED, EXISTS, INTERNAL, INVALID, MISSING, MlflowRefusal

_ERRORS: dict[type[DrumbeatError], tuple[str, int]] = {
    NotFoundError: (MISSING, 404),
    ConflictError: (EXISTS, 400),
    SpecError: (INVALID, 400),
    RefusedError: (INVALID, 400),
    ForbiddenError: (DENIED, 403),
    UnauthorizedError: ("UNAUTHENTICATED", 401),
    StaleError: ("RESOURCE_CONFLICT", 409),
    UnreachableError: (AWAY, 503),
    AwayError: (AWAY, 503),
    StorageError: (INTERNAL, 507),
    DrumbeatError: (INTERNAL, 500),
}
"""Code and status of each class of errors."""

log = logging.getLogger("drumbeat.server")


def response(error: Exception) -> JSONResponse:
    """Returns the response for an error."""
    match error:
        case MlflowRefusal():
            return JSONResponse(error.body, error.status)
        case DrumbeatError():
            code, status = next(_ERRORS[cls] for cls in type(error).__mro__ if cls in _ERRORS)
            if status >= 500:
                log.warning("MLflow: %s", error)
            return _response(code, str(error), status)
        case HTTPException():
            return _response("BAD_REQUEST", str(error.detail), error.status_code)
        case _:
            log.error("a request of an MLflow client failed", exc_info=error)
            return _response(INTERNAL, f"internal error of the server ({type(error).__name__})", 500)


def _response(code: str, message: str, status: int) -> JSONResponse:
    return JSONResponse({"error_code": code, "message": message}, status)
