"""Slurm's words for machines that come and go, as they were seen on Slurm 22.05, and the settings behind them."""

from __future__ import annotations

import pytest

from drumbeat.engines.slurm import node_states, pending_reasons, power_saving
from drumbeat.engines.slurm.client import SlurmJob, read_preempted
from drumbeat.engines.slurm.loss_reasons import preemption_notice
from drumbeat.engines.slurm.node_states import NodeWord
from drumbeat.engines.slurm.power_saving import Power
from drumbeat.model.api.computes import NodeState, Tier

pytestmark = pytest.mark.feature("C1", "C4")

DOWN = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
PARTITION = (
    "PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=el-[2-3] PriorityJobFactor=1 PriorityTier=10 RootOnly=NO "
    "ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=8 TotalNodes=2 "
    "SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
    "TRES=cpu=8,mem=8000M,node=2,billing=8 ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=8 "
)
CONFIG = """\
KillWait                = 30 sec
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
PreemptExemptTime       = 00:00:00
ResumeFailProgram       = /tmp/el/resumefail
ResumeProgram           = /tmp/el/resume
ResumeRate              = 0 nodes/min
ResumeTimeout           = 40 sec
SuspendExcNodes         = (null)
SuspendExcParts         = (null)
SuspendProgram          = /tmp/el/suspend
SuspendRate             = 0 nodes/min
SuspendTime             = INFINITE
SuspendTimeout          = 5 sec
"""


@pytest.mark.parametrize(
    ("word", "why", "state"),
    [
        ("idle", "none", "idle"), ("mixed", "none", "running"), ("allocated", "none", "running"),
        ("completing", "none", "running"), ("planned", "none", "idle"), ("mixed-", "none", "running"),
        ("mixed+", "none", "running"), ("brand_new", "none", "idle"), ("idle@", "none", "idle"),
        ("idle~", "none", "off"), ("powered_down", "none", "off"),
        ("mixed~", "none", "preparing"), ("allocated~", "none", "preparing"),
        ("mixed#", "none", "preparing"), ("idle#", "none", "preparing"), ("idle^", "none", "preparing"),
        ("idle%", "none", "leaving"), ("idle!", "none", "leaving"), ("powering_down", "none", "leaving"),
        ("mixed*", "none", "unusable"), ("down*", "Not responding", "unusable"), ("idle*", "none", "unusable"),
        ("down!", "ResumeTimeout reached", "unusable"), ("down", "bad fan", "unusable"),
        ("drained", "Low RealMemory", "unusable"), ("draining", "week 12", "unusable"), ("idle$", "none", "unusable"),
    ],
)  # fmt: skip
def test_each_slurm_state_maps_to_a_node_state(word: str, why: str, state: str):
    assert node_states.meaning(word, why).state == state


def test_a_machine_that_never_came_says_so_and_how_it_is_given_back():
    why = "Slurm switched it on, and it didn't start within 40 s (ResumeTimeout)"
    assert node_states.meaning("down!", "ResumeTimeout reached", 40).why == (
        f"{why}; scontrol update nodename=… state=power_down_force gives it back"
    )
    assert node_states.meaning("down", "bad fan").why == "it is down (bad fan)"
    assert node_states.meaning("idle~", "none").why == "it is switched off; Slurm starts it when a job needs it"


def test_a_partition_s_own_numbers_count_before_the_cluster_s():
    assert power_saving.read_power(PARTITION, CONFIG) == Power("main", 8, 40, "", can_preempt=True, is_preempted=False)
    common = CONFIG.replace("SuspendTime             = INFINITE", "SuspendTime             = 300 sec")
    without = PARTITION.replace("SuspendTime=8", "SuspendTime=GLOBAL")
    assert power_saving.read_power(without, common).suspend_time_s == 300


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SuspendTime=8", "SuspendTime=INFINITE"), ("SuspendTime=8", "SuspendTime=GLOBAL"),
        ("SuspendProgram          = /tmp/el/suspend", "SuspendProgram          = (null)"),
        ("SuspendExcParts         = (null)", "SuspendExcParts         = main,other"),
    ],
)  # fmt: skip
def test_a_cluster_that_switches_nothing_off_has_no_suspend_time(old: str, new: str):
    assert power_saving.read_power(PARTITION.replace(old, new), CONFIG.replace(old, new)).suspend_time_s is None


def test_a_partition_that_is_preempted_is_low_priority():
    low = PARTITION.replace("PreemptMode=OFF", "PreemptMode=REQUEUE")
    assert power_saving.read_power(low, CONFIG).is_preempted
    assert not power_saving.read_power(low, CONFIG.replace("preempt/partition_prio", "preempt/none")).is_preempted
    assert power_saving.scale(power_saving.read_power(low, CONFIG), ["n1"], 0, None).tier is Tier.LOW_PRIORITY


