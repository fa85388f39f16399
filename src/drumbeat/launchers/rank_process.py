"""The part of a rank's process that all launchers share that run the user's command once per rank."""

from __future__ import annotations

from collections.abc import Mapping

from drumbeat.launchers import environment_variables, path_substitution
from drumbeat.model import folder_layout
from drumbeat.model.logs import LogName
from drumbeat.model.plan import Plan, Rank
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster


def process(plan: Plan, roster: Roster, rank: Rank, own: Mapping[str, str]) -> ProcessSpec:
    """The process. own: the variables that the launcher sets."""
    root = roster.member(rank.node).root
    return ProcessSpec(
        rank=rank.rank,
        local_rank=rank.local_rank,
        role=rank.role,
        argv=("/bin/bash", "-c", path_substitution.fill(plan, root)),
        cwd=folder_layout.code_folder(root),
        log=LogName(roster.attempt, roster.round, rank.node, rank.rank).path,
        set={**environment_variables.job_variables(plan, roster, rank), **own},
        defaulted=environment_variables.defaults(plan, roster, rank),
        scrubbed=environment_variables.scrubbed(plan),
        path_first=plan.path_first,
    )
