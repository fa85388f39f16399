"""Where tests, benchmarks and the matrix keep what takes long to make: stores' servers, MPIs, environments, images."""

from __future__ import annotations

import os
from pathlib import Path

KEPT = Path(os.environ.get("TESTS_KEPT") or Path(__file__).parents[1] / ".cache").absolute()
"""`.cache` of this clone; `.ci/run` names one that all clones of a user share."""
