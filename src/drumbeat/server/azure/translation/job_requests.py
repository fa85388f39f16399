"""Jobs of Azure's API as documents of the dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import RefusedError
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import without_nulls
from drumbeat.server.azure.translation.pipeline_requests import pipeline_document
from drumbeat.server.azure.translation.request_parts import (
    Assets,
    Table,
    Translated,
    common_keys,
    job_limits,
    run_keys,
    table,
)
from drumbeat.server.azure.translation.sweep_requests import sweep_document


def job_request(name: str, body: Mapping[str, Any], assets: Assets) -> JobRequest:
    """Returns the request for the job of a body. Raises RefusedError, SpecError, NotFoundError."""
    properties = table(body.get("properties"), "properties")
    kind = words.folded(properties.get("jobType"))
    make = {"command": _command, "sweep": sweep_document, "pipeline": pipeline_document}.get(kind)
    if make is None:
        fix = "Send a command, a sweep or a pipeline."
        raise RefusedError(f"drumbeat runs no jobs of type {str(properties.get('jobType'))[:40]!a}", fix=fix)
    made = make(properties, assets)
    document = {"type": kind, "name": name, **common_keys(properties, assets), **made.document}
    experiment = experiment_name(str(properties.get("experimentName") or "")) or "default"
    document["experiment_name"] = experiment
    return JobRequest(
        without_nulls(document), key=f"azure/{name}", source="job", experiment=experiment, code=made.code,
        parts=made.parts,
    )  # fmt: skip


def experiment_name(text: str) -> str:
    """Returns a name that an experiment may have here; the client takes the folder's, which may have dots."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:255]


def _command(properties: Table, assets: Assets) -> Translated:
    run = run_keys(properties, assets, "")
    limits = job_limits(properties.get("limits"), ("timeout",))
    return Translated({**run.document, **({"limits": limits} if limits else {})}, run.code)
