"""Recognizes failed connections in the exceptions of store libraries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from drumbeat.model.connection_errors import reason_for_no_connection


def root_reason_for_no_connection(error: BaseException) -> str:
    """Returns why nothing answers at an address, from an error or its causes; "" = the error means something else."""
    return next((reason for one in with_causes(error) if (reason := reason_for_no_connection(one))), "")


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and its causes."""
    pending, seen = [error], set[int]()
    while pending:
        one = pending.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            pending.extend(_causes(one))


def _causes(error: BaseException) -> Iterator[BaseException]:
    # Azure's library stores the cause as `inner_exception`, urllib3 as `reason`, requests in `args`, and paramiko
    # stores one error per address in `errors`.
    errors = getattr(error, "errors", None)
    several = cast("Mapping[object, object]", errors).values() if isinstance(errors, Mapping) else ()
    cause = error.__cause__ or error.__context__
    for one in (cause, getattr(error, "inner_exception", None), getattr(error, "reason", None), *error.args, *several):
        if isinstance(one, BaseException):
            yield one
