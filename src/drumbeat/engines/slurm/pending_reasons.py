"""Why a Slurm job waits, in words that are true where machines come and go. Pure.

Reasons that name a limit of an account or a QOS are put into words in `account_limit_reasons.py`.

Slurm's own reason is false while its machines are being switched off: it says that they are down or reserved.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumbeat.core.autoscaling import usually
from drumbeat.engines.slurm.account_limit_reasons import sentence_of
from drumbeat.engines.slurm.client import SlurmJob
from drumbeat.engines.slurm.node_states import RESUME_FAILED, NodeWord
from drumbeat.protocol.api.computes import NodeState
from drumbeat.protocol.plurals import name_some

_NOT_THERE = ("ReqNodeNotAvail", "Nodes required for job are DOWN")
_HELD = ("BeginTime", *_NOT_THERE)
_RESERVED = {
    "ReqNodeNotAvail, Reserved for maintenance": "its machines are reserved for maintenance; it starts before that "
    "only if its time limit ends before (scontrol show reservation)",
    "ReqNodeNotAvail, May be reserved for other job": "its machines may be reserved for others "
    "(scontrol show reservation)",
}
"""What a reservation keeps from starting, however the machines are. Some commands of Slurm print `_` for spaces."""


def word(job: SlurmJob, nodes: Mapping[str, NodeWord], reasons: Mapping[str, str], usual_s: float | None) -> str:
    """Slurm's word for a job, with what it waits for. nodes, reasons: of the partition's machines, by name."""
    if job.word == "CONFIGURING":
        machines = job.nodes or "its machines"
        return f"CONFIGURING: {machines} {'are' if _is_many(machines) else 'is'} being started{usually(usual_s)}"
    if job.word == "PENDING" and (sentence := sentence_of(job.reason) or _RESERVED.get(job.reason.replace("_", " "))):
        return f"{job.told}: {sentence}"
    if job.word != "PENDING" or not job.reason.startswith(_HELD):
        return job.told
    going = sorted(name for name, one in nodes.items() if one.state is NodeState.LEAVING)
    if going and job.reason.startswith(_NOT_THERE):
        return (
            f"PENDING: {name_some(going)} {'are' if len(going) > 1 else 'is'} being switched off, and on again for it"
        )
    failed = sorted(name for name, why in reasons.items() if RESUME_FAILED in why)
    if failed:
        return f"PENDING: {name_some(failed)} didn't start in time (Slurm's ResumeTimeout)"
    return job.told


def _is_many(machines: str) -> bool:
    return "[" in machines or "," in machines or machines == "its machines"
