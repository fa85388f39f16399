"""Explains from the fields of a shared access signature of Azure why a store refuses it. Shows no secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from drumbeat.jobfile.data.credentials import read_sas
from drumbeat.model.errors import ForbiddenError
from drumbeat.server.data.stores.backend_contract import Trouble

NEEDS = {"list": "l", "read": "r", "write": "w", "remove": "d"}
WORDS = {"r": "read", "l": "list", "w": "write", "d": "delete", "a": "add", "c": "create"}
RENEW = "Create a new token, and store it with `drumbeat datastore create`, or submit the new URL."


def why_refused(token: str, verb: str, now: datetime) -> Trouble:
    """Returns why a store refused an operation with this token."""
    fields = read_sas(token)
    expiry, start = _time(fields.get("se")), _time(fields.get("st"))
    if expiry is not None and expiry <= now:
        return Trouble(ForbiddenError, f"the SAS token expired at {expiry:%Y-%m-%d %H:%M:%S} UTC", RENEW)
    if start is not None and start > now:
        what = f"the SAS token isn't valid before {start:%Y-%m-%d %H:%M:%S} UTC"
        return Trouble(ForbiddenError, what, "Wait, or check the server's clock.")
    allowed = fields.get("sp", "")
    if allowed and NEEDS[verb] not in allowed:
        can = ", ".join(WORDS[one] for one in allowed if one in WORDS) or "nothing"
        return Trouble(ForbiddenError, f"the SAS token allows to {can}, not to {WORDS[NEEDS[verb]]}", RENEW)
    if fields.get("sr") == "b" and verb == "list":
        return Trouble(ForbiddenError, "the SAS token is for one blob, not for its container", RENEW)
    what = "the SAS token isn't for this container or blob, or was signed with an old key of the account"
    return Trouble(ForbiddenError, what, RENEW)


def is_skewed(date: str | None, now: datetime) -> bool:
    """Whether this machine's clock differs too much from the `Date` of a store's response for its signatures."""
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date or "")
    except ValueError:
        return False
    return abs(moment - now) > timedelta(minutes=14)


def _time(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
