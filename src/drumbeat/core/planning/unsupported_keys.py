"""Keys of the job file that this version can't serve: each is refused in a sentence, at submit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.data.paths import local_path
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.model.errors import Problem

_OF_AZURE = re.compile(r"(?:wasbs?|abfss?)://|https://[^/?]+\.(?:blob|dfs)\.core\.[^/?]+/(?!.*[?&]sig=)", re.IGNORECASE)
"""Addresses of Azure's stores without a signature."""


def not_yet(job: CommandJob) -> Iterator[Problem]:
    """Yields everything that the job asks for and that would otherwise be ignored, in the order of the file."""
    yield from _of_job(job)


def _of_job(job: CommandJob) -> Iterator[Problem]:
    if job.code is not None and local_path(job.code) is None:
        yield _later(
            f"code from {re.sub(r'//[^/@]*@', '//', job.code)}", "code", "Clone or download it, and name the folder."
        )
    needing = [*_inputs_by_identity(job)]
    if job.identity is not None and needing:
        what = f"an identity of Azure, with which inputs.{needing[0]} would be read"
        yield _later(what, "identity", "Make a datastore with credentials for it: drumbeat datastore create -f FILE")


def identity_notes(job: CommandJob) -> Iterator[str]:
    """Yields a note on the identity of a job with which no input is read."""
    if job.identity is not None:
        yield (
            f"identity {job.identity.type} changes nothing: the job runs as the user of its nodes, and data is read "
            "with the credentials of its datastore"
        )


def _inputs_by_identity(job: CommandJob) -> Iterator[str]:
    """Yields the inputs at addresses of Azure's stores: a datastore has credentials of its own."""
    for name, value in job.inputs.items():
        path = value.path if isinstance(value, Input) else None
        if path is not None and _OF_AZURE.match(path.strip()):
            yield name


def _later(what: str, where: str, fix: str) -> Problem:
    return Problem(f"this version of drumbeat doesn't have {what} yet", where, fix)
