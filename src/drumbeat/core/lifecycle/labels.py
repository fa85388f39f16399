"""The display name, note and tags of a job: users and scripts change them at any time, also after its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from drumbeat.core.lifecycle.events import Decision, JobEvent, LabelsChanged
from drumbeat.core.lifecycle.job import Job

RESERVED = ("mlflow.", "drumbeat.")
"""Begin the tags of a run that are no labels of its job: MLflow's clients and drumbeat keep facts in them."""
MAX_TITLE = 255
"""Maximum length of a display name."""
MAX_TAGS = 200
"""Maximum number of tags of a job. Beyond it, those that scripts set are tags of its run alone."""
MAX_QUOTED = 200
"""Characters of a text that an event of the job quotes."""


def changed(job: Job, event: LabelsChanged, now: datetime) -> Decision:
    """Returns the job with these labels. What its own script changes is no event of the job."""
    after = replace(
        job,
        display_name=job.display_name if event.display_name is None else event.display_name,
        description=job.description if event.description is None else event.description,
        tags=tags_after(job.tags, event.tags),
    )
    if after == job or not event.by:
        return Decision(after)
    sentence = f"{event.by} {', '.join(_changes(job, after))}"
    return Decision(after, (), (JobEvent(now, job.state, job.reason, sentence, job.attempt, job.round),))


def tags_after(tags: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    """Returns tags after changes, of which None removes a tag."""
    whole = {**tags, **changes}
    return {key: value for key, value in whole.items() if value is not None}


def _changes(before: Job, after: Job) -> Iterator[str]:
    if after.display_name != before.display_name:
        yield f"renamed it to {after.display_name!r}" if after.display_name else "removed its display name"
    if after.description != before.description:
        yield f"wrote the note {_quoted(after.description)}" if after.description else "removed its note"
    for key, value in after.tags.items():
        if before.tags.get(key) != value:
            yield f"set the tag {key} to {_quoted(value)}"
    for key in before.tags:
        if key not in after.tags:
            yield f"removed the tag {key}"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED]}…")