def test_the_scale_is_the_partition_s():
    scale = power_saving.scale(power_saving.read_power(PARTITION, CONFIG), ["n1", "n2"], 1, 31.0)
    numbers = (scale.min_instances, scale.max_instances, scale.idle_time_s, scale.start_timeout_s, scale.usual_start_s)
    assert numbers == (1, 2, 8, 40, 31)
    fixed = power_saving.scale(Power("main"), ["n1", "n2"], 0, None)
    assert (fixed.min_instances, fixed.max_instances, fixed.idle_time_s) == (2, 2, None)


@pytest.mark.parametrize(("kept", "count"), [("", 0), ("n[1-2]", 2), ("n[1-2]:1", 1), ("n[1-2]:5", 2)])
def test_machines_that_are_never_switched_off_are_counted(kept: str, count: int):
    listed = ["n1", "n2", "elsewhere"] if kept else []
    assert power_saving.count_kept(Power(always_on=kept), listed, ["n1", "n2", "n3"]) == count


# --- what a job waits for ---------------------------------------------------------------------------------------
MAINTENANCE = "ReqNodeNotAvail, Reserved for maintenance"
BEFORE_IT = "it starts before that only if its time limit ends before (scontrol show reservation)"
FOR_OTHERS = "ReqNodeNotAvail, May be reserved for other job"
GOING = {"n1": NodeWord(NodeState.LEAVING), "n2": NodeWord(NodeState.LEAVING), "n3": NodeWord(NodeState.IDLE)}


@pytest.mark.parametrize(
    ("job", "nodes", "reasons", "word"),
    [
        (SlurmJob("1", "PENDING", reason="Resources"), GOING, {}, "PENDING (Resources)"),
        (SlurmJob("1", "PENDING", reason="QOSMaxCpuPerUserLimit"), GOING, {},
         "PENDING (QOSMaxCpuPerUserLimit): with it, a user would have more CPUs than the QOS allows"),
        (SlurmJob("1", "RUNNING", nodes="n1"), GOING, {}, "RUNNING"),
        (SlurmJob("1", "CONFIGURING", nodes="n[1-2]"), {}, {},
         "CONFIGURING: n[1-2] are being started (usually 31 s here)"),
        (SlurmJob("1", "CONFIGURING", nodes="n1"), {}, {}, "CONFIGURING: n1 is being started (usually 31 s here)"),
        (SlurmJob("1", "PENDING", reason=DOWN), GOING, {},
         "PENDING: n1 and n2 are being switched off, and then on again for the job"),
        (SlurmJob("1", "PENDING", reason="ReqNodeNotAvail, UnavailableNodes:n1"), GOING, {},
         "PENDING: n1 and n2 are being switched off, and then on again for the job"),
        (SlurmJob("1", "PENDING", reason=DOWN), {}, {"n2": "ResumeTimeout reached", "n1": "none"},
         "PENDING: n2 didn't start in time (Slurm's ResumeTimeout)"),
        (SlurmJob("1", "PENDING", reason=MAINTENANCE), GOING, {},
         f"PENDING ({MAINTENANCE}): its machines are reserved for maintenance; {BEFORE_IT}"),
        (SlurmJob("1", "PENDING", reason=MAINTENANCE.replace(" ", "_")), {}, {"n2": "ResumeTimeout reached"},
         f"PENDING ({MAINTENANCE.replace(' ', '_')}): its machines are reserved for maintenance; {BEFORE_IT}"),
        (SlurmJob("1", "PENDING", reason=FOR_OTHERS), GOING, {"n2": "ResumeTimeout reached"},
         f"PENDING ({FOR_OTHERS}): its machines may be reserved for others (scontrol show reservation)"),
        (SlurmJob("1", "PENDING", reason="BeginTime"), GOING, {"n2": "ResumeTimeout reached"},
         "PENDING: n2 didn't start in time (Slurm's ResumeTimeout)"),
        (SlurmJob("1", "PENDING", reason=DOWN), {}, {"n1": "bad fan"}, f"PENDING ({DOWN})"),
    ],
)  # fmt: skip
def test_a_job_that_waits_says_for_what(job: SlurmJob, nodes: dict[str, NodeWord], reasons: dict[str, str], word: str):
    assert pending_reasons.word(job, nodes, reasons, 31.0) == word


@pytest.mark.feature("C6")
def test_jobs_that_are_about_to_be_preempted_are_read_with_their_time():
    printed = "7            N/A                   \n8            2026-11-26T05:41:09   \n"
    assert read_preempted(printed) == {"8": "2026-11-26T05:41:09"}
    assert preemption_notice("8", "2026-11-26T05:41:09", 15.0) == (
        "Slurm will take the nodes away for another job after a grace time of 15 s (Slurm job 8, PreemptTime 05:41:09)"
    )
    assert preemption_notice("7", "", 15.0) == ""
    assert power_saving.read_power(PARTITION.replace("GraceTime=0", "GraceTime=15"), CONFIG).grace_s == 15
