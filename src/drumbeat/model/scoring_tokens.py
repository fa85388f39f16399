"""Tokens that let clients call an endpoint for an hour: the server signs them, the router checks them alone.

Also the secrets by which replicas prove themselves to the router: the node's agent and the server derive the same one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

LIFETIME_S = 3600
PREFIX = "dbs1."
SETTINGS_VARIABLE = "DRUMBEAT_SCORING"
"""The variable with the settings of a replica (JSON), which its job sets; it holds no secret."""
SECRET_VARIABLE = "DRUMBEAT_REPLICA_SECRET"  # noqa: S105 (a name)
"""The variable with the replica's secret, which the agent of its node sets."""
SERVERS_VARIABLE = "DRUMBEAT_REPLICA_SERVERS"
"""The variable with the addresses at which that agent calls the server, with spaces between; the router has a port at
each of their hosts.
"""
CA_VARIABLE = "DRUMBEAT_REPLICA_CA"
"""The variable with the certificate (PEM) of the authority by which that agent recognizes the server."""
PROGRAM_VARIABLE = "DRUMBEAT_REPLICA_PROGRAM"
"""The variable with the command line of the server that a replica stands in front of, and its port on the node's
loopback (JSON): the agent knows how the container of a server is started.
"""


def replica_secret(node_secret: str) -> str:
    """What a replica shows to the router, from the secret of its node, which is new with each attempt."""
    return hmac.new(node_secret.encode(), b"replica", hashlib.sha256).hexdigest()


def sign(endpoint: str, key: bytes, expires: int) -> str:
    """A token for an endpoint. expires: in seconds of Unix time."""
    payload = _encode(json.dumps({"endpoint": endpoint, "expires": expires}).encode())
    return f"{PREFIX}{payload}.{_encode(_signature(key, payload))}"


def is_valid(token: str, endpoint: str, key: bytes, now: float) -> bool:
    """Whether a token was signed with this key for this endpoint, and its hour isn't over."""
    payload, dot, signature = token.removeprefix(PREFIX).partition(".")
    if not token.startswith(PREFIX) or not dot:
        return False
    # The signature comes first: nothing of an unsigned payload is read.
    if not hmac.compare_digest(_encode(_signature(key, payload)).encode(), signature.encode()):
        return False
    try:
        content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return content["endpoint"] == endpoint and float(content["expires"]) > now
    except (ValueError, KeyError, TypeError):
        return False


def _signature(key: bytes, payload: str) -> bytes:
    return hmac.new(key, payload.encode(), hashlib.sha256).digest()


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
