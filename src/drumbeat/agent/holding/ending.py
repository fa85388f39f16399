"""`python -I -m drumbeat.agent.holding.ending FOLDER`: ends what a dead keeper left there; 1 = some of it is left."""

from __future__ import annotations

import os
import sys

from drumbeat.agent.appearing import vanish
from drumbeat.agent.holding.confinement import end_rest
from drumbeat.agent.mounting.clearing import clear
from drumbeat.agent.mpi.place import clear_noted
from drumbeat.agent.ray import place as ray_place


def main() -> int:
    """Whether something can't be ended."""
    folder = os.path.abspath(sys.argv[1])
    root = os.path.dirname(folder)
    left = [*end_rest(folder), *clear(root)]
    clear_noted(f"{root}/mpi")
    ray_place.clear_noted(f"{root}/ray")
    vanish(root)
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
