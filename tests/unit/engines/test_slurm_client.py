"""What Slurm's commands print, of several versions, as it is read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from drumbeat.engines.slurm.client import (
    Ended,
    Slurm,
    SlurmJob,
    clean,
    gpus_in,
    read_ended,
    read_jobs,
    read_nodes,
    read_owner,
)
from drumbeat.model.errors import EngineError, UnreachableError

pytestmark = pytest.mark.feature("C4")


def rows(*lines: str) -> str:
    return "".join(line.replace("|", "\x1f") + "\n" for line in lines)


def test_squeue_s_lines_are_read_and_others_passed_over():
    printed = rows(
        "17|PENDING||1:00:00|drumbeat-rack-ab12cd-a.1|Resources",
        "18|RUNNING|n[1-3]|UNLIMITED|drumbeat-rack-ab12cd-b.1|None",
        "19|CANCELLED by 0|(null)|10:00|x y|(null)",
        "20_[1-3]|PENDING||10:00|array|Priority",
        "slurm_load_jobs: a warning",
        "",
    )
    assert read_jobs(printed) == [
        SlurmJob("17", "PENDING", "drumbeat-rack-ab12cd-a.1", "Resources", "", "1:00:00"),
        SlurmJob("18", "RUNNING", "drumbeat-rack-ab12cd-b.1", "", "n[1-3]", "UNLIMITED"),
        SlurmJob("19", "CANCELLED", "x y", "", "", "10:00"),
    ]
    assert [job.state_and_reason for job in read_jobs(printed)[:2]] == ["PENDING (Resources)", "RUNNING"]


def test_sinfo_lists_each_machine_of_the_default_partition_once():
    printed = rows(
        "n1|10.0.0.1|main*|idle|96|515000|gpu:h100:8(S:0-1)|none",
        "n1|10.0.0.1|low|idle|96|515000|gpu:h100:8(S:0-1)|none",
        "n2|n2|main*|down*|96+|515000+|gpu:8|Not responding",
        "m1|m1|low|mixed|4|4000|(null)|none",
    )
    found = read_nodes(printed)
    assert [(one.name, one.state, one.cpus, one.memory_mib, one.gpus) for one in found] == [
        ("n1", "idle", 96, 515000, 8),
        ("n2", "down*", 96, 515000, 8),
    ]
    assert [one.name for one in read_nodes(printed.replace("*\x1f", "\x1f"))] == ["n1", "n2", "m1"]


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", 0), ("", 0), ("gpu:4", 4), ("gpu", 1), ("gpu:h100:8", 8), ("gpu:h100:8(S:0-1)", 8),
        ("gpu:a100:2,gpu:v100:2(S:0),nvme:1", 4), ("gpu:nvidia_a100_3g.20gb:2", 2), ("nogpu:3", 0), ("gpu:h100", 1),
        ("gpu:2080ti:4(S:0-1)", 4), ("gpu:4090:8", 8), ("gpu:3090:4(S:0)", 4), ("gpu:1g.10gb:7", 7), ("gpu:1080ti", 1),
        ("gpu:h100:8,gpu:1080ti:2", 10), ("gpu:4090:8,gpu:2", 10), ("gpu:4(S:0,2),gpu:3090:2(S:1,3),nvme:1", 6),
        ("gpu:2,nvme:4090:8", 2), ("gpu:12(S:0)", 12), ("shard:4090:8", 0), ("gpu:1g.10gb:7,gpu:2g.20gb:3", 10),
    ],
)  # fmt: skip
def test_gpus_are_counted(gres: str, gpus: int):
    assert gpus_in(gres) == gpus


SHOWN = {
    "20.11": "JobId=7 JobName=x UserId=u(1) Priority=1 Nice=0 QOS=normal JobState=TIMEOUT Reason=TimeLimit "
    "Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:15 RunTime=00:01:21 TimeLimit=00:01:00 "
    "TimeMin=N/A SubmitTime=2021-01-01T00:00:00 PreemptEligibleTime=2021-01-01T00:00:00 PreemptTime=None",
    "22.05": "JobId=7 JobName=drumbeat-rack-a-b.1 UserId=root(0) JobState=FAILED Reason=NonZeroExitCode Requeue=0 "
    "ExitCode=143:0 RunTime=00:00:31 TimeLimit=365-00:00:00 PreemptTime=None Comment=JobState=RUNNING mine",
    "23.11": "JobId=7 JobName=x JobState=PREEMPTED Reason=None ExitCode=0:0 RunTime=1-00:00:01 TimeLimit=UNLIMITED "
    "PreemptEligibleTime=2024-01-01T00:00:00 PreemptTime=2024-01-02T00:00:01 SegmentSize=0",
    "24.11": "JobId=7 JobName=x JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 RunTime=00:00:05 "
    "TimeLimit=Partition_Limit StepMgrEnabled=Yes OOMKillStep=0",
}


@pytest.mark.parametrize(
    ("version", "ended"),
    [
        ("20.11", Ended("TIMEOUT", 143, 81, 60)),
        ("22.05", Ended("FAILED", 143, 31, 365 * 86400)),
        ("23.11", Ended("PREEMPTED", 0, 86401, None, was_preempted=True)),
        ("24.11", Ended("OUT_OF_MEMORY", 253, 5, None)),
    ],
)
def test_end_of_a_job_is_read_from_scontrol(version: str, ended: Ended):
    assert read_ended(SHOWN[version]) == ended


def test_other_output_is_not_read_as_a_job():
    assert read_ended("slurm_load_jobs error: Invalid job id specified") is None
    assert read_owner("slurm_load_jobs error: Invalid job id specified") is None


@pytest.mark.parametrize(
    ("printed", "owner"),
    [
        (SHOWN["22.05"], ("drumbeat-rack-a-b.1", 0)),
        ("JobId=7 JobName=my own job UserId=u(1000) GroupId=g(1)", ("my own job", 1000)),
        ("JobId=7 JobName=a UserId=root(0) UserId=u(1000) GroupId=g(1)", ("a UserId=root(0)", 1000)),
        ("JobId=7 JobName=a UserId=(null)(1000) GroupId=g(1)", ("a", 1000)),
    ],
)
def test_whose_a_job_is_is_read_whatever_it_is_called(printed: str, owner: tuple[str, int]):
    assert read_owner(printed) == owner


def test_variables_that_change_options_are_not_passed_on():
    given = {
        "PATH": "/my/venv/bin", "HOME": "/home/u", "SBATCH_PARTITION": "x", "SLURM_JOB_ID": "1", "PYTHONPATH": "/x",
        "SLURM_CONF": "/etc/s.conf", "TOKEN": "secret", "LC_ALL": "de_DE",
    }  # fmt: skip
    found = clean(given, "/opt/slurm/bin")
    assert found == {
        "HOME": "/home/u", "SLURM_CONF": "/etc/s.conf", "LC_ALL": "C.UTF-8",
        "PATH": "/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    }  # fmt: skip


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that are found before the machine's own."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def command(programs: Path, name: str, does: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{does}\n")
    (programs / name).chmod(0o755)


@pytest.mark.parametrize("name", ["LOGNAME", "USER"])
def test_jobs_are_asked_for_whatever_the_environment_calls_their_user_and_wherever_they_are(
    name: str, programs: Path, monkeypatch: pytest.MonkeyPatch
):
    """squeue shows nothing of partitions that are hidden, or closed to the user's groups, unless it is told to."""
    monkeypatch.setenv(name, "somebody.else")
    command(programs, "squeue", f'printf "%s\\n" "$@" > {programs}/asked')
    assert Slurm().jobs("mine") == []
    asked = (programs / "asked").read_text().splitlines()
    assert [word for word in asked if word.startswith("--user")] == [f"--user={os.geteuid()}"]
    assert {"--all", "--name=mine"} <= set(asked)


