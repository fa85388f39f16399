"""Why a gang is gone, by how its Slurm job ended."""

from __future__ import annotations

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.slurm.client import Ended
from drumbeat.engines.slurm.loss_reasons import judged

pytestmark = pytest.mark.feature("C4")
LIMIT = "reached Slurm's time limit of 02:00:00. Raise `time_limit` of the compute, or make the job shorter"


@pytest.mark.parametrize(
    ("ended", "loss", "why"),
    [
        (None, Loss.LOST, "is no longer known to Slurm"),
        (Ended("NODE_FAIL"), Loss.LOST, "lost a node (NODE_FAIL)"),
        (Ended("PREEMPTED"), Loss.PREEMPTED, "was preempted by Slurm"),
        (Ended("CANCELLED"), Loss.CANCELED, "was canceled in Slurm (scancel), not by drumbeat"),
        (Ended("CANCELLED", was_preempted=True), Loss.PREEMPTED, "was preempted by Slurm"),
        (Ended("TIMEOUT", 0, 7200, 7200), Loss.TIMED_OUT, LIMIT),
        (Ended("OUT_OF_MEMORY", 137), Loss.OUT_OF_MEMORY, "reached its memory limit in Slurm"),
        (Ended("FAILED", 1), Loss.FAILED, "failed"),
    ],
)
def test_slurm_state_determines_the_loss(ended: Ended | None, loss: Loss, why: str):
    assert judged(ended, 30, "") == (loss, why)


@pytest.mark.parametrize(
    ("ended", "loss"),
    [
        (Ended("FAILED", 143, 7200 - 85, 7200), Loss.TIMED_OUT),
        (Ended("COMPLETED", 143, 7200 - 10, 7200), Loss.TIMED_OUT),
        (Ended("FAILED", 143, 60, 7200), Loss.LOST),
        (Ended("FAILED", 143, 60, None), Loss.LOST),
        (Ended("FAILED", 143, 7200 - 10, 7200, was_preempted=True), Loss.PREEMPTED),
    ],
)
def test_nodes_that_were_told_to_stop_before_the_end_tell_why_by_when(ended: Ended, loss: Loss):
    """`--signal` comes the grace time, and up to a minute more, before the limit."""
    assert judged(ended, 30, "")[0] is loss


def test_last_output_of_a_job_excludes_slurms_own_lines():
    said = "drumbeat needs Python 3.11 or newer; /usr/bin/python3 is 3.9.2\nsrun: error: n1: task 0: Exited\n"
    loss, why = judged(Ended("FAILED", 1), 30, said)
    assert loss is Loss.FAILED
    assert why == "failed; its last output: drumbeat needs Python 3.11 or newer; /usr/bin/python3 is 3.9.2"


def test_a_program_that_isn_t_there_is_named():
    said = "slurmstepd: error: execve(): python9.9: No such file or directory\nsrun: error: n1: task 0: Exited\n"
    assert judged(Ended("FAILED", 2), 30, said)[1].endswith("execve(): python9.9: No such file or directory")


@pytest.mark.parametrize(
    "line",
    [
        "Task launch for StepId=1.0 failed on node n3: Communication connection failure",
        "Task launch for 1.0 failed on node n3: Socket timed out on send/recv operation",
        "Node failure on n3",
    ],
)
def test_a_node_that_didn_t_answer_the_launch_is_a_lost_one(line: str):
    loss, why = judged(Ended("FAILED", 1), 30, f"srun: error: {line}\nsrun: error: Timed out waiting for job step\n")
    assert (loss, why) == (Loss.LOST, f"lost a node: {line}")


def test_a_launch_that_is_refused_is_the_job_s_failure():
    said = "srun: error: Task launch for StepId=1.0 failed on node n3: Invalid job credential\n"
    assert judged(Ended("FAILED", 1), 30, said)[0] is Loss.FAILED
