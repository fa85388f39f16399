"""Incidents with labels: what blame is made with (`RULES`), and what it is judged by and nothing else (`JUDGE`).

The first are in `development_set` and `former_held_out_set`, the others in `held_out_set`.
"""

from tests.support.incidents.development_set import RULES as RULES_FIRST
from tests.support.incidents.former_held_out_set import RULES_MORE
from tests.support.incidents.held_out_set import JUDGE
from tests.support.incidents.incident import Incident, Said

RULES = (*RULES_FIRST, *RULES_MORE)

__all__ = ["JUDGE", "RULES", "Incident", "Said"]
