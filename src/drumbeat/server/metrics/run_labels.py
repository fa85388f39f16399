"""The labels of a job as its MLflow run has them: its name, its note and its tags are the job's, in both directions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from drumbeat.core.lifecycle.events import LabelsChanged
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.labels import MAX_TAGS, MAX_TITLE, RESERVED
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import NOTE_TAG, MetricRecord, RunUpdated, TagDeleted, TagsSet, run_id
from drumbeat.model.mlflow_writes import MAX_TAG_VALUE, RUN_NAME
from drumbeat.server.loop.loop import Loop


class RunLabels:
    """Takes what MLflow's clients and scripts write to the run of a job over to the job. Thread-safe."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def note(self, job: str, records: Iterable[MetricRecord], by: str = "") -> None:
        """Changes the labels of a job as these records change its run. by: the user; "" = the job's own script."""
        event = labels_in(run_id(job), records, by)
        if event is None:
            return
        with contextlib.suppress(NotFoundError):
            tags = self._loop.record(job).job.tags
            room = MAX_TAGS - len(tags)
            new = [key for key, value in event.tags.items() if key not in tags and value is not None]
            for key in new[max(room, 0) :]:
                del event.tags[key]
            self._loop.tell(job, event)


def labels_in(run: str, records: Iterable[MetricRecord], by: str = "") -> LabelsChanged | None:
    """Returns what records change of the labels of a run's job; None = nothing."""
    title, note, tags = None, None, dict[str, str | None]()
    for record in records:
        if record.run != run:
            continue
        if isinstance(record, RunUpdated) and record.name:
            title = record.name
        for key, value in _tags(record):
            if key == RUN_NAME:
                title = value or title
            elif key == NOTE_TAG:
                note = value or ""
            elif not key.startswith(RESERVED):
                tags[key] = value
    if title is None and note is None and not tags:
        return None
    return LabelsChanged(title[:MAX_TITLE] if title else None, note, tags, by)


def _tags(record: MetricRecord) -> Iterator[tuple[str, str | None]]:
    if isinstance(record, TagsSet):
        yield from record.tags.items()
    elif isinstance(record, TagDeleted):
        yield record.key, None


def records_of(job: Job, change: LabelsChanged) -> list[MetricRecord]:
    """Returns the records that change the run of a job as its labels were changed."""
    run = run_id(job.name)
    tags = {key: value[:MAX_TAG_VALUE] for key, value in change.tags.items() if value is not None}
    removed = [key for key, value in change.tags.items() if value is None]
    records: list[MetricRecord] = []
    if change.display_name is not None:
        title = change.display_name or job.name
        records.append(RunUpdated(run, name=title))
        tags[RUN_NAME] = title
    if change.description:
        tags[NOTE_TAG] = change.description[:MAX_TAG_VALUE]
    elif change.description is not None:
        removed.append(NOTE_TAG)
    if tags:
        records.append(TagsSet(run, tags))
    return [*records, *(TagDeleted(run, key) for key in removed)]
