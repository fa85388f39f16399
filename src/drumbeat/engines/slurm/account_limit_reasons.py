"""What Slurm's reasons say that name a limit of an account or a QOS, in plain sentences. Pure.

The reasons, such as AssocGrpGRESMinutes and QOSMaxCpuPerUserLimit, are put together from few parts:
https://slurm.schedmd.com/job_reason_codes.html
"""

from __future__ import annotations

import re

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


def sentence_of(reason: str) -> str:
    """What a reason says that names a limit of an account or a QOS; "" = it is another reason."""
    match = _REASON.fullmatch(reason)
    if match is None or not (match["owner"] or match["per"] == "PerAccount"):
        return ""
    owner = "the account" if match["owner"].lower() == "assoc" else "the QOS"
    resource, per = _RESOURCES[match["resource"].lower()], match["per"].lower()
    minutes = f"minutes of {resource}" if match["minutes"] else resource
    if match["kind"].lower() == "min":
        return f"{owner} wants a job to ask for more {resource}"
    if per in ("perjob", "pernode") or (match["kind"].lower() == "max" and match["resource"].lower() == "wall"):
        each = "node" if per == "pernode" else "job"
        return f"it asks for more {minutes} than {owner} allows a {each}, and can't start as it is"
    if match["kind"].lower() == "grp":
        if match["minutes"].lower() == "minutes" or match["resource"].lower() == "wall":
            # With AccountingStorageEnforce=safe, what is left must last to the job's time limit.
            few = "few" if minutes.endswith("s") or "minutes" in minutes else "little"
            left = f"{owner} has too {few} {minutes} left for a job of this length"
            return f"{left}; a shorter time limit may fit, or who runs the cluster grants more"
        return f"with it, {owner} as a whole would have more {minutes} than it may"
    whose = "an account" if per == "peraccount" else "a user"
    return f"with it, {whose} would have more {minutes} than {owner} allows"
