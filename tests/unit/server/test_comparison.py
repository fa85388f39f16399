"""What a comparison of jobs says: all that differs, and the time that was lost, as the ledger counts it."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from drumbeat.core.ledger_times import Save
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.metrics import Point, Series
from drumbeat.model.states import Reason, State
from drumbeat.server.data.input_contents import local_content
from drumbeat.server.database.records import Record
from drumbeat.server.metrics.code_files import read_files
from drumbeat.server.metrics.comparison import Compared, compare, uneven
from tests.unit.core.jobs import START, a_job, at

pytestmark = pytest.mark.feature("M12")


def entry(second: float, state: State, round_: int = 1) -> JobEvent:
    return JobEvent(at(second), state, Reason.RANKS_RUNNING, "", 1, round_)


def lost_s(story: list[JobEvent], *, saves: Sequence[Save] = ()) -> object:
    job = replace(a_job(), started_at=START, ended_at=story[-1].at if story else None)
    view = compare([Compared(Record(job, 1, {}), story, (), saves)], at(99))
    return next(row.values[0] for row in view.outcomes if row.key == "lost_s")


RESTARTED = [
    entry(0, State.QUEUED),
    entry(5, State.RUNNING),
    entry(35, State.STOPPING),
    entry(40, State.RUNNING, 2),
    entry(99, State.COMPLETED, 2),
]


def test_round_that_failed_is_lost_until_its_ranks_have_ended() -> None:
    assert lost_s(RESTARTED) == 35


def test_work_before_a_checkpoint_is_not_lost() -> None:
    assert lost_s(RESTARTED, saves=[Save(at(25), timedelta())]) == 15


@pytest.mark.parametrize(
    "story",
    [[], [entry(0, State.QUEUED)], [entry(0, State.QUEUED), entry(5, State.RUNNING), entry(65, State.COMPLETED)]],
)
def test_job_without_a_failed_round_has_lost_nothing(story: list[JobEvent]) -> None:
    assert lost_s(story) == 0


def compared(job: Job, spec: Mapping[str, object] | None = None, **more: object) -> Compared:
    return Compared(Record(job, 1, dict(spec or {})), (), (), **more)  # pyright: ignore[reportArgumentType]


def differences(*jobs: Compared) -> dict[str, tuple[object, ...]]:
    return {f"{row.section}: {row.key}": row.values for row in compare(jobs, at(99)).differences}


def test_every_key_of_the_job_file_is_compared_but_those_shown_in_other_sections() -> None:
    one = {"environment_variables": {"LR": "1"}, "environment": "a", "inputs": {"x": 1}, "code": "."}
    other = {"environment_variables": {"LR": "2"}, "environment": "b", "inputs": {"x": 2}, "code": "..", "queue": "q"}
    assert differences(compared(a_job(), one), compared(a_job(), other)) == {
        "job file: environment_variables.LR": ("1", "2"),
        "job file: queue": (None, "q"),
    }


def test_contents_of_inputs_and_parameters_of_scripts_are_compared() -> None:
    one = compared(a_job(), contents={"data": "1 file, 5 bytes, aa"}, parameters={"lr": "0.1", "seed": "1"})
    other = compared(a_job(), contents={"data": "1 file, 5 bytes, bb"}, parameters={"lr": "0.2", "seed": "1"})
    assert differences(one, other) == {
        "inputs: data: content": ("1 file, 5 bytes, aa", "1 file, 5 bytes, bb"),
        "parameters: lr": ("0.1", "0.2"),
    }


def archive(**files: bytes) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    stream.seek(0)
    return stream


def test_files_of_the_code_that_differ_are_named_with_their_lines() -> None:
    one = read_files(archive(train=b"a\nb\nc\n", same=b"x", gone=b"y", weights=b"\0"))
    other = read_files(archive(train=b"a\nB\nc\nd\ne\n", same=b"x", new=b"z", weights=b"\0\0"))
    assert differences(compared(a_job(), files=one), compared(a_job(), files=other)) == {
        "code: gone": ("as it is here", None),
        "code: new": (None, "only here"),
        "code: train": ("as it is here", "differs (+3 −1)"),
        "code: weights": ("as it is here", "differs"),
    }


def test_folders_are_compared_by_their_files_not_by_place_or_times(tmp_path: Path) -> None:
    for folder, text in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / folder / "sub").mkdir(parents=True)
        (tmp_path / folder / "sub/x").write_text(text)
    told = [local_content(str(tmp_path / folder), lambda _: True) for folder in "abc"]
    assert told[0] == told[1] != told[2]
    assert told[0].startswith("1 file, 1 bytes, ")
    with pytest.raises(FileNotFoundError):
        local_content(str(tmp_path / "a"), lambda _: False)


def test_metrics_of_jobs_of_different_lengths_are_compared_at_the_last_step_of_both() -> None:
    long, short = ([Point("loss", 1 / (n + 1), n, 0) for n in range(count)] for count in (5, 3))
    series = [[Series("loss", 0, len(points), points[-1], None, None)] for points in (long, short)]
    assert uneven(series) == ["loss"]
    assert uneven([series[0], series[0]]) == uneven([series[0], []]) == []
    jobs = [compared(a_job(), curves={"loss": points}) for points in (long, short)]
    rows = {row.key: row.values for row in compare(jobs, at(99)).outcomes}
    assert rows["loss at step 2"] == (1 / 3, 1 / 3)
