"""`python -I -m drumbeat.agent.ending FOLDER`: ends what a dead keeper of this folder left; 1 = some of it is left."""

from __future__ import annotations

import os
import sys

from drumbeat.agent.confinement import end_rest
from drumbeat.agent.mpi.place import clear_noted


def main() -> int:
    """Whether something can't be ended."""
    folder = os.path.abspath(sys.argv[1])
    left = end_rest(folder)
    clear_noted(f"{os.path.dirname(folder)}/mpi")
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