@pytest.mark.parametrize(("partition", "told"), [("", "--all"), ("low", "--partition=low")])
def test_machines_of_a_partition_that_is_hidden_are_shown(programs: Path, partition: str, told: str):
    """sinfo refuses both together."""
    command(programs, "sinfo", f'printf "%s\\n" "$@" > {programs}/asked')
    Slurm().nodes(partition)
    asked = (programs / "asked").read_text().splitlines()
    assert [word for word in asked if word.startswith(("--all", "--partition"))] == [told]


def shown(word: str, name: str = "mine", user: int | None = None) -> str:
    """A command that says so of job 7."""
    user = os.geteuid() if user is None else user
    return f"echo 'JobId=7 JobName={name} UserId=u({user}) GroupId=u({user}) JobState={word} ExitCode=0:0'"


REFUSED = "echo 'slurm_load_jobs error: {}' >&2; exit 1"
FORGOTTEN = REFUSED.format("Invalid job id specified")


@pytest.mark.parametrize(
    ("scontrol", "says"),
    [
        (shown("RUNNING"), Ended("RUNNING")),
        (shown("TIMEOUT"), Ended("TIMEOUT")),
        (shown("RUNNING", name="yours"), None),
        (shown("TIMEOUT", name="yours"), None),
        (shown("RUNNING", user=os.geteuid() + 1), None),
        (FORGOTTEN, None),
        (REFUSED.format("Access/permission denied"), None),
        ("echo Job 7 not found; exit 1", None),
        ("true", None),
    ],
)
def test_only_the_users_job_of_this_name_counts(programs: Path, scontrol: str, says: Ended | None):
    """Ids begin anew with slurmctld's memory, and are others in another cluster."""
    command(programs, "scontrol", scontrol)
    command(programs, "sacct", "echo '7|TIMEOUT|1:00|mine'")
    assert Slurm().shown("7", "mine") == says


def test_ids_of_a_name_are_this_users_living_job_first_and_then_the_oldest(programs: Path):
    one, me = "echo 'JobId={} JobName={} UserId=u({}) JobState={} ExitCode=0:0'", os.geteuid()
    jobs = [
        (3, "mine", me, "COMPLETED"), (4, "mine", me + 1, "RUNNING"), (5, "mine2", me, "RUNNING"),
        (9, "mine", me, "RUNNING"), (8, "mine", me, "PENDING"),
    ]  # fmt: skip
    command(programs, "scontrol", "; ".join(one.format(*job) for job in jobs))
    assert Slurm().job_ids("mine") == ["8", "9", "3"]


