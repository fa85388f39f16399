"""Jobs to write into stores: small ones by the dozen, and one with a value in every field."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.events import JobEvent, StartGang, StopGang
from drumbeat.core.lifecycle.job import Failure, Job, Observed
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need, Slot
from drumbeat.model.agent import AgentStatus, Phase, RankExit
from drumbeat.model.plan import InputPlan, OutputPlan, Plan, Rank
from drumbeat.model.roster import Member, Roster
from drumbeat.model.states import Reason, State
from drumbeat.server.database.records import Change, Record, Submission

NOON = datetime(2031, 5, 6, 12, 0, 0, 123456, UTC)
SLOTS = (Slot(0, "box", 2, ("0", "1")), Slot(1, "box", 2, ("2", "3")))
START, STOP = StartGang(1, SLOTS), StopGang(1)


def sample_job(name: str, *, experiment: str = "default", compute: str = "local", parent: str = "") -> Job:
    """A job that was just accepted."""
    plan = Plan(name, experiment, "pytorch", 1, 1, "python train.py", (Rank(0, 0, 0),), compute=compute)
    return Job(name, plan, Need(1, 1), JobPolicy(), NOON, parent=parent)


def submission(
    name: str, *, key: str = "", experiment: str = "default", compute: str = "local", parent: str = ""
) -> Submission:
    """That job, with its first line of story."""
    job = sample_job(name, experiment=experiment, compute=compute, parent=parent)
    return Submission(key or f"key of {name}", job, {"command": "python train.py"}, (line("accepted"),))


def line(sentence: str, *, state: State = State.QUEUED, reason: Reason = Reason.ACCEPTED) -> JobEvent:
    """A line of a story, which tells of a hang."""
    return JobEvent(NOON, state, reason, sentence, attempt=1, round=2, since=NOON - timedelta(seconds=9))


def started(record: Record) -> Change:
    """The job's first attempt: slots taken, a gang to be started."""
    job = replace(record.job, state=State.PROVISIONING, reason=Reason.STARTING_NODES, attempt=1, slots=SLOTS, effects=1)
    return Change(job, record.version, events=(line("slots granted"),), effects=(START,), reserve=SLOTS)


def ended(record: Record, state: State = State.COMPLETED) -> Change:
    """The job's end, with nothing left to do."""
    job = replace(record.job, state=state, reason=Reason.FINISHED, ended_at=NOON)
    return Change(job, record.version, events=(line("over"),), release=(job.attempt,))


def full_job(name: str) -> Job:
    """A job with a value in every field, of every kind that a store has to carry."""
    member = Member(0, "gpu-12", "10.0.0.12", "/data/a b", "/data/ckpt", ("0",), 8, "hash")
    exits = (
        RankExit(1, None, 9, 1.5, 0, is_stopped=True, error="e", tail="last\nlines ü", memory_limit_mib=300),
        RankExit(0, 0, None, 2.5, 1),
    )
    status = AgentStatus(Phase.RUNNING, 3, member, 29500, exits, "running", "an error", lost=True)
    verdict = Verdict(Reason.RANK_KILLED, "rank 1 …", 1, 0, 137, "tail \u0000 \u2028", "Do this.", "train.py:3")
    plan = Plan(
        name,
        "Erfahrung",
        "pytorch",
        2,
        1,
        "python train.py",
        (Rank(0, 0, 0), Rank(1, 1, 0, "chief")),
        variables={"A": "1"},
        literals={"epochs": "3"},
        inputs=(InputPlan("data", "uri_folder", "file:///data", "ro_mount"),),
        outputs=(OutputPlan("model", "uri_folder", "upload"),),
        code="0" * 64,
        path_first=("/opt/bin",),
    )
    return Job(
        name,
        plan,
        Need(2, 4, 1, alone=True),
        JobPolicy(5, 1, 60.5),
        NOON,
        State.STOPPING,
        Reason.RANK_KILLED,
        "stopping",
        Observed("R", NOON),
        2,
        3,
        SLOTS,
        (status, None),
        Roster(2, 3, (member,), 29500),
        verdict,
        NOON + timedelta(seconds=30),
        NOON + timedelta(seconds=5),
        NOON,
        NOON + timedelta(hours=1),
        (Failure(1, 1, verdict, NOON),),
        (1,),
        ("gpu-3",),
        7,
        "display",
        "description",
        {"team": "a"},
        parent="sweep-1",
        user="ada",
        lacking=("gpu-7",),
    )
