"""Incidents with labels: what blame is made with (`RULES`), and what it is judged by and nothing else (`JUDGE`)."""

from drumbeat.testing.incidents.incident import Incident, Said
from drumbeat.testing.incidents.judge import JUDGE
from drumbeat.testing.incidents.rules import RULES

__all__ = ["JUDGE", "RULES", "Incident", "Said"]
