"""Determines the notices for the end of a job. `closing_effects` in `server/loop/loop.py` calls it."""

from __future__ import annotations

import logging

from drumbeat.core.lifecycle.events import SendNotice
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError
from drumbeat.server.notices.notice_targets import NoticeTargets

log = logging.getLogger(__name__)


def due_notices(targets: NoticeTargets, job: Job) -> tuple[SendNotice, ...]:
    """Returns the notices for the end of a job. Trials and steps get none.

    Returns none, too, if the targets can't be read, because the job must end nevertheless.
    """
    try:
        return _due(targets, job)
    except (DrumbeatError, ValueError, KeyError):
        log.exception("the end of job %s is not reported", job.name)
        return ()


def _due(targets: NoticeTargets, job: Job) -> tuple[SendNotice, ...]:
    documents = targets.documents()
    wanted = job.policy.notify if job.state in job.policy.notify_on else ()
    if job.parent or not (documents or wanted):
        return ()
    mail = targets.mail()
    notices = [SendNotice(job.attempt, mail, address) for address in wanted if "@" in address and mail]
    for name, document in documents.items():
        if job.state in document["on"] and (name in wanted or document["jobs"] == "all"):
            notices.append(SendNotice(job.attempt, name))
    return tuple(notices)
