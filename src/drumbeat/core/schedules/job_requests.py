"""The request by which a schedule submits its job for one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from drumbeat.model.api.requests import MAX_NOTES, JobRequest

TAG = "drumbeat.schedule"
"""The tag of a schedule's jobs."""
TRIGGER_TIME = "creation_context.trigger_time"
_FILLED = ("inputs", "outputs")
"""The tables of a job in which a schedule's expressions are filled."""


def job_name(schedule: str, due: datetime) -> str:
    """Returns the name of the job of a time, such as `nightly-20261129T030000Z`."""
    return f"{schedule}-{due.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def job_request(request: JobRequest, schedule: str, due: datetime, key: str, note: str) -> JobRequest:
    """Returns the request for the job of a time. note: of the first entry in the job's history."""
    name = job_name(schedule, due)
    words = {"name": name, TRIGGER_TIME: f"{due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    document = {key: _filled(value, words) if key in _FILLED else value for key, value in request.document.items()} | {
        "name": name
    }
    document["tags"] = {**(cast("dict[str, Any]", document.get("tags") or {})), TAG: schedule}
    return replace(request, document=document, key=key, notes=(note, *request.notes)[:MAX_NOTES])


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, words) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_filled(one, words) for one in cast("list[Any]", value)]
    if isinstance(value, str):
        for word, text in words.items():
            for written in (f"${{{{{word}}}}}", f"${{{{ {word} }}}}"):
                value = value.replace(written, text)
    return value
