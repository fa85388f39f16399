"""Builds the request that submits or plans a job: its document, and references to what was sent."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from drumbeat.client.connection import Connection
from drumbeat.client.job_upload import JobParcel, WrittenJob, default_experiment, with_properties
from drumbeat.model.api.requests import MAX_NOTES, JobRequest


def build_request(job: WrittenJob, connection: Connection, *, is_sending: bool) -> JobRequest:
    """Returns the request. is_sending: local files are sent first, unless the server has them; else they are only
    hashed.
    """
    if job.document.get("type") == "pipeline":
        return _pipeline(job, connection, is_sending=is_sending)
    if isinstance(job.document.get("trial"), str):
        return _sweep(job, connection, is_sending=is_sending)
    parcel = JobParcel(job, connection, is_sending=is_sending)
    document, code, inputs = parcel.document(), parcel.code(), parcel.inputs()
    environment = parcel.environment()
    notes = (*parcel.local_notes(), *parcel.followed)
    return JobRequest(
        document,
        uuid.uuid4().hex,
        job.source,
        default_experiment(job.base),
        code,
        inputs,
        environment,
        notes[:MAX_NOTES],
    )


def _pipeline(job: WrittenJob, connection: Connection, *, is_sending: bool) -> JobRequest:
    """A pipeline: what belongs to each step is sent beside what belongs to the whole.

    Its properties have the commit of the folder that it is written in, those of a step the commit of the step's code.
    """
    from drumbeat.client.git_commit import git_properties
    from drumbeat.client.step_files import send_parts

    sent = send_parts(job, connection, is_sending=is_sending)
    settings: dict[str, Any] = sent.document.get("settings") or {}
    compute = settings.get("default_compute") or sent.document.get("compute")
    own = {"inputs": sent.document.get("inputs"), "compute": compute}
    parcel = JobParcel(replace(job, document=own), connection, is_sending=is_sending)
    inputs = parcel.inputs()
    notes = (*parcel.local_notes(), *parcel.followed, *sent.notes)
    document = with_properties(sent.document, git_properties(job.base) if is_sending else {})
    return JobRequest(
        document, uuid.uuid4().hex, job.source, default_experiment(job.base), inputs=inputs,
        notes=notes[:MAX_NOTES], parts=sent.parts,
    )  # fmt: skip


def _sweep(job: WrittenJob, connection: Connection, *, is_sending: bool) -> JobRequest:
    """A sweep whose trial is a component: code and environment are the component's, inputs are the sweep's."""
    from drumbeat.client.component_files import FileOrigin, inline_trial

    origin = FileOrigin(job.base, job.source, job.text)
    document, of_trial = inline_trial(job.document, origin)
    sweep = replace(job, document=document)
    own = JobParcel(sweep, connection, is_sending=is_sending)
    inputs = own.inputs()
    if isinstance(document.get("trial"), str):
        return JobRequest(document, uuid.uuid4().hex, job.source, default_experiment(job.base), inputs=inputs)
    written = WrittenJob(document["trial"], of_trial.base, of_trial.source, of_trial.text, of_trial.keys)
    trial = JobParcel(written, connection, is_sending=is_sending)
    notes = (*trial.local_notes(), *own.followed)
    document = with_properties(document, trial.commit())
    return JobRequest(
        document, uuid.uuid4().hex, job.source, default_experiment(job.base), trial.code(), inputs, trial.environment(),
        notes[:MAX_NOTES],
    )  # fmt: skip
