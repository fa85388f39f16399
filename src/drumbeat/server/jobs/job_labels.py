"""The service of labels: users change the display name, note and tags of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from drumbeat.core.lifecycle.events import LabelsChanged
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.labels import MAX_TAGS, RESERVED, tags_after
from drumbeat.model.api.requests import JobChange, Labels
from drumbeat.model.errors import ConflictError, Problem, SpecError
from drumbeat.model.metric_lines import storable_name
from drumbeat.model.principal import Principal
from drumbeat.server.database.records import Record
from drumbeat.server.loop.loop import Loop


class JobLabels:
    """Changes labels of jobs. Thread-safe.

    write_run: changes the run of a job as its labels were changed, if it has one.
    """

    def __init__(self, loop: Loop, write_run: Callable[[Job, LabelsChanged], None]) -> None:
        self._loop, self._write_run = loop, write_run

    def change(self, name: str, change: JobChange, by: Principal) -> Record:
        """Changes labels of a job as a user asks for it. Idempotent.

        Raises NotFoundError; SpecError for names of tags that can't be kept; ConflictError with both texts if what the
        user saw before isn't what the job has.
        """
        _require_tags(change.tags)
        event = LabelsChanged(change.display_name, change.description, dict(change.tags), by.title)
        self.apply(name, event, change.seen)
        return self._loop.store.load(name)

    def apply(self, name: str, event: LabelsChanged, seen: Labels | None = None) -> None:
        """Changes labels of a job, and of its run. The job comes first: who gets no answer repeats the request."""
        self._write_run(self._loop.call(lambda: self._changed(name, event, seen)), event)

    def _changed(self, name: str, event: LabelsChanged, seen: Labels | None) -> Job:
        job = self._loop.record(name).job
        if seen is not None and (conflicts := list(_conflicts(job, event, seen))):
            which = " and ".join(one.where for one in conflicts)
            what = f"{which} of job {name} changed after it was read"
            raise ConflictError(what, fix="Read it again, and change what it says now.", fields=tuple(conflicts))
        if len(tags_after(job.tags, event.tags)) > max(MAX_TAGS, len(job.tags)):
            raise SpecError(f"job {name} would have more than {MAX_TAGS} tags", where="tags")
        return self._loop.apply(name, event)


def _require_tags(tags: dict[str, str | None]) -> None:
    problems: list[Problem] = []
    for key, value in tags.items():
        try:
            storable_name(key, "tags")
        except ValueError as error:
            problems.append(Problem(str(error), "tags"))
        if value is not None and key.startswith(RESERVED):
            what = f"expected a tag that doesn't begin with {' or '.join(RESERVED)}, got {key}"
            problems.append(Problem(what, "tags", "These are MLflow's and drumbeat's own."))
    if problems:
        raise SpecError.from_problems(problems)


def _conflicts(job: Job, event: LabelsChanged, seen: Labels) -> Iterator[Problem]:
    """Yields what the event changes and is neither as the user saw it nor as the event leaves it."""
    for key, now, then, wanted in (
        ("display_name", job.display_name, seen.display_name, event.display_name),
        ("description", job.description, seen.description, event.description),
    ):
        if wanted is not None and then is not None and now not in (then, wanted):
            yield Problem(f"it says now {now!r}, and the change says {wanted!r}", key)
    for key, wanted in event.tags.items():
        now = job.tags.get(key)
        if key in seen.tags and now not in (seen.tags[key], wanted):
            yield Problem(f"it is now {now!r}, and the change says {wanted!r}", f"tags.{key}")
