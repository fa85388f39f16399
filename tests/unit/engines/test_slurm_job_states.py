"""Slurm's words, as its commands have printed them from 20.11 to 24.11."""

from __future__ import annotations

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.slurm import job_states, node_states
from drumbeat.engines.slurm.job_states import Stage

pytestmark = pytest.mark.feature("C4")


@pytest.mark.parametrize(
    ("printed", "word"),
    [
        ("RUNNING", "RUNNING"), ("R", "RUNNING"), ("PD", "PENDING"), ("CG", "COMPLETING"), ("OOM", "OUT_OF_MEMORY"),
        ("CANCELLED by 1000", "CANCELLED"), ("CANCELLED+", "CANCELLED"), ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "NODE_FAIL"), ("COMPLETED", "COMPLETED"), ("CD", "COMPLETED"), ("TIMEOUT", "TIMEOUT"),
        ("COMP+", "COMP"), ("NEW_WORD", "NEW_WORD"), ("", ""),
    ],
)  # fmt: skip
def test_state_is_parsed_from_output(printed: str, word: str):
    assert job_states.full_word(printed) == word


def test_unknown_state_changes_nothing():
    assert job_states.meaning("EXPEDITING") == job_states.UNKNOWN
    assert job_states.UNKNOWN.stage is Stage.RUNS


def test_states_have_unique_abbreviations():
    assert len({one.short for one in job_states.JOB.values()}) == len(job_states.JOB)


@pytest.mark.parametrize(
    ("word", "loss"),
    [
        ("PREEMPTED", Loss.PREEMPTED), ("NODE_FAIL", Loss.LOST), ("BOOT_FAIL", Loss.LOST), ("TIMEOUT", Loss.TIMED_OUT),
        ("DEADLINE", Loss.TIMED_OUT), ("OUT_OF_MEMORY", Loss.OUT_OF_MEMORY), ("CANCELLED", Loss.CANCELED),
        ("FAILED", Loss.FAILED), ("COMPLETED", Loss.LOST), ("REVOKED", Loss.LOST),
    ],
)  # fmt: skip
def test_the_ends_of_a_job_are_kept_apart(word: str, loss: Loss):
    assert (job_states.meaning(word).stage, job_states.meaning(word).loss) == (Stage.OVER, loss)
    assert job_states.meaning(word).what


@pytest.mark.parametrize("word", ["PENDING", "CONFIGURING", "SUSPENDED", "STOPPED", "REQUEUED", "SPECIAL_EXIT"])
def test_waiting_job_has_no_missing_nodes(word: str):
    assert job_states.meaning(word).stage is Stage.WAITS


@pytest.mark.parametrize(
    ("state", "why", "unusable"),
    [
        ("idle", "none", ""), ("mixed", "none", ""), ("allocated", "none", ""), ("idle~", "none", ""),
        ("mix#", "none", ""), ("planned", "none", ""), ("reserved", "none", ""), ("completing", "none", ""),
        ("brand_new", "none", ""),
        ("down*", "Not responding", "it is down"), ("down", "bad fan", "it is down (bad fan)"),
        ("drained", "Low RealMemory", "it is drained (Low RealMemory)"), ("drng", "none", "it is being drained"),
        ("idle*", "none", "it doesn't answer Slurm"), ("maint", "week 12", "it is in maintenance (week 12)"),
        ("inval", "", "it doesn't match Slurm's configuration"),
    ],
)  # fmt: skip
def test_machine_state_shows_whether_it_is_usable(state: str, why: str, unusable: str):
    assert node_states.unusable(state, why) == unusable


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:01:00", 60), ("1-02:00:03", 93603), ("30:00", 1800), ("UNLIMITED", None), ("Partition_Limit", None)],
)
def test_times_are_read(text: str, seconds: int | None):
    assert job_states.seconds(text) == seconds
