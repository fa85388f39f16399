"""Signatures in addresses of blobs and logs: whose they are, what they open and until when. Never an account's key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from drumbeat.server.access.signed_tokens import SignedTokens

VERSION = "2021-12-02"
LIFE_S = 3600.0 * 12
"""Of a signature for blobs: an upload of many gigabytes uses one to its end."""
LOG_LIFE_S = 900.0
READ, WRITE = "rl", "racwl"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Opened:
    """What a signature opens. digest: of the token of the person whose it is; "" = the home's."""

    digest: str
    may_write: bool


def blob_query(tokens: SignedTokens, container: str, digest: str, *, may_write: bool) -> str:
    """Returns the signature of a container, as the query of an address."""
    ends = datetime.fromtimestamp(int(tokens.now() + LIFE_S), UTC).strftime(_TIME)
    rights = WRITE if may_write else READ
    signature = tokens.sign("blob", container, ends, rights, digest)
    # `skoid` names the owner of the key with which Azure's own user-delegation signatures are made.
    return urlencode({"sv": VERSION, "sr": "c", "sp": rights, "se": ends, "skoid": digest or "home", "sig": signature})


def read_blob_query(tokens: SignedTokens, container: str, query: Mapping[str, str]) -> Opened | None:
    """Returns what the signature in a query opens; None = it is wrong, or has expired."""
    ends, rights, owner = query.get("se", ""), query.get("sp", ""), query.get("skoid", "")
    digest = "" if owner == "home" else owner
    if not owner or not tokens.is_signed(query.get("sig", ""), "blob", container, ends, rights, digest):
        return None
    try:
        until = datetime.strptime(ends, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Opened(digest, "w" in rights) if tokens.now() < until.timestamp() else None


def log_path(tokens: SignedTokens, job: str, name: str) -> str:
    """Returns the path at which a log is read without a token, for some minutes."""
    # The end is rounded up, so that a reader sees one address for a while and reads on.
    ends = str(int((tokens.now() + LOG_LIFE_S) // LOG_LIFE_S + 1) * int(LOG_LIFE_S))
    query = urlencode({"se": ends, "sig": tokens.sign("log", job, name, ends)})
    return f"/azure-logs/{quote(job)}/{quote(name)}?{query}"


def is_log_open(tokens: SignedTokens, job: str, name: str, query: Mapping[str, str]) -> bool:
    """Whether the signature in a query opens a log."""
    ends = query.get("se", "")
    return tokens.is_current(ends) and tokens.is_signed(query.get("sig", ""), "log", job, name, ends)
