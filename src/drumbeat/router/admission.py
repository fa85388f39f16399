"""Who may call an endpoint: keys in constant time, tokens for an hour. Pure."""

from __future__ import annotations

import hashlib
import hmac

from drumbeat.model.routing_table import EndpointRoute
from drumbeat.model.scoring_tokens import PREFIX, is_valid

_BEARER = "bearer "


def is_admitted(authorization: bytes, endpoint: str, route: EndpointRoute, now: float) -> bool:
    """Whether a request may reach an endpoint. now: Unix time."""
    text = authorization.decode("latin-1")
    if text[: len(_BEARER)].lower() != _BEARER:
        return False
    shown = text[len(_BEARER) :].strip()
    if route.auth == "aml_token":
        key = bytes.fromhex(route.token_key)
        return bool(key) and shown.startswith(PREFIX) and is_valid(shown, endpoint, key, now)
    return is_secret(shown, route.keys)


def is_secret(shown: str, digests: tuple[str, ...]) -> bool:
    """Whether a secret is one of those whose SHA-256 are given. All are compared, each in constant time."""
    digest = hashlib.sha256(shown.encode("utf-8", "surrogateescape")).hexdigest()
    matches = [hmac.compare_digest(digest, one) for one in digests]
    return any(matches)
