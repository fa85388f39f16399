"""Time zones by the names that schedules have: those of the IANA, and those of Windows, which Azure's files have."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from drumbeat.jobfile.reading.error_messages import nearest, shown
from drumbeat.model.errors import SpecError

RETIRED = {"Mid-Atlantic Standard Time": "Etc/GMT+2", "Kamchatka Standard Time": "Asia/Kamchatka"}
"""Windows names that Azure's SDK still has, and the Unicode table no longer."""


def zone_of(name: str) -> ZoneInfo:
    """Returns the time zone of a name such as `Europe/Berlin` or `W. Europe Standard Time`. Raises SpecError."""
    if zone := _zone(name) or _zone(_windows_names().get(name, "")):
        return zone
    fix = nearest(name, [*_iana_names(), *_windows_names()])
    raise SpecError(f"there is no time zone {shown(name)}", fix=fix or "Write one like `Europe/Berlin` or `UTC`.")


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):  # No such file, a path out of the folder, or a folder such as `Europe`.
        return None


def _windows_names() -> dict[str, str]:
    from tzlocal.windows_tz import win_tz

    return win_tz | RETIRED


def _iana_names() -> list[str]:
    from zoneinfo import available_timezones

    return sorted(available_timezones())
