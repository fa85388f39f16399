"""The filter of lists of jobs: its conditions, its query parameters and its SQL.

A new condition is added here, in `Client.list` and in `drumbeat list`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Depends, Query
from sqlalchemy import or_

from drumbeat.model.states import Reason, State
from drumbeat.server.database.schema import jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement

    from drumbeat.server.database.records import Record


TAG = "tag:"
"""Begins a text that asks for a tag."""


@dataclass(frozen=True)
class JobFilter:
    """Selects a page of jobs, newest first. All conditions must hold."""

    states: tuple[State, ...] = ()
    """Jobs in any of these states; empty = in every state."""
    experiments: tuple[str, ...] = ()
    """Jobs that name any of these experiments; empty = of every experiment."""
    is_archived: bool | None = False
    """None = archived or not."""
    parent: str | None = None
    """Jobs of this sweep or pipeline; "" = jobs without a parent, None = both."""
    user: str | None = None
    """Jobs of this user; None = of all users."""
    reason: Reason | None = None
    """Jobs whose state has this reason; None = any."""
    text: str = ""
    """Jobs with this text, in any case, in one of the fields of `has_text`."""
    limit: int = 100
    after: str | None = None
    """The last job of the previous page."""

    @property
    def _tag(self) -> tuple[str, str | None] | None:
        return _tag(self.text)

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """Yields the conditions in SQL. That of the text lets jobs pass for which `has_text` is False."""
        if self.is_archived is not None:
            yield jobs.c.archived == self.is_archived
        if self.states:
            yield jobs.c.state.in_([state.value for state in self.states])
        if self.experiments:
            yield jobs.c.experiment.in_(self.experiments)
        if self.parent is not None:
            yield jobs.c.parent == self.parent
        if self.user is not None:
            yield jobs.c.person == self.user
        if self.reason is not None:
            yield jobs.c.reason == self.reason.value
        text = self.text if self._tag is None else self._tag[0]
        if _is_plain(text):
            # Escaped characters may include letters whose other case is ASCII.
            document = jobs.c.document
            yield or_(document.icontains(text, autoescape=True), document.contains("\\u"))

    def has_text(self, record: Record) -> bool:
        """Whether a job has the text in its name, display name, experiment, compute or tags.

        `tag:x` chooses jobs with a tag of this name, `tag:x=y` those where it has this value.
        """
        job, text = record.job, self.text.casefold()
        if self._tag is not None:
            name, value = self._tag
            tags = {key.casefold(): own.casefold() for key, own in job.tags.items()}
            return name in tags and value in (None, tags[name])
        words = (job.name, job.display_name, job.plan.experiment, job.plan.compute, *job.tags, *job.tags.values())
        return any(text in word.casefold() for word in words)


def _tag(text: str) -> tuple[str, str | None] | None:
    """Returns name and value of the tag that a text asks for, a value of None for any; None = it asks for no tag."""
    if not text.casefold().startswith(TAG) or len(text) == len(TAG):
        return None
    name, has_value, value = text.casefold().removeprefix(TAG).partition("=")
    return name, value if has_value else None


def _is_plain(text: str) -> bool:
    """Whether JSON contains the text without escapes."""
    return bool(text) and text.isascii() and text.isprintable() and not {'"', "\\"} & set(text)


PARENT = "Jobs of this sweep or pipeline; empty: jobs that are part of none; every job when absent."
USER = "Jobs of this user; empty: jobs whose user is unknown; of all users when absent."
ARCHIVED: dict[str, bool | None] = {"false": False, "true": True, "all": None}


def _from_query(
    *,
    state: Annotated[list[State], Query(description="Any of these; every state when absent.")] = [],  # noqa: B006 - FastAPI copies it
    experiment: str | None = None,
    archived: Literal["false", "true", "all"] = "false",
    parent: Annotated[str | None, Query(description=PARENT)] = None,
    person: Annotated[str | None, Query(description=USER)] = None,
    reason: Annotated[Reason | None, Query(description="Of this reason, such as `hanging`; any when absent.")] = None,
) -> JobFilter:
    """Returns the filter of a request. Its experiment is that of the request, not yet the names that jobs have."""
    experiments = (experiment,) if experiment else ()
    return JobFilter(tuple(state), experiments, ARCHIVED[archived], parent=parent, user=person, reason=reason)


RequestedJobs = Annotated[JobFilter, Depends(_from_query)]
