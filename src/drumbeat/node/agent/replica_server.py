"""A replica in front of its image's own server: the scoring server runs on the node, the other one in a container.

So an image needs no Python, and its entry point and command run as they are.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from drumbeat.launchers.container_command import ContainerEngine, ImageServer, server_command
from drumbeat.model import programs
from drumbeat.model.plan import Plan
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Member
from drumbeat.model.scoring_tokens import (
    CA_VARIABLE,
    PROGRAM_VARIABLE,
    SECRET_VARIABLE,
    SERVERS_VARIABLE,
    SETTINGS_VARIABLE,
)
from drumbeat.node.host.own_programs import program

_OWN = frozenset({CA_VARIABLE, SECRET_VARIABLE, SERVERS_VARIABLE, SETTINGS_VARIABLE})
"""Variables of the replica that its server doesn't get."""
_APP_ROOT = "AML_APP_ROOT"
"""Where the server of one of Azure's images finds the scoring script."""


def before_server(spec: ProcessSpec, plan: Plan, member: Member, engine: ContainerEngine, port: int) -> ProcessSpec:
    """Returns the scoring server of a replica that starts its image's server. port: a free one of the node's."""
    behind: dict[str, Any] = json.loads(plan.variables[SETTINGS_VARIABLE])["behind"]
    given = {name: value for name, value in spec.set.items() if name not in _OWN}
    given.setdefault(_APP_ROOT, spec.cwd)
    server = ImageServer(behind["port"], port, tuple(behind["command"]))
    started = server_command(replace(spec, set=given), plan, member, engine, server)
    settings = {"port": port, "command": started.argv, "name": "the image's server"}
    return replace(
        spec,
        argv=tuple(program(programs.SCORING)),
        path_first=(),
        modules_last=(),
        set={**spec.set, **given, **started.set, PROGRAM_VARIABLE: json.dumps(settings)},
    )
