"""The job's preparation command, which runs once per node before the ranks, in their folder and
with their variables.
"""

from __future__ import annotations

from drumbeat.launchers import environment_variables, path_substitution
from drumbeat.model import folder_layout
from drumbeat.model.logs import NODE_LOG, LogName
from drumbeat.model.plan import Plan
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Member


def preparation(plan: Plan, member: Member, attempt: int, round: int) -> ProcessSpec | None:
    """The preparation's process on a node; None = the job has none. Without a roster, it has the node's number and no
    rank.
    """
    if not plan.prepare:
        return None
    return ProcessSpec(
        rank=NODE_LOG,
        local_rank=-1,
        role="preparation",
        argv=("/bin/bash", "-c", path_substitution.fill(plan, member.root, plan.prepare)),
        cwd=folder_layout.code_folder(member.root),
        log=LogName(attempt, round, member.node, NODE_LOG).path,
        set={**environment_variables.node_variables(plan, member, attempt), "NODE_RANK": str(member.node)},
        defaulted=environment_variables.defaults_of_node(member),
        scrubbed=environment_variables.scrubbed(plan),
        path_first=plan.path_first,
    )
