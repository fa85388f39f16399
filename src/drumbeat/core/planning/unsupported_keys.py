"""Keys of the dialect whose service this version doesn't have: each is refused in a sentence, at submit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drumbeat.dialect.data.paths import local_path
from drumbeat.dialect.job.job import CommandJob
from drumbeat.protocol.errors import Problem


def not_yet(job: CommandJob) -> Iterator[Problem]:
    """Everything that the job asks for and that would otherwise be ignored, in the order of the file."""
    yield from _of_job(job)


def _of_job(job: CommandJob) -> Iterator[Problem]:
    if job.code is not None and local_path(job.code) is None:
        yield _later(
            f"code from {re.sub(r'//[^/@]*@', '//', job.code)}", "code", "Clone or download it, and name the folder."
        )
    if job.identity is not None and getattr(job.identity, "type", "") != "user_identity":
        yield _later("identity", "identity", "Without it, the job runs as the person who started the server.")


def _later(what: str, where: str, fix: str) -> Problem:
    return Problem(f"this version of drumbeat doesn't have {what} yet", where, fix)
