"""Determines the notices of a job: for its end, and for its conditions. `server/loop/loop.py` calls it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from drumbeat.core.lifecycle.events import SendNotice
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError
from drumbeat.server.notices.notice_targets import NoticeTargets

log = logging.getLogger(__name__)


def end_notices(targets: NoticeTargets, job: Job) -> tuple[SendNotice, ...]:
    """Returns the notices for the end of a job. Trials and steps get none.

    Returns none, too, if the targets can't be read, because the job must end nevertheless.
    """
    wanted = job.policy.notify if job.state in job.policy.notify_on else ()
    try:
        documents = targets.documents()
        if job.parent or not (documents or wanted):
            return ()
        of_end = {name: one for name, one in documents.items() if job.state in one["on"]}
        return _addressed(targets, job, of_end, wanted)
    except (DrumbeatError, ValueError, KeyError):
        log.exception("the end of job %s is not reported", job.name)
        return ()


def condition_notices(targets: NoticeTargets, job: Job, sentence: str) -> tuple[SendNotice, ...]:
    """Returns the notices for a condition that a job has met. Of trials and steps, those that they name themselves get
    them.

    Returns none if the targets can't be read: the job's events have the sentence.
    """
    try:
        documents, wanted = targets.documents(), job.policy.notify
        if job.parent:
            documents = {name: one for name, one in documents.items() if name in wanted}
        return _addressed(targets, job, documents, wanted, sentence)
    except (DrumbeatError, ValueError, KeyError):
        log.exception("a condition of job %s is not reported", job.name)
        return ()


def _addressed(
    targets: NoticeTargets,
    job: Job,
    documents: Mapping[str, Mapping[str, Any]],
    wanted: tuple[str, ...],
    sentence: str = "",
) -> tuple[SendNotice, ...]:
    mail = targets.mail()
    notices = [
        SendNotice(job.attempt, mail, address, sentence=sentence) for address in wanted if "@" in address and mail
    ]
    for name, document in documents.items():
        if name in wanted or document["jobs"] == "all":
            notices.append(SendNotice(job.attempt, name, sentence=sentence))
    return tuple(notices)
