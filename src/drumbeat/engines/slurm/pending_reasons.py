"""Why a Slurm job waits; corrected for clusters that switch machines off. Pure.

Slurm's own reason is wrong while its machines are being switched off: it says that they are down or reserved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from drumbeat.core.scheduling.autoscaling import usually
from drumbeat.engines.slurm.client import SlurmJob
from drumbeat.engines.slurm.node_states import RESUME_FAILED, NodeWord
from drumbeat.model.api.computes import NodeState
from drumbeat.model.plurals import name_some

_NOT_THERE = ("ReqNodeNotAvail", "Nodes required for job are DOWN")
_HELD = ("BeginTime", *_NOT_THERE)
_RESERVED = {
    "ReqNodeNotAvail, Reserved for maintenance": "its machines are reserved for maintenance; it starts before that "
    "only if its time limit ends before (scontrol show reservation)",
    "ReqNodeNotAvail, May be reserved for other job": "its machines may be reserved for others "
    "(scontrol show reservation)",
}
"""Reasons by a reservation, whatever the states of the machines. Some commands of Slurm print `_` for spaces."""


def word(job: SlurmJob, nodes: Mapping[str, NodeWord], reasons: Mapping[str, str], usual_s: float | None) -> str:
    """Slurm's state of a job, with what it waits for. nodes, reasons: of the partition's machines, by name."""
    if job.word == "CONFIGURING":
        machines = job.nodes or "its machines"
        return f"CONFIGURING: {machines} {'are' if _is_many(machines) else 'is'} being started{usually(usual_s)}"
    if job.word == "PENDING" and (limit := describe_limit(job.reason) or _RESERVED.get(job.reason.replace("_", " "))):
        return f"{job.state_and_reason}: {limit}"
    if job.word != "PENDING" or not job.reason.startswith(_HELD):
        return job.state_and_reason
    going = sorted(name for name, one in nodes.items() if one.state is NodeState.LEAVING)
    if going and job.reason.startswith(_NOT_THERE):
        machines = f"{name_some(going)} {'are' if len(going) > 1 else 'is'}"
        return f"PENDING: {machines} being switched off, and then on again for the job"
    failed = sorted(name for name, why in reasons.items() if RESUME_FAILED in why)
    if failed:
        return f"PENDING: {name_some(failed)} didn't start in time (Slurm's ResumeTimeout)"
    return job.state_and_reason


def _is_many(machines: str) -> bool:
    return "[" in machines or "," in machines or machines == "its machines"


# The reasons that name them, such as AssocGrpGRESMinutes and QOSMaxCpuPerUserLimit, are composed of few parts:
# https://slurm.schedmd.com/job_reason_codes.html

_RESOURCES = {
    "bb": "burst buffers",
    "billing": "billing units",
    "cpu": "CPUs",
    "energy": "energy",
    "gres": "GPUs (or other GRES)",
    "job": "running jobs",
    "license": "licenses",
    "mem": "memory",
    "node": "nodes",
    "submitjob": "running and waiting jobs",
    "unknown": "units of a resource",
    "wall": "time",
}
_REASON = re.compile(
    r"(?P<owner>Assoc|QOS|)(?P<kind>Grp|Max|Min)"
    r"(?P<resource>BB|Billing|Cpu|Energy|GRES|Job|License|Mem|Node|SubmitJob|Unknown|Wall)s?(?:ory|Duration)?"
    r"(?P<minutes>RunMinutes|Minutes|)(?P<per>PerJob|PerNode|PerUser|PerAccount|)(?:Limit|NotSatisfied)?",
    re.IGNORECASE,
)


def describe_limit(reason: str) -> str:
    """The explanation of a reason that names a limit of an account or a QOS; "" = it is another reason."""
    match = _REASON.fullmatch(reason)
    if match is None or not (match["owner"] or match["per"] == "PerAccount"):
        return ""
    owner = "the account" if match["owner"].lower() == "assoc" else "the QOS"
    resource, per = _RESOURCES[match["resource"].lower()], match["per"].lower()
    minutes = f"minutes of {resource}" if match["minutes"] else resource
    if match["kind"].lower() == "min":
        return f"{owner} requires a job to request more {resource}"
    if per in ("perjob", "pernode") or (match["kind"].lower() == "max" and match["resource"].lower() == "wall"):
        each = "node" if per == "pernode" else "job"
        return f"it requests more {minutes} than {owner} allows per {each}, and can't start as it is"
    if match["kind"].lower() == "grp":
        if match["minutes"].lower() == "minutes" or match["resource"].lower() == "wall":
            # With AccountingStorageEnforce=safe, the remainder must cover the job's whole time limit.
            few = "few" if minutes.endswith("s") or "minutes" in minutes else "little"
            left = f"{owner} has too {few} {minutes} left for a job of this length"
            return f"{left}; a shorter time limit may fit, or the cluster's administrator may grant more"
        return f"with it, {owner} as a whole would exceed its limit of {minutes}"
    whose = "an account" if per == "peraccount" else "a user"
    return f"with it, {whose} would have more {minutes} than {owner} allows"