def test_ids_of_a_name_that_slurmctld_does_not_have_come_from_accounts(programs: Path):
    me = os.geteuid()
    command(programs, "scontrol", "echo No jobs in the system")
    assert Slurm().job_ids("mine") == [], "no accounts are no error"
    command(programs, "sacct", f"printf '7|{me}|mine\\n8|{me + 1}|mine\\n9|{me}|mine|x\\n'")
    assert Slurm().job_ids("mine") == ["7"]


def test_ids_of_a_name_are_not_known_while_slurmctld_refuses_to_say(programs: Path):
    command(programs, "scontrol", REFUSED.format("Protocol authentication error"))
    with pytest.raises(UnreachableError, match="Protocol authentication error"):
        Slurm().job_ids("mine")


@pytest.mark.parametrize("why", ["Protocol authentication error", "Unable to contact slurm controller"])
def test_a_slurmctld_that_doesn_t_say_whether_a_job_lives_hasn_t_forgotten_it(programs: Path, why: str):
    command(programs, "scontrol", REFUSED.format(why))
    with pytest.raises(UnreachableError, match=why):
        Slurm().shown("7", "mine")


@pytest.mark.parametrize(
    ("sacct", "ended"),
    [
        ("echo '7|TIMEOUT|1:00|mine'", Ended("TIMEOUT", limit_s=60)),
        ("echo '7|TIMEOUT|1:00|yours'", None),
        ("echo '7|RUNNING|1:00|mine'", None),
        ("exit 1", None),
    ],
)
def test_accounts_tell_of_an_end_alone(programs: Path, sacct: str, ended: Ended | None):
    """What slurmctld has forgotten, they may hold to be running for ever."""
    command(programs, "sacct", sacct)
    assert Slurm().accounted("7", "mine") == ended


@pytest.mark.parametrize("says", ["", "scancel: error: Kill job error on job id 8: Access/permission denied"])
def test_to_tell_a_job_that_has_ended_is_no_error_and_what_scancel_says_is_one(says: str, programs: Path):
    command(programs, "scancel", f"echo '{says}' >&2\nexit 1")
    if says:
        with pytest.raises(EngineError, match="Access/permission denied"):
            Slurm().tell_to_end(["8"])
    else:
        Slurm().tell_to_end(["8"])
        with pytest.raises(EngineError):
            Slurm().cancel(["8"])


@pytest.mark.parametrize("limit", ["AssocMaxSubmitJobLimit", "AssocGrpSubmitJobsLimit", "QOSGrpSubmitJobsLimit"])
def test_limit_of_submitted_jobs_passes_when_one_of_them_ends(programs: Path, limit: str):
    refused = "Batch job submission failed: Job violates accounting/QOS policy"
    command(programs, "sbatch", f"echo 'sbatch: error: {limit}' >&2; echo 'sbatch: error: {refused}' >&2; exit 1")
    with pytest.raises(UnreachableError, match=limit):
        Slurm().submit("#!/bin/sh\n")


TRANSIENT = {
    "an inactive partition": "Batch job submission failed: Required partition not available (inactive or drain)",
    "a partition's limits": "Batch job submission failed: Requested partition configuration not available now",
    "a munged that restarts": "Batch job submission failed: Protocol authentication error",
    "slurmctld's full disk": "Batch job submission failed: I/O error writing script/environment to file",
    "no configuration": "fatal: Could not establish a configuration source",
}


@pytest.mark.parametrize("said", TRANSIENT.values(), ids=TRANSIENT)
def test_submission_that_slurm_may_take_later_is_not_refused(programs: Path, said: str):
    command(programs, "sbatch", f"echo 'sbatch: error: {said}' >&2; exit 1")
    with pytest.raises(UnreachableError, match=re.escape(said[-20:])):
        Slurm().submit("#!/bin/sh\n")


@pytest.mark.parametrize(
    "said",
    [
        "invalid partition specified: gpus",
        "Batch job submission failed: Requested node configuration is not available",
        "Batch job submission failed: Invalid account or account/partition combination specified",
    ],
)
def test_submission_that_slurm_never_takes_is_refused(programs: Path, said: str):
    command(programs, "sbatch", f"echo 'sbatch: error: {said}' >&2; exit 1")
    with pytest.raises(EngineError, match=said[-20:]):
        Slurm().submit("#!/bin/sh\n")


@pytest.mark.parametrize("said", ["slurm_load_jobs error: Invalid user id", "squeue: error: Munge encode failed"])
def test_question_for_jobs_that_is_refused_is_no_refusal_of_a_gang(programs: Path, said: str):
    command(programs, "squeue", f"echo '{said}' >&2; exit 1")
    with pytest.raises(UnreachableError, match=said.rpartition(" ")[2]):
        Slurm().jobs("mine")
