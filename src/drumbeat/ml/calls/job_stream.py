"""Follows a job as Azure's client does: prints the lines of rank 0, and raises when the job has failed."""

from __future__ import annotations

import json
import sys

from drumbeat.client import Client
from drumbeat.ml.errors import JobException
from drumbeat.model.api.jobs import EventView, JobView, LogPiece
from drumbeat.model.states import JobKind, State


def stream(client: Client, name: str, page: str) -> None:
    """Prints what Azure's client prints, until the job is over. Raises JobException when it has failed."""
    head = f"RunId: {name}\nWeb View: {page}\n"
    sys.stdout.write(head)
    is_parent = client.get(name).type != JobKind.COMMAND
    try:
        for event in client.stream(name):
            match event:
                case LogPiece(rank=0):
                    sys.stdout.write(event.text)
                case EventView() if is_parent:
                    sys.stdout.write(f"{event.sentence}\n")
                case _:
                    continue
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        message = (
            f"The output streaming for the run interrupted.\nBut the job is still executing: drumbeat cancel {name}"
        )
        raise JobException(message, message) from error
    sys.stdout.write(f"\nExecution Summary\n=================\n{head}\n")
    sys.stdout.flush()
    ended = client.get(name)
    if ended.state == State.FAILED:
        raise JobException(
            f"Exception : \n {json.dumps(error_of(ended), indent=4)} ", "Exception raised on failed job."
        )


def error_of(job: JobView) -> dict[str, dict[str, str]]:
    """Returns why a job failed in Azure's form."""
    verdict = job.verdict
    message = " ".join(part for part in ((verdict.sentence, verdict.advice) if verdict else (job.sentence,)) if part)
    return {"error": {"code": "UserError", "message": message}}
