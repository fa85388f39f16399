"""From what a user typed to a job: its name, the beginning of its name, or `@last`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from drumbeat.model.errors import NotFoundError
from drumbeat.model.plurals import list_first

if TYPE_CHECKING:
    from drumbeat.client import Client
    from drumbeat.model.api.jobs import JobWithEvents

LAST = "@last"
MAX_JOBS_SEARCHED = 1000
"""The newest jobs whose names are compared with a prefix: those without a parent first, then all."""
MAX_NAMED = 6


def find_job(client: Client, typed: str) -> JobWithEvents:
    """Returns the job. Raises NotFoundError when none or several match."""
    if typed == LAST:
        return client.get(_newest(client))
    try:
        return client.get(typed)
    except NotFoundError:
        parents = _parents(client, parent="")
        if not _meant(typed, parents):
            parents |= _parents(client)
        return client.get(pick(typed, parents))


def _parents(client: Client, *, parent: str | None = None) -> dict[str, str]:
    """Returns the newest jobs by name, and the parent of each."""
    return {job.name: job.parent for job in client.list(archived=True, limit=MAX_JOBS_SEARCHED, parent=parent)}


def _meant(typed: str, parents: Mapping[str, str]) -> list[str]:
    """Returns the jobs with this prefix: a sweep or pipeline stands for its trials and steps, which share it."""
    begun = {name: parent for name, parent in parents.items() if typed and name.startswith(typed)}
    return [name for name, parent in begun.items() if parent not in begun]


def _newest(client: Client) -> str:
    for job in client.list(archived=True, limit=1, parent=""):
        return job.name
    raise NotFoundError("there is no job yet", where=LAST, fix="Submit one: drumbeat run job.yml")


def pick(typed: str, parents: Mapping[str, str]) -> str:
    """Returns the one name with this prefix. parents: the parent of each job, "" = none."""
    matches = _meant(typed, parents)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NotFoundError(
            f"{len(matches)} jobs begin with {typed!r}: {list_first(matches, MAX_NAMED)}",
            fix="Type more of the name.",
        )
    from difflib import get_close_matches

    close = get_close_matches(typed, parents, n=1)
    fix = f"The nearest is {close[0]}." if close else "See them with: drumbeat list --all"
    raise NotFoundError(f"no job named {typed!r}, and none whose name starts with it", fix=fix)
