"""`python -I -m drumbeat.agent.ending FOLDER`: ends what a dead keeper of this folder left; 1 = some of it is left."""

from __future__ import annotations

import sys

from drumbeat.agent.confinement import end_rest

if __name__ == "__main__":
    sys.exit(bool(end_rest(sys.argv[1])))
