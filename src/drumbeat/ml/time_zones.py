"""`TimeZone`: the Windows names of time zones by the identifiers of Azure's SDK."""

from __future__ import annotations

import re
from enum import StrEnum

from tzlocal.windows_tz import win_tz

from drumbeat.jobfile.schedules.time_zones import RETIRED

_OF_AZURE = {
    "AFGHANISTANA_STANDARD_TIME": "Afghanistan Standard Time",
    "E_AUSTRALIAN_STANDARD_TIME": "E. Australia Standard Time",
    "E_SOUTH_AMERICAN_STANDARD_TIME": "E. South America Standard Time",
    "TONGA__STANDARD_TIME": "Tonga Standard Time",
    "W_CENTEAL_AFRICA_STANDARD_TIME": "W. Central Africa Standard Time",
}
"""Identifiers that aren't made of the name, as Azure's SDK spells them."""


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()


TimeZone = StrEnum("TimeZone", _OF_AZURE | {_identifier(name): name for name in [*win_tz, *RETIRED]}, module=__name__)
"""Time zones of triggers, each by the identifier of its Windows name."""
