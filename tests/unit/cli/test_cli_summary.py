"""The last lines of `run`."""

import pytest

from drumbeat.cli.follow.summary import exit_code_for, format_closing
from drumbeat.cli.terminal.styles import Ink
from drumbeat.model.api.jobs import OutputView
from tests.unit.cli.samples import a_failed_job, a_job, after, sample


def test_summary_of_a_completed_job_has_its_duration_and_its_files():
    assert format_closing(a_job(state="completed", ended_at=after(125), exit_code=0), Ink()) == [
        "completed in 2m 05s",
        "  logs     drumbeat logs mnist-7f3a",
        "  files    drumbeat download mnist-7f3a",
        "  more     drumbeat show mnist-7f3a",
    ]


@pytest.mark.feature("F1")
def test_summary_of_a_failed_job_names_rank_log_and_next_step():
    assert format_closing(a_failed_job(), Ink()) == [
        "failed after 12s: rank 3 on node 1 stopped with exit code 7: ValueError: no data",
        "  cause    rank 3 on node 1, exit code 7",
        "  the end of its log:",
        "  │ Traceback (most recent call last):",
        "  │   …",
        "  │ ValueError: no data\\x1b[2J",
        "  → Check inputs.data.",
        "  logs     drumbeat logs mnist-7f3a --rank 3",
        "  files    drumbeat download mnist-7f3a",
        "  more     drumbeat show mnist-7f3a",
    ]


def test_summary_of_a_canceled_job_says_so():
    assert format_closing(a_job(state="canceled", ended_at=after(3)), Ink())[0] == "canceled after 3.0s"


def test_colour_only_where_there_is_colour():
    shown = format_closing(a_job(state="completed", ended_at=after(3)), Ink(is_on=True))
    assert shown[0] == "\x1b[1;32mcompleted in 3.0s\x1b[0m"


def test_unpublished_output_is_in_the_summary_and_in_the_exit_code():
    refused = sample(OutputView, "model", "failed", "s3://b/p", problem="no permission to write")
    fine = sample(OutputView, "log", "in_place", "s3://b/log", files=1)
    job = a_job(state="completed", ended_at=after(3), exit_code=0, outputs=(refused, fine))
    assert format_closing(job, Ink())[:3] == [
        "completed in 3.0s",
        "  output model isn't in its place: no permission to write",
        f"  logs     drumbeat logs {job.name}",
    ]
    assert exit_code_for(job) == 1
    assert exit_code_for(a_job(state="completed", exit_code=0, outputs=(fine,))) == 0
    assert exit_code_for(a_job(state="failed", exit_code=7, outputs=(refused,))) == 7


def test_summary_of_a_delayed_output_has_the_next_step():
    held_up = sample(OutputView, "model", "under_way", "s3://b/p", problem="no answer")
    job = a_job(state="completed", ended_at=after(3), exit_code=0, outputs=(held_up,))
    assert format_closing(job, Ink())[1:4] == [
        "  output model isn't in its place yet: no answer; it is tried again",
        f"  → how it continues: drumbeat show {job.name}",
        f"  → to give it up: drumbeat cancel {job.name} --discard",
    ]
    assert exit_code_for(job) == 1
    assert job.progress.endswith("; output model isn't in its place yet: no answer; it is tried again")


@pytest.mark.parametrize(
    ("state", "code", "exits"),
    [("completed", 0, 0), ("failed", 7, 7), ("completed", None, 0), ("failed", None, 1), ("canceled", 143, 143)],
)
def test_exit_code_is_that_of_the_job(state: str, code: int | None, exits: int):
    assert exit_code_for(a_job(state=state, exit_code=code)) == exits
