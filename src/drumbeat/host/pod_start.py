"""`python -I FILE drumbeat.host.pod_start ENROLMENT WORK CHECKPOINTS`: the first process of a pod; becomes its agent.

WORK is a folder of the pod alone: two attempts of a job that meet on a machine that was cut off share no folder.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from drumbeat.host.gangs import write_private
from drumbeat.host.program import become, program
from drumbeat.protocol import wire
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.programs import AGENT


def main() -> None:
    """Doesn't return; raises OSError where the pod's folders can't be used."""
    given, work, checkpoints = sys.argv[1:4]
    root = Path(work) / "node"
    root.mkdir(0o700, parents=True, exist_ok=True)
    enrolment = wire.loads(Enrolment, Path(given).read_bytes())
    own = replace(enrolment, root=f"{root}/root", checkpoints=checkpoints)
    write_private(root / "enrolment.json", wire.dumps(own))
    become([*program(AGENT), f"{root}/enrolment.json"], os.environ)


if __name__ == "__main__":
    main()
