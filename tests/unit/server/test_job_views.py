"""What the API says of a stored job beyond its own fields."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.child_jobs import SweepProgress, TrialProgress
from drumbeat.core.lifecycle.hang_response import slow_subject
from drumbeat.model.agent import Phase
from drumbeat.model.api.jobs import BestTrialView, JobView
from drumbeat.model.plan import OutputPlan
from drumbeat.model.states import State
from drumbeat.server.database.records import Record
from drumbeat.server.jobs.job_views import MAX_LISTED_NODES, job_view, listed_job
from tests.unit.core.jobs import RAISED, after, ended, killed, running, said

pytestmark = pytest.mark.feature("M3")


def view(job: object, **changes: object) -> JobView:
    return job_view(Record(replace(job, **changes), 1))  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownArgumentType]


def test_failed_job_sums_up_the_ranks_that_are_not_the_cause():
    stopped = replace(killed(0, 15), is_stopped=True), replace(killed(1, 15), is_stopped=True)
    job = after(
        running(max_retries=0),
        said(1, Phase.ENDED, exits=(ended(2, 1, tail=RAISED), ended(3, 0))),
        said(0, Phase.ENDED, exits=stopped),
    )
    verdict = view(job).verdict
    assert verdict is not None
    assert verdict.aftermath == (
        "rank 2 failed first; ranks 0 and 1 were stopped afterwards; rank 3 was done, with exit code 0"
    )


def test_list_has_the_nodes_of_no_job_of_thousands():
    job = running()
    large = replace(job, plan=replace(job.plan, nodes=MAX_LISTED_NODES + 1))
    assert listed_job(Record(job, 1)) == job_view(Record(job, 1))
    assert (listed_job(Record(large, 1)).nodes, len(job_view(Record(large, 1)).nodes)) == ((), len(job.nodes))


def test_slow_rank_is_shown_only_during_its_round():
    job = replace(running(), state=State.RUNNING)
    slow = replace(job, reported_subjects=(slow_subject(job),))
    assert [view(job).has_slow_rank, view(slow).has_slow_rank] == [False, True]
    assert not view(slow, round=slow.round + 1).has_slow_rank
    assert not view(slow, state=State.STOPPING).has_slow_rank


def test_sweep_has_a_best_trial_once_one_has_a_value():
    trials = tuple(TrialProgress(n, {}, State.COMPLETED, "", 1, best, best) for n, best in enumerate((0.3, 0.1, None)))
    progress = SweepProgress("minimize", "loss", 4, 2, trials=trials)
    assert view(running(), sweep=progress).best_trial == BestTrialView("job-1_1", "loss", 0.1)
    assert view(running(), sweep=replace(progress, trials=trials[2:])).best_trial is None
    assert view(running()).best_trial is None


def test_output_has_its_type():
    job = running()
    plan = replace(job.plan, outputs=(OutputPlan("model", "custom_model", "upload", asset="classifier"),))
    assert [(one.name, one.type) for one in view(job, plan=plan).outputs] == [("model", "custom_model")]
