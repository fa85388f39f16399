"""Is the first process of a pod, and becomes its agent: `python -I FILE drumbeat.node.host.pod_start GIVEN WORK
CHECKPOINTS`.

GIVEN is a folder with the enrolment's two parts: `gang.json`, and `node.json` with what only this node is told. WORK
is a folder of this pod only: two attempts of a job that meet on a partitioned machine share no folder.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.programs import AGENT
from drumbeat.node.host.gangs import write_private
from drumbeat.node.host.own_programs import become, program
from drumbeat.node.host.server_names import require_resolvable

EXIT_NO_SERVER = 68
"""The exit code if the pod can't resolve the server's name."""
RESOLVE_S = 30.0


def main() -> None:
    """Doesn't return; raises OSError where the pod's folders can't be used."""
    given, work, checkpoints = sys.argv[1:4]
    root = Path(work) / "node"
    root.mkdir(0o700, parents=True, exist_ok=True)
    parts = [json.loads((Path(given) / name).read_bytes()) for name in ("gang.json", "node.json")]
    enrolment = wire.from_wire(Enrolment, {**parts[0], **parts[1]})
    try:
        require_resolvable(enrolment.servers, RESOLVE_S)
    except socket.gaierror as error:
        print(error.strerror, file=sys.stderr)  # noqa: T201 (Kubernetes keeps it)
        sys.exit(EXIT_NO_SERVER)
    own = replace(enrolment, root=f"{root}/root", checkpoints=checkpoints)
    write_private(root / "enrolment.json", wire.dumps(own))
    become([*program(AGENT), f"{root}/enrolment.json"], os.environ)


if __name__ == "__main__":
    main()
