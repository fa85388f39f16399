"""URLs that hold a credential: a signature, a token or a password.

They are refused, because a URL is stored and shown with the job or the data that names it. Credentials belong to a
datastore, which keeps them sealed.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from pydantic import AfterValidator

from drumbeat.jobfile.reading.field_types import complaint

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/?#]*)[^?#]*\??(?P<query>[^#]*)", re.DOTALL)
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_TELLING = frozenset(
    {"apikey", "auth", "authorization", "credential", "key", "pass", "passwd", "password", "pwd", "secret", "sig"}
    | {"signature", "sas", "token", "accesstoken", "jwt"}
)
"""Last words of the query parameters that hold credentials."""

_FIX = "Make a datastore of it, with {}, and write `azureml://datastores/NAME/paths/PATH`: see docs/data.md."
_FIX_SAS = _FIX.format("`type: azure_blob` and `credentials: {sas_token: 'env:NAME'}`")
_FIX_QUERY = _FIX.format("`type: http` and `credentials: {query: 'env:NAME'}`")
_FIX_USER = _FIX.format("its user and password under `credentials`")


def trouble_with(text: str) -> tuple[str, str] | None:
    """Why a URL with a credential is refused, without the credential, and what to do; None for any other text."""
    match = _ADDRESS.match(text.strip())
    if match is None:
        return None
    user, at, _ = match["host"].rpartition("@")
    if at and (":" in user or match["scheme"].lower() in ("http", "https")):
        return "this URL has a user or a password in it, and URLs are stored and shown", _FIX_USER
    names = [unquote(pair.partition("=")[0]) for pair in re.split("[&;]", match["query"])]
    telling = next((name for name in names if _BETWEEN_WORDS.split(name)[-1].lower() in _TELLING), None)
    if telling is None:
        return None
    what = f"`{telling[:40]}=…` in this URL is a credential, and URLs are stored and shown"
    return what, _FIX_SAS if {"sv", "sig"} <= {*names} else _FIX_QUERY


def _require_plain(value: str) -> str:
    if trouble := trouble_with(value):
        raise complaint(*trouble)
    return value


NoSecret = AfterValidator(_require_plain)
"""Refuses a text that is a URL with a credential."""
