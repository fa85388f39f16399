"""From a schedule as a user gives it to what the server takes: its document, and the request for its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drumbeat.client.job_request import build_request
from drumbeat.client.job_upload import Given, WrittenJob, written
from drumbeat.model.api.schedules import NewSchedule
from drumbeat.model.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.client.connection import Connection
    from drumbeat.jobfile.schedules.schedule import JobSchedule

    GivenSchedule = str | Path | Mapping[str, Any] | JobSchedule


@dataclass(frozen=True)
class WrittenSchedule:
    """A schedule that was read. job: None = an earlier job, which the server looks up."""

    model: JobSchedule
    source: str
    job: WrittenJob | None


def read_schedule(given: GivenSchedule, sets: Sequence[str] = (), *, has_job: bool = False) -> WrittenSchedule:
    """Returns a schedule, and the job that it names. Raises SpecError.

    given: the path of a file, from whose folder the path of a job's file counts, or a schedule made in Python. has_job:
    the server has its job, which isn't read.
    """
    from drumbeat.jobfile.schedules.schedule import load_schedule, schedule_from

    if isinstance(given, str | Path):
        base, source, model = Path(given).absolute().parent, str(given), load_schedule(given, sets)
    elif sets:
        what = "values are set in a file; this schedule was made in Python"
        raise SpecError(what, fix="Set them on the object.")
    else:
        base, source = Path.cwd(), "schedule"
        model = schedule_from(given) if isinstance(given, Mapping) else given
    return WrittenSchedule(model, source, None if has_job else _job(model.create_job, base, source))


def _job(create_job: Any, base: Path, source: str) -> WrittenJob | None:
    from drumbeat.jobfile.schedules.schedule import job_reference

    if job_reference(create_job):
        return None
    if isinstance(create_job, str):
        return _in_file(create_job, base, source)
    if not isinstance(create_job, Mapping):
        return written(create_job, Given())
    table = cast("Mapping[str, Any]", create_job)
    if isinstance(table.get("job"), str):
        updates = {key: value for key, value in table.items() if key != "job"}
        return _updated(_in_file(table["job"], base, source), updates, source)
    return _checked(WrittenJob(dict(table), base, f"{source}: create_job"))


def _in_file(path: str, base: Path, source: str) -> WrittenJob:
    place = base / Path(path).expanduser()
    if not place.exists():
        fix = f"Paths count from {base}. An earlier job is named `azureml:NAME`."
        raise SpecError(f"there is no job file at {path}", where=f"{source}: create_job", fix=fix)
    return written(place, Given())


def _updated(job: WrittenJob, updates: Mapping[str, Any], source: str) -> WrittenJob:
    from drumbeat.jobfile.schedules.schedule import with_updates

    kind = str(job.document.get("type") or "command")
    if updates.get("type", kind) != kind:
        what = f"`type: {updates['type']}` isn't the type of that job, which is {kind}"
        raise SpecError(what, where=f"{source}: create_job.type", fix=f"Write `type: {kind}`.")
    return _checked(replace(job, document=with_updates(job.document, updates), text=""))


def _checked(job: WrittenJob) -> WrittenJob:
    from drumbeat.client.environment_files import with_environments
    from drumbeat.jobfile import from_dict, to_dict

    return replace(job, document=with_environments(to_dict(from_dict(job.document, job.source)), job.base))


def schedule_request(schedule: WrittenSchedule, connection: Connection, *, is_new: bool) -> NewSchedule:
    """Returns what is sent to create a schedule, after the local files of its job. Raises what `submit` raises."""
    from drumbeat.jobfile.reading.writer import to_dict

    request = None
    if schedule.job is not None:
        request = replace(build_request(schedule.job, connection, is_sending=True), key="")
    return NewSchedule(to_dict(schedule.model), request, schedule.source, is_new)
