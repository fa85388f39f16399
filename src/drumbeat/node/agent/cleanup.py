"""Ends what an attempt's agent and supervisor left behind: `python -I -m drumbeat.node.agent.cleanup ROOT`.

Exit code 1: something can't be ended.
"""

from __future__ import annotations

import glob
import os
import sys

from drumbeat.node.images import container_engine
from drumbeat.node.inputs.mounting.unmounting import clear
from drumbeat.node.inputs.path_on_compute import vanish
from drumbeat.node.launchers import node_launchers
from drumbeat.node.supervisor import listener
from drumbeat.node.supervisor.confinement import end_rest


def main() -> int:
    """Returns 1 if something can't be ended."""
    return int(clean(os.path.abspath(sys.argv[1])))


def clean(root: str) -> bool:
    """Ends what was left in the folder of an attempt; returns whether something can't be ended."""
    here = glob.escape(root)
    held = [*glob.glob(f"{here}/keeper"), *glob.glob(f"{here}/errands/*")]
    for one in held:
        listener.end_supervisor(one)
    left = [*(pid for one in held for pid in end_rest(one)), *clear(root)]
    node_launchers.clear_all(root)
    vanish(root)
    why = container_engine.clear(root)  # Last, because an engine that doesn't answer takes long.
    if why:
        print(f"{root}: {why}", file=sys.stderr)  # noqa: T201 (no other process reports it)
    return bool(left or why)


if __name__ == "__main__":
    sys.exit(main())
