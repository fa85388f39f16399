"""Where the recordings of labelled incidents are (tools/incident_recordings.py)."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.incidents import Incident

RECORDINGS = Path(__file__).parent / "incidents"


def path_of(incident: Incident) -> Path:
    """The file of the incident's recording."""
    return RECORDINGS / f"{re.sub(r'[^a-z0-9]+', '-', incident.name.lower()).strip('-')}.json"
