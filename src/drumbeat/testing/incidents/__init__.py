"""Incidents with labels: what blame is made with (`RULES`), and what it is judged by and nothing else (`JUDGE`)."""

from drumbeat.testing.incidents.incident import Incident, Said
from drumbeat.testing.incidents.judge import JUDGE
from drumbeat.testing.incidents.rules import RULES as RULES_FIRST
from drumbeat.testing.incidents.rules_more import RULES_MORE

RULES = (*RULES_FIRST, *RULES_MORE)

__all__ = ["JUDGE", "RULES", "Incident", "Said"]
